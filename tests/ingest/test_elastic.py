from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from firstfault.ingest.elastic import read_error_file, read_failure_blocks
from firstfault.model.event import Place
from reader_lines import context, lines

REPORT = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2031-05-23_19:14:41
  host      : node-1
  rank      : 5 (local_rank: 1)
  exitcode  : -15 (pid: 402)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 402
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2031-05-23_19:14:40
  host      : node-1
  rank      : 4 (local_rank: 0)
  exitcode  : 1 (pid: 401)
  error_file: /tmp/logs/attempt_0/0/error.json
  traceback : Traceback (most recent call last):
============================================================
"""


def test_reads_every_field_of_a_report() -> None:
    other, root = read_failure_blocks(lines(REPORT), context())
    assert (other.place.rank, other.place.local_rank, other.place.pid, other.place.host) == (5, 1, 402, "node-1")
    assert (other.code, other.first_observed, other.reporter, other.by_launcher) == (-15, False, "elastic", False)
    assert (root.place.rank, root.code, root.first_observed) == (4, 1, True)
    assert root.place.time is not None
    assert root.place.time.resolution_s == 1.0
    assert root.span.line == 18


def test_no_other_failures_leaves_the_root_alone() -> None:
    head, _, rest = REPORT.partition("[1]:")
    text = head + "  <NO_OTHER_FAILURES>\n" + rest[rest.index("-----") :]
    (root,) = read_failure_blocks(lines(text), context())
    assert (root.place.rank, root.first_observed) == (4, True)


def test_reports_of_two_nodes_may_be_interleaved() -> None:
    first = [replace(line, place=Place(host="node-1")) for line in lines(REPORT)]
    second = [
        replace(line, place=Place(host="node-2"), text=line.text.replace("rank      : 4", "rank      : 8"))
        for line in lines(REPORT)
    ]
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    assert sorted(str(found.place.rank) for found in read_failure_blocks(mixed, context()) if found.first_observed) == [
        "4",
        "8",
    ]


def test_a_cut_report_gives_what_it_has() -> None:
    (found,) = read_failure_blocks(lines("  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 77)\n"), context())
    assert (found.place.rank, found.code) == (3, -9)


CALLSTACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    f()\nValueError: "bad"\n'


@pytest.mark.parametrize(
    "document",
    [
        {"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": CALLSTACK, "timestamp": "1900000000"}}},
        {"message": {"message": "x", "extraInfo": {"py_callstack": CALLSTACK, "timestamp": 1900000000}, "errorCode": 1}},
        {"message": CALLSTACK, "timestamp": 1900000000},
    ],
)
def test_reads_all_shapes_of_an_error_file(document: object) -> None:
    data = json.dumps(document).encode()
    found = read_error_file(data, context("attempt_0/2/error.json", "error_file", Place(local_rank=2, attempt=0)))
    assert found.notes == ()
    assert found.place.time is not None
    assert found.place.time.seconds == 1_900_000_000
    assert (found.place.local_rank, found.place.attempt) == (2, 0)
    (traceback,) = found.tracebacks
    assert (traceback.root.type, traceback.root.message) == ("ValueError", '"bad"')
    assert traceback.place == found.place
    assert data[traceback.root.span.offset :].startswith(b"ValueError")


def test_an_error_file_with_bytes_that_were_no_text_is_read() -> None:
    callstack = CALLSTACK.replace("ValueError: ", "ValueError: \udcff \ud83d ")
    found = read_error_file(json.dumps({"message": {"message": callstack}}).encode(), context("error.json", "error_file"))
    assert found.notes == ()
    (traceback,) = found.tracebacks
    assert (traceback.root.type, traceback.root.message) == ("ValueError", '? ? "bad"')


@pytest.mark.parametrize(
    "data", [b"", b"   ", b'{"message": {"mess', b"[1, 2]", b'{"message": 7}', b"[" * 100_000, b"\xff\xfe"], ids=range(7)
)
def test_an_error_file_that_cannot_be_read_gives_a_note(data: bytes) -> None:
    found = read_error_file(data, context("error.json", "error_file"))
    assert (found.tracebacks, found.lines, len(found.notes)) == ((), (), 1)


@given(st.binary(max_size=300))
def test_any_error_file_is_survived(data: bytes) -> None:
    read_error_file(data, context("error.json", "error_file"))
