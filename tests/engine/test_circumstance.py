"""What is said beside who was first."""

from __future__ import annotations

from engine.faults import Log, attributed, rank_logs


def test_all_ranks_alike_are_said_to_be():
    found = attributed(3, *[log.raises("ValueError: token") for log in rank_logs(3)])
    assert found.circumstances == ("All 3 ranks that printed anything failed with the same error: no single rank started it.",)


def test_second_failure_with_its_distance():
    logs = rank_logs(3, host="a")
    logs[0].raises("ValueError: token", at=100)
    logs[2].raises("FileNotFoundError: x", at=130)
    found = attributed(3, *logs)
    assert found.rank == 0
    assert found.circumstances == ("A second failure is independent of it: rank 2 raised an exception 30 s later.",)


def test_consequence_is_no_second_failure():
    logs = rank_logs(2)
    logs[0].raises("ValueError: token")
    logs[1].fault("peer_lost")
    assert attributed(2, *logs).circumstances == ()


def test_failure_while_the_run_is_closed():
    log = Log("rank-0.log", rank=0).note("run.finished").raises("KeyError: 'summary'")
    (said,) = attributed(1, log).circumstances
    assert said.startswith("The end of training stands above it")


def test_exception_raised_while_a_lost_peer_is_handled():
    logs = rank_logs(2)
    logs[0].raises("ValueError: token")
    logs[1].raises("RuntimeError: Connection closed by peer", "KeyError: 'optimizer'", fault_class="peer_lost")
    found = attributed(2, *logs)
    assert found.rank == 0
    assert found.circumstances == (
        "The KeyError of rank 1 was raised while it handled the lost connection: it is no second failure.",
    )


def test_kill_by_the_launcher_is_no_out_of_memory_kill():
    console = Log("console.log", host="a").raises("ValueError: token", rank=1)
    console.exit(-15, rank=0, pid=10, told=True).exit(-15, pid=12, told=True).exit(-9, pid=12, told=True)
    console.exit(1, rank=1, pid=11).exit(-9, rank=2, pid=12)
    (said,) = attributed(3, console).circumstances
    assert said.startswith("The launcher itself killed rank 2 (SIGKILL)")


def test_failures_whose_order_is_open_are_each_named():
    logs = [Log("rank-0.log", rank=0, host="a"), Log("rank-1.log", rank=1, host="b")]
    logs[0].raises("KeyError: 'image'", at=100)
    logs[1].raises("IndexError: list index out of range", at=2500)
    found = attributed(2, *logs)
    assert (found.relation, found.certainty, found.ranks) == ("several", "undetermined", (0, 1))
    (said,) = found.circumstances
    assert said.startswith("2 processes failed by themselves: rank 0 raised an exception on a")
    assert said.endswith("Which was first is open: the clocks of a and b cannot be compared.")


def test_without_ranks_two_hosts_are_two_processes():
    logs = [Log("a.log", host="a"), Log("b.log", host="b")]
    logs[0].raises("KeyError: 'image'", at=100)
    logs[1].raises("IndexError: list index out of range", at=2500)
    found = attributed(None, *logs)
    assert (found.relation, found.certainty) == ("several", "undetermined")
    (said,) = found.circumstances
    assert "a process raised an exception on a" in said
    assert "a process raised an exception on b" in said


def test_the_only_error_that_was_raised_while_a_lost_peer_was_handled():
    log = Log("rank-0.log", rank=0).raises(
        "RuntimeError: Connection closed by peer", "KeyError: 'last'", fault_class="peer_lost"
    )
    assert (
        attributed(4, log).circumstances[0].startswith("The KeyError of rank 0 was raised while it handled the lost connection")
    )


def test_a_failure_below_the_end_of_another_rank_in_one_console():
    log = Log("console.log").note("run.finished", rank=0).raises("RuntimeError: driver shutting down", rank=1)
    (said,) = attributed(2, log).circumstances
    assert said == "The end of training of rank 0 stands above it: it may have failed while the run was being closed."
