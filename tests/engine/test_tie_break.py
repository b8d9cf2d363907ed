"""Which of several unexplained faults started it."""

from __future__ import annotations

from engine.faults import Log, attributed, rank_logs


def test_same_error_on_all_ranks_is_symmetric():
    logs = rank_logs(4)
    for log in logs:
        log.raises(f"ValueError: bad shard {log.place.rank}")
    found = attributed(4, *logs)
    assert (found.relation, found.rank, found.ranks, found.symmetric) == ("symmetric", None, (0, 1, 2, 3), True)
    assert found.certainty == "established"


def test_same_error_on_some_ranks_lists_them():
    logs = rank_logs(8)
    for log in logs:
        log.steps(4)
    for rank in (1, 4):
        logs[rank].raises("ValueError: bad shard")
    found = attributed(8, *logs)
    assert (found.relation, found.rank, found.ranks, found.certainty) == ("several", None, (1, 4), "likely")


def test_nine_of_ten_ranks_are_enough_for_symmetry():
    logs = rank_logs(10)
    for log in logs[:9]:
        log.raises("ValueError: bad shard")
    logs[9].steps(3)
    assert attributed(10, *logs).relation == "symmetric"


def test_initiating_class_beats_either_class_whatever_the_times():
    early = Log("rank-0.log", rank=0, host="a").fault("rendezvous_error", at=10)
    late = Log("rank-1.log", rank=1, host="a").fault("storage_errno", at=90)
    found = attributed(2, early, late)
    assert (found.fault_class, found.rank) == ("storage_errno", 1)
    assert [one.event.place.rank for one in found.collateral] == [0]


def test_own_exception_beats_a_launchers_root_cause():
    console = Log("console.log").exit(1, rank=0, first=True).exit(1, rank=3)
    logs = [Log("rank-0.log", rank=0).fault("peer_lost"), Log("rank-3.log", rank=3).raises("KeyError: 'x'")]
    assert attributed(4, console, *logs).rank == 3


def test_heavier_class_wins_between_different_errors():
    logs = [Log("rank-0.log", rank=0).raises("KeyError: 'x'"), Log("rank-3.log", rank=3).fault("device_oom")]
    found = attributed(4, *logs)
    assert (found.rank, found.certainty) == (3, "likely")
    assert [event.place.rank for event in found.independent] == [0]


def test_clearly_earlier_error_wins():
    first = Log("rank-1.log", rank=1, host="a").raises("KeyError: 'x'", at=100)
    second = Log("rank-0.log", rank=0, host="a").fault("device_oom", at=160)
    found = attributed(2, first, second)
    assert (found.rank, found.certainty) == (1, "likely")
    assert "before all other ranks" in found.reason


def test_equal_seconds_are_no_order_but_the_launcher_knows_who_ended_by_itself():
    console = Log("console.log").exit(-15, rank=0, pid=10, told=True).exit(1, rank=2, pid=12)
    logs = [
        Log("rank-0.log", rank=0, host="a").raises("KeyError: 'x'", at=100),
        Log("rank-2.log", rank=2, host="a").raises("TypeError: y", at=100),
    ]
    found = attributed(3, console, *logs)
    assert (found.rank, found.certainty) == (2, "likely")


def test_launchers_first_observed_is_the_last_hint():
    console = Log("console.log").exit(1, rank=0).exit(1, rank=2, first=True)
    logs = [Log("rank-0.log", rank=0).raises("KeyError: 'x'"), Log("rank-2.log", rank=2).raises("TypeError: y")]
    found = attributed(3, console, *logs)
    assert (found.rank, found.certainty, found.reason) == (2, "likely", "the launcher saw it end first")


def test_nothing_decides_between_different_errors():
    logs = [Log("rank-0.log", rank=0).raises("KeyError: 'x'"), Log("rank-2.log", rank=2).raises("TypeError: y")]
    found = attributed(3, *logs)
    assert (found.rank, found.ranks, found.relation, found.certainty) == (None, (0, 2), "several", "undetermined")


def test_mismatch_is_the_rank_that_the_others_name():
    logs = rank_logs(4)
    for log in logs:
        log.fault("collective_mismatch", f"rank {log.place.rank} differs", named_rank=0 if log.place.rank == 2 else 2)
    found = attributed(4, *logs)
    assert (found.rank, found.relation, found.certainty) == (2, "one", "established")
    assert [event.place.rank for event in found.initiating] == [2]


def test_two_ranks_that_name_each_other_decide_nothing():
    logs = rank_logs(2)
    logs[0].fault("collective_mismatch", named_rank=1)
    logs[1].fault("collective_mismatch", named_rank=0)
    found = attributed(2, *logs)
    assert (found.rank, found.ranks, found.certainty) == (None, (0, 1), "undetermined")


def test_shapes_that_are_listed_by_process_show_the_odd_one():
    logs = rank_logs(4)
    for log in logs:
        log.fault("collective_mismatch", "shape mismatches")
        for process in range(4):
            log.fault(None, name="collective.process_shape", process=process, shape="[8, 17]" if process == 2 else "[8, 24]")
    found = attributed(4, *logs)
    assert (found.rank, found.relation) == (2, "one")


def test_listed_shapes_of_two_kinds_on_two_ranks_each_decide_nothing():
    logs = rank_logs(4)
    for log in logs:
        log.fault("collective_mismatch", "shape mismatches")
        for process in range(4):
            log.fault(None, name="collective.process_shape", process=process, shape=f"[8, {process // 2}]")
    assert attributed(4, *logs).rank is None


def test_position_decides_inside_one_rank_whatever_the_times():
    log = Log("rank-0.log", rank=0, host="a").fault("cuda_error", at=50).fault("storage_errno", at=40)
    assert attributed(1, log).fault_class == "cuda_error"


def test_own_stderr_counts_before_the_combined_console():
    console = Log("console.log").fault("python_exception", "E2", rank=0)
    own = Log("rank-0.log", rank=0).fault("device_oom")
    assert attributed(2, console, own).fault_class == "device_oom"


def test_own_failure_in_an_unlabelled_log_counts_before_lost_peers():
    log = Log("paste.txt").fault("peer_lost").fault("device_oom")
    found = attributed(None, log)
    assert (found.fault_class, found.rank, found.relation) == ("device_oom", None, "one")


def test_unseen_ranks_leave_the_rank_likely():
    found = attributed(8, Log("rank-3.log", rank=3).fault("device_oom"))
    assert (found.rank, found.certainty) == (3, "likely")


def test_rank_of_a_value_that_is_not_finite_is_unknown():
    logs = rank_logs(2)
    logs[0].fault("non_finite", "loss=nan")
    logs[1].fault("non_finite", "AssertionError: loss is nan")
    found = attributed(2, *logs)
    assert (found.fault_class, found.rank, found.relation) == ("non_finite", None, "symmetric")
    one = attributed(4, Log("rank-0.log", rank=0).fault("non_finite", "loss=nan"))
    assert (one.rank, one.certainty) == (None, "undetermined")


def test_only_one_of_many_ranks_finds_a_difference():
    logs = rank_logs(3)
    logs[2].fault("collective_mismatch", named_rank=0)
    logs[0].fault("peer_lost")
    logs[1].fault("peer_lost")
    assert attributed(3, *logs).rank == 2


def test_text_that_accuses_two_ranks_alike():
    found = attributed(4, Log("rank-1.log", rank=1).fault("nccl_error", other_rank=0))
    assert (found.rank, found.ranks, found.relation) == (None, (0, 1), "several")
