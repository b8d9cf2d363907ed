"""What is stored of a request: evidence and last lines, redacted; a restart goes on where the store stands."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from firstfault.knowledge.pack import load_pack
from firstfault.server.otlp import receive
from firstfault.server.otlp.decode import Group
from firstfault.server.otlp.receive import Receiver, TooManyStreamsError
from firstfault.server.records import LogWrite, Owner, Run, StreamState

OWNER = Owner("account", "a1")
PACK = load_pack()
CRASH = [
    "Traceback (most recent call last):",
    '  File "/home/alice/train.py", line 16, in main',
    "    weight = total / positives",
    "ZeroDivisionError: division by zero",
]


class Kept:
    """The least store: what was written is known again."""

    def __init__(self) -> None:
        self.streams: dict[str, StreamState] = {}
        self.names: dict[bytes, str] = {}

    def find(self, owner: Owner, name: str):
        now = datetime.now(UTC)
        run = Run(id=f"run-{name}", owner=owner, name=name, created_at=now, last_at=now, secret=b"s")
        return run, list(self.streams.values()), dict(self.names)

    def write(self, write: LogWrite) -> None:
        self.streams.update({one.name: one for one in write.streams})
        self.names.update(write.names)


def group(lines: list[str], host: str = "gn-08", file: str = "rank_3.log") -> Group:
    return Group(
        {"host.name": host, "service.name": "llm"}, {"log.file.name": file}, lines, [1_700_000_000_000_000_000] * len(lines)
    )


def test_quiet_lines_leave_their_last_one_only() -> None:
    (write,), failing = Receiver(PACK, Kept().find).take(
        [(OWNER, [group(["loading data", "connect to gn-08 as bob@example.org"])])]
    )
    (stream,) = write.streams
    assert (write.lines, failing, write.records) == ((), [], 2)
    assert (stream.name, stream.host, stream.rank, stream.lines) == ("‹host-1›/rank_3.log", "‹host-1›", 3, 2)
    assert stream.last_text == "connect to ‹host-1› as ‹email-1›"


def test_a_failure_leaves_its_lines_redacted() -> None:
    (write,), failing = Receiver(PACK, Kept().find).take([(OWNER, [group(CRASH)])])
    assert [line.text for line in write.lines] == [line.replace("alice", "‹user-1›") for line in CRASH]
    assert [run.name for run in failing] == ["llm"]


def test_after_a_restart_numbers_and_pseudonyms_go_on() -> None:
    kept = Kept()
    (write,), _ = Receiver(PACK, kept.find).take([(OWNER, [group(["mail a@example.org"], host="gn-01")])])
    kept.write(write)
    (write,), _ = Receiver(PACK, kept.find).take([(OWNER, [group(["mail b@example.org", "mail a@example.org"], host="gn-01")])])
    (stream,) = write.streams
    assert (stream.name, stream.lines, stream.last_text) == ("‹host-1›/rank_3.log", 3, "mail ‹email-1›")


def test_a_run_has_a_bounded_number_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "MAX_STREAMS", 3)
    receiver = Receiver(PACK, Kept().find)
    receiver.take([(OWNER, [group(["x"], file=f"{number}.log") for number in range(3)])])
    with pytest.raises(TooManyStreamsError):
        receiver.take([(OWNER, [group(["x"], file="4.log")])])


def test_a_record_without_a_time_has_none() -> None:
    odd = group(["x"])
    odd.times_ns = [0]
    (write,), _ = Receiver(PACK, Kept().find).take([(OWNER, [odd])])
    assert write.streams[0].last_at is None


def test_requests_that_wait_together_leave_one_state_of_each_stream() -> None:
    other = Owner("account", "a2")
    requests = [(OWNER, [group(["epoch 1"])]), (other, [group(["hello"])]), (OWNER, [group(CRASH), group(["epoch 2"])])]
    writes, failing = Receiver(PACK, lambda owner, name: Kept().find(owner, f"{name} of {owner.id}")).take(requests)
    mine, theirs = writes
    assert [(one.lines, one.last_text) for one in mine.streams] == [(2 + len(CRASH), "epoch 2")]
    assert [(one.lines, one.last_text) for one in theirs.streams] == [(1, "hello")]
    assert ([line.number for line in mine.lines], mine.records) == ([1, 2, 3, 4, 5, 6], 6)
    assert [run.name for run in failing] == ["llm of a1"]
