"""Requests that wait are written together; each is told whether its own was stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Event

import pytest

from firstfault.server.otlp.journal import Journal
from firstfault.server.records import LogWrite


def write(name: str) -> LogWrite:
    return LogWrite(run_id=name, at=datetime.now(UTC), records=1, streams=())


def test_writes_that_wait_are_stored_in_one_go() -> None:
    calls: list[list[str]] = []
    begun, go_on = Event(), Event()

    def store(writes: Sequence[LogWrite]) -> None:
        calls.append([one.run_id for one in writes])
        begun.set()
        go_on.wait(5)

    journal = Journal(store)
    first = journal.put([write("a")])
    assert begun.wait(5)
    others = [journal.put([write(name)]) for name in "bcd"]
    assert not first.done()
    go_on.set()
    for future in (first, *others):
        future.result(5)
    journal.close()
    assert calls == [["a"], ["b", "c", "d"]]


def test_one_that_cannot_be_stored_fails_alone() -> None:
    stored: list[str] = []
    begun, go_on = Event(), Event()

    def store(writes: Sequence[LogWrite]) -> None:
        begun.set()
        go_on.wait(5)
        if any(one.run_id == "bad" for one in writes):
            raise ValueError("no room")
        stored.extend(one.run_id for one in writes)

    journal = Journal(store)
    journal.put([write("a")])
    assert begun.wait(5)
    bad, good = journal.put([write("bad")]), journal.put([write("good")])
    go_on.set()
    with pytest.raises(ValueError, match="no room"):
        bad.result(5)
    good.result(5)
    journal.close()
    assert stored == ["a", "good"]


def test_what_waits_is_written_before_it_stops() -> None:
    stored: list[str] = []
    journal = Journal(lambda writes: stored.extend(one.run_id for one in writes))
    futures = [journal.put([write(str(number))]) for number in range(50)]
    journal.close()
    assert stored == [str(number) for number in range(50)]
    assert all(future.done() for future in futures)
