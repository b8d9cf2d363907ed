from __future__ import annotations

import pytest

from firstfault.ingest.linekind import kind_of
from firstfault.launch.plan_script import Script, script_of
from launch_requests import plan_of, request


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python train.py --lr 1", "train.py"),
        ("accelerate launch --multi_gpu --num_processes 4 python train.py", "python"),
        ("torchrun --nproc_per_node 2 train.py", "train.py"),
        ("accelerate launch --multi_gpu --num_processes 4 --same_network false train.py", "false"),
    ],
)
def test_the_script_is_the_first_word_that_is_run(line: str, name: str) -> None:
    assert script_of(plan_of(line), request(line)).name == name


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("from trl import SFTTrainer\nSFTTrainer(model).train()\n", "transformers"),
        ("import lightning as L\nL.Trainer()\n", "lightning"),
        ("from accelerate import Accelerator\nAccelerator()\n", "accelerate"),
        ("import torch.distributed as dist\ndist.init_process_group('nccl')\n", "torch"),
        ("from project import main\nmain()\n", None),
    ],
)
def test_the_loop_is_known_by_what_the_script_calls(text: str, framework: str | None) -> None:
    assert Script("train.py", (), text).framework == framework


@pytest.mark.parametrize("line", ["python train.py it needs about 20 GB and runs fine there", "torchrun x.py --a 1"])
def test_a_sentence_that_begins_with_a_command_is_none(line: str) -> None:
    assert (kind_of(line) == "command") == ("--a" in line)
