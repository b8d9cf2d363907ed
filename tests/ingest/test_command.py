from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.command import read_command
from firstfault.model.bundle import SourceKind
from firstfault.model.fact import Setting
from reader_lines import context, lines


def read(text: str, kind: SourceKind = "command") -> tuple[Setting, ...]:
    return read_command(lines(text), context("job.sh", kind))


def family(settings: tuple[Setting, ...], name: str) -> dict[str, Any]:
    return {setting.key: setting.value for setting in settings if setting.family == name}


def test_options_belong_to_the_launcher_up_to_the_script() -> None:
    settings = read("accelerate launch --multi_gpu --num-processes 4 train.py --num_processes 9 --lr=1e-4 --bf16\n")
    assert family(settings, "command") == {
        "launcher": "accelerate",
        "script": "train.py",
        "--multi_gpu": True,
        "--num_processes": 4,
    }
    assert family(settings, "arguments") == {"num_processes": 9, "lr": 1e-4, "bf16": True}
    assert len({setting.span for setting in settings}) == 1


@pytest.mark.parametrize(
    ("text", "launcher", "options"),
    [
        (
            "torchrun --standalone --nproc_per 2 -m pkg.train",
            "torchrun",
            {"--standalone": True, "--nproc_per_node": 2, "-m": True},
        ),
        ("python -m torch.distributed.run --nnodes=1:4 t.py", "torchrun", {"--nnodes": "1:4"}),
        ("python3.11 -u -m accelerate.commands.launch --cpu t.py", "accelerate", {"--cpu": True}),
        (
            "deepspeed --include localhost:0,1 --no_local_rank t.py",
            "deepspeed",
            {"--include": "localhost:0,1", "--no_local_rank": True},
        ),
        ("mpirun -np 8 --allow-run-as-root python t.py", "mpirun", {"-np": 8, "--allow-run-as-root": True}),
        ("srun -N 2 --ntasks-per-node=4 python t.py", "srun", {"--nodes": 2, "--ntasks-per-node": 4}),
        ("/opt/env/bin/python -u t.py", "python", {"-u": True}),
        ("docker run --gpus all image:1 torchrun --nproc-per-node=2 t.py", "torchrun", {"--nproc_per_node": 2}),
        ("ssh node-2 'cd /work && torchrun --node_rank 1 t.py' &", "torchrun", {"--node_rank": 1}),
        ("nohup torchrun --nnodes 1 t.py > out.log 2>&1 &", "torchrun", {"--nnodes": 1}),
    ],
)
def test_reads_launchers_and_what_stands_around_them(text: str, launcher: str, options: dict[str, Any]) -> None:
    found = family(read(text), "command")
    assert found.pop("launcher") == launcher
    assert found.pop("script") in ("t.py", "pkg.train")
    assert found == options


def test_a_launcher_inside_srun_keeps_both_sets_of_options() -> None:
    found = family(read("srun --ntasks-per-node=1 torchrun --nnodes 2 --nproc_per_node 8 t.py"), "command")
    assert found == {
        "launcher": "torchrun",
        "script": "t.py",
        "--nnodes": 2,
        "--nproc_per_node": 8,
        "wrapper": "srun",
        "srun --ntasks-per-node": 1,
    }


SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2 -c 8
#SBATCH --gres=gpu:4   # all of them
export NCCL_DEBUG=INFO OMP_NUM_THREADS=1
# torchrun --nproc_per_node 1 old.py
CUDA_VISIBLE_DEVICES=0,1 torchrun \\
    --nproc_per_node 2 \\
    train.py --name "two words" # comment
echo done
"""


def test_reads_a_job_script() -> None:
    settings = read(SCRIPT)
    assert family(settings, "command") == {
        "#SBATCH --nodes": 2,
        "#SBATCH --cpus-per-task": 8,
        "#SBATCH --gres": "gpu:4",
        "launcher": "torchrun",
        "script": "train.py",
        "--nproc_per_node": 2,
    }
    assert family(settings, "environment") == {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert family(settings, "arguments") == {"name": "two words"}
    launcher = next(setting for setting in settings if setting.key == "launcher")
    assert launcher.span.line == 6
    assert SCRIPT.encode()[launcher.span.offset :].startswith(b"CUDA_VISIBLE")


def test_two_commands_on_one_line_have_two_places() -> None:
    settings = read("python prepare.py && torchrun train.py")
    assert len({setting.span for setting in settings if setting.key == "script"}) == 2


def test_a_command_with_words_left_out_says_so() -> None:
    assert family(read("torchrun --nnodes 2 ... train.py"), "command")["..."] is True


@pytest.mark.parametrize("prompt", ["$ ", "(venv) user@node-1:~/work$ ", "[user@node-1 work]$ ", "+ ", "!", ""])
def test_a_terminal_shows_its_commands(prompt: str) -> None:
    assert family(read(f"{prompt}torchrun --nproc_per_node 2 t.py", "log"), "command")["--nproc_per_node"] == 2


@pytest.mark.parametrize(
    "text",
    [
        "torchrun hangs on the second node",
        "we use accelerate launch for it.",
        '  File "/opt/env/bin/torchrun", line 8, in <module>',
        "2031-01-01 INFO starting python train.py --x 1",
        "$ python -m pip install torch",
        "$ python -c 'import torch'",
        "$ accelerate env",
        "$ cat train.py",
    ],
)
def test_other_text_is_no_command(text: str) -> None:
    assert read(text, "log") == ()


@given(st.text(max_size=120))
def test_any_text_is_survived(tail: str) -> None:
    read(f"torchrun {tail}")
    read(f"#SBATCH {tail}")
    read(f"export {tail}")
