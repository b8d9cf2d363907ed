"""Elastic restarts: every attempt on its own, and which one is the answer."""

from __future__ import annotations

from engine.faults import Log, aligned, attributed


def attempt(number, own="IndexError: index out of range in self"):
    return [
        Log(f"attempt_{number}/0/stderr.log", rank=0, attempt=number).raises(own),
        Log(f"attempt_{number}/1/stderr.log", rank=1, attempt=number).fault("peer_lost"),
    ]


def test_attempts_that_agree():
    found = attributed(2, *attempt(0), *attempt(1))
    assert (found.rank, found.attempt, found.fault_class) == (0, 1, "python_exception")
    assert found.reason.endswith("; attempt 0 failed in the same way")


def test_attempts_that_do_not_agree():
    found = attributed(2, *attempt(0, "KeyError: 'x'"), *attempt(1))
    assert found.attempt == 1 and found.reason.endswith("; attempt 0 failed differently")


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
