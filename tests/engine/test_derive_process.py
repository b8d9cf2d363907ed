"""Exit codes and signals of the initiating rank, and who sent them."""

from __future__ import annotations

import pytest

from engine.faults import Log, rank_logs
from engine.runs import facts_of


def console(*, killed=1, told=(), code=-9):
    log = Log("console.log")
    log.exit(code, rank=killed, pid=100 + killed)
    for rank in told:
        log.exit(None, rank=rank, pid=100 + rank, told=True)
    return log


def test_signal_of_the_initiating_rank_and_not_from_the_launcher():
    facts = facts_of(console(killed=1, told=(0, 2)), *rank_logs(3), size=3)
    assert facts.value("exit.signal") == 9
    assert facts.value("exit.signal_from_launcher") is False


@pytest.mark.parametrize(("code", "signal"), [(137, 9), (143, 15), (-6, 6), (1, None)])
def test_exit_code_of_a_shell_is_a_signal(code, signal):
    log = Log("console.log").fault("python_exception" if signal is None else "native_signal", rank=0)
    log.exit(code, rank=0, pid=100, reporter="shell")
    assert facts_of(log, size=1).value("exit.signal") == signal


def test_signal_from_launcher_is_unknown_without_a_pid():
    log = Log("run.log").fault("exit_sigkill")
    facts = facts_of(log)
    assert facts.value("exit.signal") == 9
    assert facts.value("exit.signal_from_launcher") is None


def test_victim_of_the_kernel_is_a_rank():
    kernel = Log("dmesg.txt", kind="kernel").fault("host_oom_kill", pid=101)
    kernel.exit(-9, pid=101, reporter="kernel")
    facts = facts_of(console(killed=1, told=(0,)), kernel, *rank_logs(2), size=2)
    assert facts.value("host.oom_victim") == "rank"


def test_all_ranks_at_once():
    log = Log("console.log")
    for rank in range(3):
        log.exit(-15, rank=rank, pid=100 + rank, at=1000 + rank)
    assert facts_of(log, size=3).value("exit.all_ranks_at_once") is True


def deepspeed_console(*, code=-9):
    log = Log("console.log").steps(3)
    for rank in range(2):
        log.exit(None, pid=100 + rank, told=True, reporter="deepspeed")
    return log.exit(code, reporter="deepspeed")


def test_a_launcher_that_kills_every_process_says_nothing_of_the_first_end():
    facts = facts_of(deepspeed_console(), size=2)
    assert facts.value("exit.signal") == 9
    assert facts.value("exit.signal_from_launcher") is False
    own = Log("rank-1.log", rank=1).fault("exit_sigkill", rank=1)
    own.exit(-9, rank=1, pid=101, reporter="shell")
    assert facts_of(deepspeed_console(code=1), own, size=2).value("exit.signal_from_launcher") is not True


def test_nobody_is_on_record_only_where_somebody_would_be():
    killed = console(killed=1, told=(0,))
    assert facts_of(killed, size=2).value("exit.signal_sender") is None
    table = Log("sacct.txt", kind="slurm")
    assert facts_of(killed, table, size=2).value("exit.signal_sender") == "unknown"
    stopped = Log("sacct.txt", kind="slurm").fault("scheduler_stop", name="scheduler.stop")
    assert facts_of(killed, stopped, size=2).value("exit.signal_sender") != "unknown"


def test_a_crash_has_no_sender():
    assert facts_of(console(killed=1, code=-11), Log("sacct.txt", kind="slurm"), size=2).value("exit.signal_sender") is None


def test_the_launcher_is_the_sender_where_it_says_so():
    log = Log("rank-1.log", rank=1).fault("exit_sigkill", rank=1)
    told = Log("console.log").exit(-15, rank=1, pid=101, told=True).exit(-9, rank=1, pid=101)
    facts = facts_of(log, told, size=2)
    assert facts.value("exit.signal_from_launcher") is True
    assert facts.value("exit.signal_sender") == "launcher"
