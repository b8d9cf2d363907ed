"""The engine in worker processes: the right answer, and a clear word where there is none."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import firstfault
from firstfault.ingest.capsule import Capsule, encode, gather_capsule, text_capsule
from firstfault.knowledge.pack import load_pack
from firstfault.server import work as work_module
from firstfault.server.work import BusyError, LimitError, RefusedError, Work
from firstfault.server.worker import Task, answer

PACK = load_pack()
EXAMPLE = Path(__file__).parents[2] / "examples" / "one-rank-exception"
CAPSULE = gather_capsule([EXAMPLE], PACK)


@pytest.fixture(scope="module")
def work() -> Iterator[Work]:
    opened = Work(workers=2, seconds=30)
    yield opened
    opened.close()


def test_the_answer_is_that_of_the_command_line(work: Work) -> None:
    found, expected = work.diagnose(CAPSULE, {}), firstfault.diagnose([EXAMPLE])
    assert (found.verdict, found.entry, found.initiating and found.initiating.rank) == (
        expected.verdict,
        expected.entry,
        expected.initiating and expected.initiating.rank,
    )
    assert [(item.line, item.offset) for item in found.evidence] == [(item.line, item.offset) for item in expected.evidence]


def test_several_ask_at_once(work: Work) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: work.diagnose(CAPSULE, {}).entry, range(12)))
    assert set(found) == {work.diagnose(CAPSULE, {}).entry}


def test_a_fact_that_is_none_is_the_senders_to_mend(work: Work) -> None:
    with pytest.raises(RefusedError) as error:
        work.diagnose(CAPSULE, {"no.such.fact": "1"})
    assert "no.such.fact" in f"{error.value.where} {error.value.what}"


@pytest.mark.parametrize("capsule", [b"", b"{", b'{"sources": 3}', b'{"schema": "firstfault.capsule/1", "sources": []}'])
def test_what_is_no_capsule_is_refused(work: Work, capsule: bytes) -> None:
    with pytest.raises(RefusedError):
        work.diagnose(capsule, {})


def test_a_worker_that_is_killed_is_replaced() -> None:
    work = Work(workers=1, seconds=30)
    assert work.diagnose(CAPSULE, {}).entry
    process = work._all[0]._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    work._seconds = 0.5
    with pytest.raises(LimitError):
        work.diagnose(CAPSULE, {})
    work._seconds = 30
    assert work.diagnose(CAPSULE, {}).entry
    work.close()


def test_who_finds_no_free_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_module, "WAIT_S", 0.1)
    work = Work(workers=1, seconds=30)
    work._free.get()
    with pytest.raises(BusyError):
        work.diagnose(CAPSULE, {})
    work.close()


def test_text_becomes_a_capsule_in_a_worker(work: Work) -> None:
    text = b"mail alice@example.org\nValueError: x\n"
    made = work.gather([("run.log", text)], [("email", "email-1")]).decode()
    assert "alice" not in made and "‹email-2›" in made
    with pytest.raises(RefusedError):
        work.gather([("a.bin", bytes(range(256)))])


def test_a_bomb_is_the_senders_to_mend_and_the_next_is_answered(work: Work) -> None:
    bomb = gzip.compress(gzip.compress(b"x" * (64 << 20)))
    assert b"ValueError" in work.gather([("a.gz", bomb), ("b.log", b"ValueError: x\n")])
    deep = b'{"schema": "firstfault.capsule/1", "other": ' + b"[" * 200_000
    with pytest.raises((RefusedError, LimitError)):
        work.diagnose(deep, {})
    assert work.diagnose(CAPSULE, {}).entry


@pytest.mark.parametrize("kind", [MemoryError, RecursionError])
def test_more_memory_than_one_may_is_too_much_work(monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    def fail(*_: object) -> None:
        raise kind

    monkeypatch.setattr("firstfault.server.worker.diagnose_capsule", fail)
    assert answer(Task(encode(CAPSULE), {}), PACK).error == "limit"


def test_a_fault_of_ours_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstfault.server.worker.diagnose_capsule", lambda *_: 1 / 0)
    import msgspec

    capsule: Capsule = text_capsule("step 1\n", PACK)
    outcome = answer(Task(msgspec.json.encode(capsule), {}), PACK)
    assert (outcome.error, outcome.what) == ("fault", "ZeroDivisionError: division by zero")
