from __future__ import annotations

import pytest
from msgspec.structs import replace

from firstfault.ingest.exits import read_exits
from firstfault.model.event import Place, ProcessExit
from reader_lines import context, lines


def one(text: str) -> ProcessExit:
    (found,) = read_exits(lines(text), context())
    return found


@pytest.mark.parametrize(
    ("text", "reporter", "code", "pid", "local_rank", "by_launcher"),
    [
        ("failed (exitcode: -9) local_rank: 2 (pid: 55) of binary: /opt/env/bin/python", "elastic", -9, 55, 2, False),
        ("Sending process 51 closing signal SIGTERM", "elastic", -15, 51, None, True),
        ("Terminating process 52 via signal SIGTERM", "spawn", -15, 52, None, True),
        ("Unable to shutdown process 53 via SIGTERM, forcefully exiting via SIGKILL", "elastic", -9, 53, None, True),
        ("Unable to shutdown process 53 via 15, forcefully exiting via 9", "elastic", -9, 53, None, True),
        (
            "Unable to shutdown process 53 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
            "elastic",
            -9,
            53,
            None,
            True,
        ),
        ("Killing subprocess 54", "deepspeed", None, 54, None, True),
        ("['python', '-u', 't.py', '--local_rank=7'] exits with return code = -6", "deepspeed", -6, None, None, False),
        (
            "subprocess.CalledProcessError: Command '['python', 't.py']' returned non-zero exit status 3.",
            "accelerate",
            3,
            None,
            None,
            False,
        ),
        (
            "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGKILL: 9>.",
            "accelerate",
            -9,
            None,
            None,
            False,
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 4 terminated with signal SIGSEGV",
            "spawn",
            -11,
            None,
            4,
            False,
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 4 terminated with exit code 2",
            "spawn",
            2,
            None,
            4,
            False,
        ),
        ("Killed", "shell", -9, None, None, False),
        ("  0%|          | 0/500 [00:00<?, ?it/s]Killed", "shell", -9, None, None, False),
        (" 10%|#         | 50/500 [1:00:10<01:30,  5.00it/s]Terminated", "shell", -15, None, None, False),
        ("Segmentation fault (core dumped)", "shell", -11, None, None, False),
        ("job.sh: line 12:  901 Aborted                 python train.py", "shell", -6, 901, None, False),
        ("[1]+  Killed                  python train.py", "shell", -9, None, None, False),
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", "shell", -9, None, None, False),
        ("Command exited with non-zero status 1", "shell", 1, None, None, False),
        ("exit code 0", "shell", 0, None, None, False),
    ],
)
def test_reads_how_a_process_ended(
    text: str, reporter: str, code: int | None, pid: int | None, local_rank: int | None, by_launcher: bool
) -> None:
    found = one(text)
    assert (found.reporter, found.code, found.by_launcher) == (reporter, code, by_launcher)
    assert (found.place.pid, found.place.local_rank) == (pid, local_rank)


@pytest.mark.parametrize(
    ("text", "code", "tasks"),
    [
        ("srun: error: node-2: tasks 4-6,9: Exited with exit code 137", -9, (4, 5, 6, 9)),
        ("srun: error: node-2: task 5: Killed", -9, (5,)),
        ("srun: error: node-2: task 5: Segmentation fault (core dumped)", -11, (5,)),
        ("srun: error: node-2: task 0: Out Of Memory", -9, (0,)),
        ("srun: error: node-2: tasks 0-99999999: Killed", -9, ()),
    ],
)
def test_reads_the_tasks_that_srun_names(text: str, code: int, tasks: tuple[int, ...]) -> None:
    found = one(text)
    assert (found.reporter, found.code, found.tasks, found.place.host, found.place.rank) == (
        "srun",
        code,
        tasks,
        "node-2",
        None,
    )


def test_the_pid_of_a_log_prefix_is_not_that_of_the_process() -> None:
    (line,) = lines("Sending process 51 closing signal SIGTERM")
    (found,) = read_exits([replace(line, place=Place(pid=40, rank=0, host="node-1"))], context())
    assert (found.place.pid, found.place.rank, found.place.host) == (51, None, "node-1")


def test_reads_the_code_that_a_shell_was_asked_for() -> None:
    (found,) = read_exits(lines("$ echo $?\n139\n"), context())
    assert (found.code, found.span.line) == (-11, 2)


@pytest.mark.parametrize(
    "text",
    [
        "the worker was Killed by the driver, they said",
        "sample: Killed process 4 (python)",
        "epoch 3 finished, exit code of the previous stage was fine",
        "Terminated runs are listed below:",
        "loading subprocess plugin",
    ],
)
def test_prose_is_no_exit(text: str) -> None:
    assert read_exits(lines(text), context()) == ()


def test_mpirun_names_the_rank_that_ended() -> None:
    text = "mpirun noticed that process rank 3 with PID 0 on node node-1 exited on signal 9 (Killed)."
    (found,) = read_exits(lines(text), context())
    assert (found.reporter, found.code, found.place) == ("mpirun", -9, Place(rank=3, host="node-1"))


def test_pdsh_names_the_host_whose_shell_ended() -> None:
    (found,) = read_exits(lines("pdsh@login-1: node-2: ssh exited with exit code 137"), context())
    assert (found.reporter, found.code, found.place.host) == ("pdsh", -9, "node-2")
