"""Requests that wait are written together; each is told whether its own was stored."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import pytest

from firstfault.server.otlp import journal as module
from firstfault.server.otlp.journal import BusyError, Journal
from firstfault.server.otlp.receive import Request
from firstfault.server.records import Owner


def request(name: str) -> Request:
    return Owner("account", name), []


def names_of(requests: Sequence[Request]) -> list[str]:
    return [owner.id for owner, _ in requests]


def test_requests_that_wait_are_stored_in_one_go() -> None:
    calls: list[list[str]] = []
    begun, go_on = Event(), Event()

    def store(requests: Sequence[Request]) -> None:
        calls.append(names_of(requests))
        begun.set()
        go_on.wait(5)

    journal = Journal(store)
    first = journal.put(request("a"), 1)
    assert begun.wait(5)
    others = [journal.put(request(name), 1) for name in "bcd"]
    assert not first.done()
    go_on.set()
    for future in (first, *others):
        future.result(5)
    journal.close()
    assert calls == [["a"], ["b", "c", "d"]]


def test_one_that_cannot_be_stored_fails_alone() -> None:
    stored: list[str] = []
    begun, go_on = Event(), Event()

    def store(requests: Sequence[Request]) -> None:
        begun.set()
        go_on.wait(5)
        if "bad" in names_of(requests):
            raise ValueError("no room")
        stored.extend(names_of(requests))

    journal = Journal(store)
    journal.put(request("a"), 1)
    assert begun.wait(5)
    bad, good = journal.put(request("bad"), 1), journal.put(request("good"), 1)
    go_on.set()
    with pytest.raises(ValueError, match="no room"):
        bad.result(5)
    good.result(5)
    journal.close()
    assert stored == ["a", "good"]


def test_what_waits_is_written_before_it_stops() -> None:
    stored: list[str] = []
    journal = Journal(lambda requests: stored.extend(names_of(requests)))
    futures = [journal.put(request(str(number)), 1) for number in range(50)]
    journal.close()
    assert stored == [str(number) for number in range(50)]
    assert all(future.done() for future in futures)


def test_more_than_may_wait_is_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 100)
    begun, go_on = Event(), Event()

    def store(requests: Sequence[Request]) -> None:
        begun.set()
        go_on.wait(5)

    journal = Journal(store)
    # One alone is taken, however large.
    first = journal.put(request("a"), 1_000)
    assert begun.wait(5)
    with pytest.raises(BusyError, match="1,000 bytes wait"):
        journal.put(request("b"), 1)
    go_on.set()
    first.result(5)
    journal.close()
    journal = Journal(store)
    assert journal.put(request("c"), 60).result(5) is None
    journal.close()
