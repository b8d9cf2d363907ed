"""Runs over OTLP: what was written is there once, for its owner, after a restart too."""

from __future__ import annotations

from datetime import timedelta

from firstfault.server.records import LogWrite, RunEvent, StreamLine, StreamState
from firstfault.server.store.store import Store, open_store
from server.store.people import ANNE, BEN, NOON, answer


def test_what_was_written_is_there_once(store: Store, database_url: str) -> None:
    run, streams, names = store.streams.find_run(ANNE.owner, "llm")
    assert (streams, names) == ([], {})
    state = StreamState(
        run_id=run.id, name="rank_0.log", rank=0, lines=7, size_bytes=5 << 32, kept=1, last_text="bye", last_at=NOON
    )
    line = StreamLine(run_id=run.id, stream="rank_0.log", number=6, offset=5 << 32, at=NOON, text="Killed")
    write = LogWrite(run_id=run.id, at=NOON, records=7, streams=(state,), lines=(line,), names={b"d" * 16: "host-1"})
    store.streams.write([write, write])
    store.close()
    again = open_store(database_url)
    found, streams, names = again.streams.find_run(ANNE.owner, "llm")
    assert (found.id, found.secret, found.records) == (run.id, run.secret, 14)
    assert (streams, names) == ([state], {b"d" * 16: "host-1"})
    assert again.streams.lines(run.id) == [line]
    again.close()


def test_a_run_is_its_owners(store: Store) -> None:
    run, _, _ = store.streams.find_run(ANNE.owner, "llm")
    other, _, _ = store.streams.find_run(BEN.owner, "llm")
    assert run.id != other.id
    assert [one.id for one in store.streams.runs(ANNE)] == [run.id]
    assert store.streams.run(run.id, BEN) is None
    assert not store.streams.delete(run.id, BEN)
    assert store.streams.delete(run.id, ANNE) and store.streams.run(run.id, ANNE) is None


def test_who_follows_a_run_goes_on_where_he_stopped(store: Store) -> None:
    run, _, _ = store.streams.find_run(ANNE.owner, "llm")
    for number in range(3):
        store.streams.add_event(RunEvent(run_id=run.id, kind="finding", data=str(number)))
    first, *rest = store.streams.events(run.id, 0)
    assert (first.data, store.streams.events(run.id, first.id)) == ("0", rest)


def test_the_last_answer_about_a_run(store: Store) -> None:
    run, _, _ = store.streams.find_run(ANNE.owner, "llm")
    assert store.streams.finding(run.id) is None
    made = answer()
    store.diagnoses.add(made)
    store.streams.set_finding(run.id, made.id)
    assert store.streams.finding(run.id) == made


def test_runs_that_were_not_heard_of_expire(store: Store) -> None:
    run, _, _ = store.streams.find_run(ANNE.owner, "llm")
    assert store.streams.expire(run.last_at - timedelta(days=1)) == 0
    assert store.streams.expire(run.last_at + timedelta(days=1)) == 1
    assert store.streams.count() == 0
