"""Suspects: ranks that say nothing while all others report consequences."""

from __future__ import annotations

from engine.faults import Log, aligned, attributed, causal, rank_logs
from firstfault.engine.attribute import attribute
from firstfault.engine.silent import Suspicion


def test_rank_whose_source_ends_without_an_error():
    logs = rank_logs(4)
    for log in logs[:3]:
        log.fault("peer_lost")
    logs[3].steps(6)
    found = attributed(4, *logs)
    assert (found.fault_class, found.rank, found.certainty, found.suspects) == ("peer_lost", 3, "likely", (3,))
    assert "the output of rank 3 ends without an error" in found.reason


def test_rank_without_a_source():
    logs = rank_logs(4)[:3]
    for log in logs:
        log.fault("collective_timeout")
    found = attributed(4, *logs)
    assert (found.rank, found.suspects) == (3, (3,))
    assert "nothing of rank 3 was handed over" in found.reason


def test_several_silent_ranks_are_no_rank():
    logs = [Log("rank-9.log", rank=9).fault("collective_timeout"), Log("rank-14.log", rank=14).fault("collective_timeout")]
    found = attributed(16, *logs)
    assert (found.rank, found.relation, found.certainty) == (None, "several", "undetermined")
    assert len(found.suspects) == 14 and 9 not in found.suspects


def test_rank_that_the_launcher_stopped_was_alive():
    logs = rank_logs(3)
    logs[0].fault("collective_timeout")
    logs[1].fault("collective_timeout")
    logs[2].steps(3)
    console = Log("console.log").exit(-15, rank=2, pid=12, told=True).exit(1, rank=0).exit(1, rank=1).exit(-15, rank=2, pid=12)
    found = attributed(3, *logs, console)
    assert (found.fault_class, found.rank, found.certainty) == ("collective_timeout", 2, "likely")
    assert "was alive" in found.reason


def test_exit_code_of_the_silent_rank_decides():
    logs = rank_logs(3)
    logs[0].fault("peer_lost")
    logs[1].fault("peer_lost")
    logs[2].steps(3)
    console = Log("console.log").exit(-9, rank=2, pid=12)
    found = attributed(3, *logs, console)
    assert (found.fault_class, found.rank, found.certainty) == ("exit_sigkill", 2, "established")


def test_chain_of_names_is_followed():
    logs = rank_logs(4)
    logs[0].fault("collective_timeout", named_rank=3)
    logs[1].fault("collective_timeout", waits_for=0)
    logs[2].fault("collective_timeout", waits_for=0)
    logs[3].fault("exit_sigterm")
    console = Log("console.log").exit(-15, rank=3, pid=13, told=True)
    found = attributed(4, *logs, console)
    assert (found.rank, found.certainty) == (3, "likely")


def test_every_rank_speaks_and_one_waits_in_another_call():
    logs = rank_logs(4)
    for log in logs:
        numel = 40 if log.place.rank == 3 else 64
        log.fault("collective_timeout", seq=12, op="ALLREDUCE", numel_in=numel, numel_out=numel)
    assert attributed(4, *logs).rank == 3


def test_every_rank_speaks_and_one_traceback_ends_in_another_collective():
    logs = rank_logs(3)
    for log in logs:
        function = "broadcast" if log.place.rank == 2 else "all_reduce"
        path = "/v/torch/distributed/distributed_c10d.py"
        log.raises("RuntimeError: Timed out", path=path, function=function, fault_class="collective_timeout")
    assert attributed(3, *logs).rank == 2


def test_nobody_is_named_and_nobody_is_silent():
    logs = rank_logs(4)
    for log in logs:
        log.fault("peer_lost")
    found = attributed(4, *logs)
    assert (found.rank, found.suspects, found.certainty) == (None, (), "undetermined")


def test_hang_analysis_can_name_the_suspect():
    logs = rank_logs(4)
    for log in logs:
        log.fault("collective_timeout")
    found = attribute(aligned(4, *logs), causal(), suspicion=Suspicion(ranks=(1,), reason="rank 1 never entered"))
    assert (found.rank, found.certainty, found.reason) == (1, "likely", "rank 1 never entered")


def test_one_rank_that_ended_with_a_code_but_printed_nothing():
    console = Log("console.log").exit(1, rank=1, pid=11).exit(-15, rank=0, pid=10, told=True)
    log = Log("rank-0.log", rank=0).fault("peer_lost")
    found = attributed(2, console, log)
    assert (found.fault_class, found.rank, found.certainty) == ("launcher_report", 1, "likely")


def test_rank_that_worked_while_the_others_waited():
    logs = [Log(f"rank-{rank}.log", rank=rank, host="a") for rank in (0, 1, 2)]
    logs[0].steps(5, at=900)
    logs[1].fault("collective_timeout", at=1000, ran_for=600.0)
    logs[2].steps(5, at=300)
    found = attributed(3, *logs)
    assert (found.rank, found.certainty) == (0, "likely")
    assert "still at work" in found.reason


def test_only_silent_rank_that_was_heard_comes_before_those_of_which_nothing_is_known():
    logs = [Log(f"rank-{rank}.log", rank=rank) for rank in (0, 1, 8)]
    logs[0].steps(5)
    logs[1].fault("collective_timeout")
    logs[2].fault("collective_timeout")
    assert attributed(16, *logs).rank == 0
    console = Log("console.log")
    for pid in range(4):
        console.exit(-15, pid=100 + pid, told=True)
    assert attributed(16, *logs, console).rank is None


def test_silent_rank_that_the_launcher_did_not_stop_is_suspected_before_those_it_stopped():
    logs = rank_logs(4)
    logs[0].fault("peer_lost")
    console = Log("console.log", ends=False)
    for rank in (1, 2):
        logs[rank].steps(3)
        console.exit(-15, rank=rank, pid=10 + rank, told=True)
    logs[3].steps(3)
    found = attributed(4, *logs, console)
    assert (found.fault_class, found.rank) == ("peer_lost", 3)


def test_rank_with_nothing_pending_when_the_others_gave_up_is_the_one_they_waited_for():
    logs = rank_logs(4)
    for log in logs[:3]:
        log.fault("collective_timeout", seq=12, op="ALLREDUCE")
        log.fault("nccl_abort_note", name="collective.dump_signal", enqueued=13, completed=11)
    logs[3].fault("nccl_abort_note", name="collective.dump_signal", enqueued=11, completed=11)
    found = attributed(4, *logs)
    assert (found.rank, found.certainty) == (3, "likely")
    assert "nothing pending" in found.reason


def test_report_that_names_the_missing_rank_stands_for_the_others():
    logs = rank_logs(3)
    logs[0].steps(4).fault("collective_timeout", "rank 2 is missing", named_rank=2)
    logs[1].fault("collective_timeout", waits_for=0)
    found = attributed(3, *logs)
    assert (found.rank, found.initiating[0].place.rank) == (2, 0)
