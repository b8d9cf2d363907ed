"""Where the log of a rank that was not handed over lies."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.faults import Log, aligned, attributed
from engine.layouts import CLOSED, gathered, raised
from firstfault.engine.align import align
from firstfault.engine.log_place import place_of_log


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("logs/run_x1/attempt_0/0/stderr.log", "logs/run_x1/attempt_0/3/stderr.log"),
        ("out/rank_0.log", "out/rank_3.log"),
        ("job-77_0.out", "job-77_3.out"),
        ("job-0_0.out", ""),
        ("train.log", ""),
    ],
)
def test_beside_the_log_of_another_rank(path, expected):
    assert place_of_log(3, aligned(4, Log(path, rank=0).fault("peer_lost"))) == expected


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("srun --output=logs/job-%j-%t.out python train.py", "logs/job-*-3.out"),
        ("srun --output=logs/%N-%t.out torchrun --nproc_per_node 2 train.py", "logs/*-1.out"),
        ("torchrun --nproc-per-node 2 --log-dir logs/ --redirects 3 train.py", "logs/*/attempt_*/1/stderr.log on"),
        ("torchrun --nproc-per-node 2 --log-dir logs --tee 1 train.py", "logs/*/attempt_*/1/stdout.log on"),
        ("torchrun --nproc-per-node 2 --redirects 3 train.py", "/tmp/torchelastic_*/*/attempt_*/1/stderr.log on"),
        ("torchrun --nproc-per-node 2 --log-dir logs train.py", ""),
        (
            "accelerate launch --num_processes 4 --num_machines 2 --log_dir out --tee 3 train.py",
            "out/*/attempt_*/1/stderr.log on",
        ),
        ("deepspeed --num_gpus 2 --enable_each_rank_log ranks train.py", "ranks/*_rank3.log on the node of rank 3"),
        ("mpirun -np 16 --output-filename out python train.py", "out/1/rank.03/stderr"),
        ("mpirun -np 16 --output dir=out python train.py", "out/*/rank.3/stderr"),
        ("mpirun -np 16 --output file=out/train python train.py", "out/train.3"),
        ("python train.py", ""),
    ],
)
def test_where_the_launcher_puts_it(tmp_path, command, place):
    waited = "".join(f"I am {rank}\n{raised(CLOSED, rank=rank)}" for rank in (0, 1, 2))
    files = {"command.txt": f"$ {command}\n", "console.log": "[rank0]: world_size = 16\n" + waited}
    found = place_of_log(3, align(gathered(tmp_path, files)))
    assert found.startswith(place) and bool(found) == bool(place)


def test_pod_whose_number_follows_from_another():
    def pod(rank):
        return Log(f"pod-{rank}.json", kind="kubernetes", host=f"job-worker-{rank - 1}").fault("peer_lost", rank=rank)

    assert place_of_log(3, aligned(4, pod(1), pod(2))) == "kubectl logs job-worker-2 --previous"
    unknown = Log("pods.json", kind="kubernetes").fault("peer_lost", rank=0)
    assert place_of_log(3, aligned(4, unknown)) == "kubectl logs POD --previous"


def test_worker_of_ray():
    log = Log("driver.log").fault("peer_lost", rank=0).fault("launcher_report", rank=3)
    died = log.events[-1]
    log.events[-1] = replace(died, signal="ray.worker_died", place=replace(died.place, pid=4321, host="10.0.0.4"))
    found = place_of_log(3, aligned(4, log))
    assert found == "/tmp/ray/session_latest/logs/worker-*-4321.err on 10.0.0.4"


def test_absent_suspect_comes_with_its_place():
    logs = [Log(f"rank_{rank}.log", rank=rank).fault("peer_lost") for rank in range(3)]
    found = attributed(4, *logs)
    assert found.suspects == (3,)
    assert found.circumstances == ("What rank 3 printed was not handed over; look at rank_3.log.",)


def test_folder_of_torchrun_on_the_node_of_the_rank(tmp_path):
    """Both nodes have local ranks 0 and 1: rank 3 is the second of the second node."""
    files = {
        f"node-{rank // 2}/logs/none_abc/attempt_0/{rank % 2}/stderr.log": f"[rank{rank}]: start\n{raised(CLOSED, rank=rank)}"
        for rank in range(3)
    }
    found = align(gathered(tmp_path, files))
    assert place_of_log(3, found) == f"{tmp_path}/node-1/logs/none_abc/attempt_0/1/stderr.log"
    command = {"cmd.txt": "$ torchrun --nnodes 2 --nproc-per-node 2 train.py\n"}
    first = {path: text for path, text in files.items() if path.startswith("node-0")} | command
    assert place_of_log(3, align(gathered(tmp_path / "first", first))) == ""
