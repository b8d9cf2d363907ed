"""What people type, paste and put into job scripts, as `plan` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firstfault.cli.plan import exit_code
from firstfault.cli.request import request_of
from firstfault.errors import UsageError
from firstfault.launch.plan import plan
from firstfault.launch.request import Machine
from firstfault.model.plan import Plan

FOUR = Machine(gpus=4, cpus=8)


@pytest.fixture(autouse=True)
def clean_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "RANK", "WORLD_SIZE", "NGPU"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def planned(*words: str) -> Plan:
    return plan(request_of(words, FOUR, {"accelerate": "1.15.0"}))


@pytest.mark.parametrize(
    ("text", "tool", "processes", "gpus"),
    [
        ("$ torchrun --nproc_per_node 2 t.py", "torchrun", 2, 4),
        ("N=2; torchrun --nproc_per_node $N $SCRIPT --lr 1", "torchrun", 2, 4),
        ("(venv) user@host:~/x$ torchrun --nproc_per_node 2 t.py", "torchrun", 2, 4),
        ("!accelerate launch --num_processes 2 t.py", "accelerate", 2, 4),
        ("python.exe t.py --lr 1", "python", 1, 4),
        ("screen -dmS x python t.py", "python", 1, 4),
        ("tmux new-session -d -s x 'CUDA_VISIBLE_DEVICES=1 python t.py'", "python", 1, 1),
        ("sbatch -N 1 --wrap 'torchrun --nproc_per_node 4 t.py'", "torchrun", 4, 4),
        ("docker run --gpus 2 -v a:b img torchrun --nproc_per_node 2 t.py", "torchrun", 2, 2),
        ("docker run --gpus '\"device=3\"' img python t.py", "python", 1, 1),
        ("nohup torchrun --nproc_per_node 4 t.py > log 2>&1 &", "torchrun", 4, 4),
        ("bash -c \"bash -c 'torchrun --nproc_per_node 3 t.py'\"", "torchrun", 3, 4),
        ("conda run -n e python -m accelerate.commands.launch --num_processes 2 t.py", "accelerate", 2, 4),
        ("for i in 2 3; do CUDA_VISIBLE_DEVICES=$i python t.py & done; wait", "python", 1, 1),
    ],
)
def test_a_line_as_it_is_typed_or_pasted(text: str, tool: str, processes: int, gpus: int) -> None:
    found = planned(text)
    assert (found.tool, found.nproc_per_node, len(found.processes[0].visible or ())) == (tool, processes, gpus)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("torchrun --nproc_per_node $(nvidia-smi -L | wc -l) t.py", "nproc_per_node"),
        ("torchrun --nproc_per_node $NGPU t.py", "nproc_per_node"),
        ("torchrun $DISTRIBUTED_ARGS t.py --lr 1", "$DISTRIBUTED_ARGS"),
        ('torchrun "$@"', "$@"),
        ("accelerate launch --num_processes $NGPU t.py", "num_processes"),
        ("accelerate launch --num-processes=$NGPU t.py", "num_processes"),
        ("accelerate launch --config_file $CONFIG t.py", "config_file"),
        ("accelerate launch $ARGS t.py", "$ARGS"),
        ("deepspeed --num_gpus $NGPU t.py", "num_gpus"),
        ("deepspeed --include $HOSTS t.py", "include"),
        ("mpirun -np $NGPU python t.py", "mpi.processes"),
    ],
)
def test_what_only_a_shell_knows_stays_unknown(text: str, fact: str) -> None:
    found = planned(text)
    assert (found.nproc_per_node, found.error, exit_code(found)) == (None, None, 3)
    assert fact in {one.fact.replace("-", "_") for one in found.unknown}


@pytest.mark.parametrize(
    ("text", "fact", "launcher"),
    [
        ("accelerate launch --main_process_port $PORT --num_processes 2 t.py", "main_process_port", "multi_gpu_launcher"),
        ("accelerate launch --cpu --num_processes $N t.py", "num_processes", "simple_launcher"),
        ("accelerate launch --mixed_precision $P --multi_gpu --num_processes 2 t.py", "mixed_precision", "multi_gpu_launcher"),
        ("CUDA_VISIBLE_DEVICES=$IDS python t.py", "CUDA_VISIBLE_DEVICES", None),
    ],
)
def test_what_every_value_leaves_the_same_is_known(text: str, fact: str, launcher: str | None) -> None:
    found = planned(text)
    assert [one.fact for one in found.unknown] == [fact]
    assert found.launcher == launcher
    assert found.nproc_per_node is not None


SCRIPTS: dict[str, tuple[bytes, int]] = {
    "windows line ends": (b"export CUDA_VISIBLE_DEVICES=0,1\r\nNP=2\r\ntorchrun --nproc_per_node $NP \\\r\n t.py\r\n", 2),
    "a document is data": (b"cat <<E\ntorchrun --nproc_per_node 9 x.py\nE\ntorchrun --nproc_per_node 3 t.py\n", 3),
    "a document that a shell runs": (b"bash <<'E'\ntorchrun --nproc_per_node 3 t.py\nE\n", 3),
    "an array": (b'A=(--nproc_per_node 2\n --nnodes 1)\ntorchrun "${A[@]}" t.py\n', 2),
    "bytes that are no text": (bytes(range(128, 256)) + b"\ntorchrun --nproc_per_node 2 t.py\n", 2),
}


@pytest.mark.parametrize(("text", "processes"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_of_any_shape(tmp_path: Path, text: bytes, processes: int) -> None:
    (tmp_path / "job.sh").write_bytes(text)
    assert planned("job.sh").nproc_per_node == processes


def test_options_of_sbatch_stand_before_those_of_its_script(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\nsrun python t.py\n")
    assert (planned("job.sh").nproc_per_node, planned("sbatch --ntasks-per-node=2 job.sh").nproc_per_node) == (8, 2)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("mycluster submit -- python t.py", "firstfault plan -- python t.py"),
        ("ls -la", "torchrun"),
        ("sbatch gone.sh", "torchrun"),
    ],
)
def test_an_unknown_program_is_said_to_be_unknown(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match="no launch that is known here") as caught:
        planned(text)
    assert hint in (caught.value.hint or "")


def test_a_script_without_a_launch_within_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("true\n" * 300_000 + "python t.py\n")
    with pytest.raises(UsageError, match="the first 1 MiB of job"):
        planned("job.sh")


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("if [ $A ]; then torchrun --nproc_per_node 2 t.py; fi", "branch"),
        ("set CUDA_VISIBLE_DEVICES=1 && python t.py", "cmd.exe"),
        ("torchrun $@ t.py", "arguments of the script"),
        ("python prepare.py; torchrun t.py", "1 more"),
    ],
)
def test_what_is_not_sure_is_noted(text: str, note: str) -> None:
    assert any(note in line for line in planned(text).notes)


@pytest.mark.parametrize(
    ("words", "code", "shows"),
    [
        (("accelerate", "config"), 0, "starts no process"),
        (("accelerate", "estimate-memory", "m"), 0, "starts no process"),
        (("accelerate", "launch", "--help"), 0, ""),
        (("accelerate",), 1, ""),
        (("accelerate", "test"), 0, "a script of its own"),
        (("python",), 0, "no script"),
    ],
)
def test_commands_that_start_no_training(words: tuple[str, ...], code: int, shows: str) -> None:
    found: Any = planned(*words)
    assert exit_code(found) == code
    assert not shows or any(shows in note for note in found.notes)
