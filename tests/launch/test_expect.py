from __future__ import annotations

import pytest

from firstfault.errors import UsageError
from firstfault.launch.expect import differences, read_expectation
from launch_requests import plan_of


def unmet(text: str, line: str, **known: object) -> dict[str, str | None]:
    return {one.name: one.found for one in differences(plan_of(line, **known), read_expectation(text))}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1 process on 1 GPU", "CUDA_VISIBLE_DEVICES=2 python train.py"),
        ("1 process on 4 GPUs, DataParallel, batch 16", "python train.py"),
        ("4 processes on 1 GPU each, DDP", "torchrun --nproc_per_node 4 train.py"),
        ("4 processes per machine on 4 gpus", "torchrun --nproc_per_node 4 train.py"),
        ("16 processes in total", "torchrun --nnodes 4 --nproc_per_node 4 --master_addr a train.py"),
        ("FSDP", "accelerate launch --use_fsdp --num_processes 4 train.py"),
        ("DeepSpeed", "accelerate launch --use_deepspeed --num_processes 4 train.py"),
        ("single", "CUDA_VISIBLE_DEVICES=0 python train.py"),
        ("batch 32", "torchrun --nproc_per_node 2 train.py --per_device_train_batch_size 8 --gradient_accumulation_steps 2"),
    ],
)
def test_a_plan_as_expected_differs_in_nothing(text: str, line: str) -> None:
    assert unmet(text, line) == {}


def test_each_difference_is_named_with_what_it_is() -> None:
    assert unmet("1 process on 1 GPU, single", "python train.py") == {"gpus": "4", "mode": "DataParallel"}
    assert unmet("2 processes, batch 9", "torchrun --nproc_per_node 4 train.py") == {"processes": "4", "batch": "16"}


def test_without_the_gpus_it_is_not_known() -> None:
    assert unmet("1 process on 1 GPU", "python train.py", gpus=None) == {"gpus": None}


def test_a_launch_that_stops_is_nothing_that_was_expected() -> None:
    assert unmet("1 process", "accelerate launch --multi_gpu --num_processes 1 train.py") == {
        "processes": "stops with ValueError"
    }


@pytest.mark.parametrize("text", ["", " , ", "many processes", "1 process on GPU", "batch x"])
def test_what_is_not_understood_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        read_expectation(text)
