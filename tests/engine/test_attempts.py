"""Elastic restarts: every attempt on its own, and which one is the answer."""

from __future__ import annotations

from msgspec.structs import replace

from engine.faults import Log, aligned, attributed


def attempt(number, own="IndexError: index out of range in self"):
    return [
        Log(f"attempt_{number}/0/stderr.log", rank=0, attempt=number).raises(own),
        Log(f"attempt_{number}/1/stderr.log", rank=1, attempt=number).fault("peer_lost"),
    ]


def test_attempts_that_agree():
    found = attributed(2, *attempt(0), *attempt(1))
    assert (found.rank, found.attempt, found.fault_class) == (0, 1, "python_exception")
    assert found.circumstances == ("It came back: attempt 0 failed in the same way, on the same rank.",)


def test_attempts_that_do_not_agree():
    found = attributed(2, *attempt(0, "KeyError: 'x'"), *attempt(1))
    assert found.attempt == 1 and found.circumstances == ("Attempt 0 failed differently: rank 0 raised an exception.",)


def test_rendezvous_failure_of_a_later_attempt_does_not_displace_the_fault():
    last = Log("attempt_2/1/stderr.log", rank=1, attempt=2).fault("rendezvous_error", "connectFullMesh failed")
    found = attributed(2, *attempt(0), *attempt(1), last)
    assert (found.attempt, found.rank) == (1, 0)
    assert any(one.event.name == "rendezvous_error" and "had just failed" in one.rule for one in found.collateral)


def test_half_written_file_of_the_attempt_before():
    first = Log("attempt_0/0/stderr.log", rank=0, attempt=0).fault("storage_errno", path="/ckpt/step-10.pt")
    second = Log("attempt_1/0/stderr.log", rank=0, attempt=1).fault("checkpoint_error", path="/ckpt/step-10.pt")
    assert attributed(1, first, second).attempt == 0
    other = Log("attempt_1/0/stderr.log", rank=0, attempt=1).fault("checkpoint_error", path="/ckpt/step-5.pt")
    assert attributed(1, first, other).attempt == 1


def test_combined_log_gets_its_attempts_from_the_files():
    console = Log("console.log")
    for _ in range(2):
        console.fault("peer_lost", rank=1).note("launcher.note")
    events = [e for e in aligned(2, *attempt(0), *attempt(1), console).events if e.source_id == "console.log"]
    assert [event.place.attempt for event in events] == [0, 0, 1, 1]


def launcher(name="console.log", host=None):
    """A console whose launcher (pid 7) says which worker failed."""
    log = Log(name, host=host)

    def failed(rank, pid, told=(), code=1):
        for other in told:
            log.exit(-15, pid=other, told=True)
        log.exit(code, local_rank=rank, pid=pid)
        line = log.exits[-1].span
        log.note("launcher.worker_failed")
        place = replace(log.events[-1].place, pid=7)
        log.events[-1] = replace(log.events[-1], span=line, place=place)
        return log

    return log, failed


def closed(log, rank, pid):
    """The closing report of the last attempt."""
    log.note("launcher.child_failed")
    return log.exit(1, rank=rank, local_rank=rank, pid=pid, first=True, host="localhost")


def test_accounts_about_other_processes_are_attempts():
    log, failed = launcher()
    for attempt in range(3):
        log.raises("ValueError: token", rank=1).fault("peer_lost", rank=0)
        failed(1, 11 + 10 * attempt, told=(10 + 10 * attempt,))
    found = attributed(2, closed(log, 1, 31))
    assert (found.rank, found.attempt) == (1, 2)
    assert found.circumstances == ("It came back: attempts 0 and 1 failed in the same way, on the same rank.",)
    assert found.independent == ()


def test_restart_that_never_meets_again_follows_from_the_failure_before():
    log, failed = launcher()
    log.raises("ValueError: token", rank=1).fault("peer_lost", rank=0)
    failed(1, 11, told=(10,))
    for attempt in (1, 2):
        log.fault("rendezvous_error", "connectFullMesh failed")
        failed(0, 10 + 10 * attempt, told=(11 + 10 * attempt,))
    found = attributed(2, closed(log, 0, 30))
    assert (found.rank, found.attempt, found.fault_class) == (1, 0, "python_exception")
    assert found.circumstances == ("Attempts 1 and 2 did not get going again: what they show follows from it.",)


def test_nodes_count_their_own_attempts():
    first, failed_there = launcher("node-0.log", "node-0")
    second, failed_here = launcher("node-1.log", "node-1")
    second.raises("ValueError: token", rank=3)
    first.fault("peer_lost", rank=0)
    failed_here(1, 111)
    failed_there(0, 11)
    first.fault("collective_timeout", rank=0)
    failed_there(0, 21)
    found = aligned(4, closed(first, 0, 21), second)
    assert found.attempts == (0, 1)
    assert {event.place.attempt for event in found.events if event.source_id == "node-1.log"} == {0}
    assert attributed(4, first, second).rank == 3


def test_one_failed_line_without_life_below_is_one_attempt():
    log, failed = launcher()
    log.raises("ValueError: token", rank=1)
    failed(1, 11)
    assert aligned(2, closed(log, 1, 11)).attempts == ()


def test_same_failure_on_another_rank_is_said():
    log, failed = launcher()
    log.raises("ValueError: token", rank=1)
    failed(1, 11, told=(10,))
    log.raises("ValueError: token", rank=0)
    failed(0, 20, told=(21,))
    found = attributed(2, closed(log, 0, 20))
    assert (found.rank, found.attempt) == (0, 1)
    assert found.circumstances == ("Attempt 0 failed in the same way, on rank 1.",)


def restarted_run():
    log, failed = launcher()
    log.raises("ValueError: token", rank=1).fault("peer_lost", rank=0)
    return failed(1, 11, told=(10,))


def test_run_that_recovered_and_finished_did_not_fail():
    found = attributed(2, restarted_run().steps(4, rank=0).note("run.finished"))
    assert (found.fault_class, found.certainty) == ("none", "established")
    said = "Attempt 0 failed (rank 1 raised an exception), the run was restarted, and attempt 1 came to its end."
    assert found.circumstances == (said,)


def test_run_that_goes_on_after_a_restart_has_not_failed_yet():
    found = attributed(2, restarted_run().steps(4, rank=0))
    assert found.fault_class == "none" and "goes on as far as the log reaches" in found.circumstances[0]


def test_progress_in_the_folder_of_the_last_attempt_shows_that_the_run_goes_on():
    later = [Log(f"attempt_1/{rank}/stderr.log", rank=rank, attempt=1).steps(5) for rank in range(2)]
    console = Log("console.log").exit(-15, pid=10, told=True).exit(1, local_rank=0, pid=11)
    assert attributed(2, *attempt(0), *later, console).fault_class == "none"
    later[1].raises("KeyError: 'x'")
    assert attributed(2, *attempt(0), *later, console).attempt == 1
