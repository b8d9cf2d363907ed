"""Readers that look only where one of their words stands must find there all that they would find anywhere."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.ingest import batch_shapes, elastic, exits, kernel, kubernetes, limits, printed, scheduler, structure
from firstfault.ingest.structure import read_structure
from reader_lines import context, lines

_SEEN = (
    (structure._EXITS, exits._TRIGGER),
    (structure._KERNEL, kernel._TRIGGER),
    *((structure._SCHEDULER, pattern) for pattern in (scheduler._CANCELLED, scheduler._OOM, scheduler._TASK_EXIT)),
    *((structure._SCHEDULER, pattern) for pattern in (scheduler._ACCOUNTING, scheduler._MEMORY, kubernetes._FIRST_WORDS)),
)
_TEXTS = (
    ("exits", "torch.distributed.elastic Sending process 4021 closing signal SIGTERM"),
    ("exits", "KILLED"),
    ("exits", "[2]+  Segmentation fault      (core dumped) python train.py"),
    ("exits", "  time      : 2025-03-19_09:50:04\n  exitcode  : 1 (pid: 4021)\n  traceback : x"),
    ("exits", "Out of memory: Killed process 4021 (python) total-vm:1kB"),
    ("facts", "NVRM: Xid (PCI:0000:98:00): 79, pid=4021, GPU has fallen off the bus."),
    ("facts", "slurmstepd: error: *** JOB 4711 ON node-1 CANCELLED AT 2025-03-19T09:50:04 DUE TO TIME LIMIT ***"),
    ("facts", "4711   train   TIMEOUT   0:0"),
    ("facts", "Name:   worker-0\nStatus: Failed\nReason: Evicted"),
)


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_line_that_a_reader_looks_at_has_one_of_its_words(data: st.DataObject) -> None:
    for reader, pattern in _SEEN:
        text = data.draw(st.from_regex(re.compile(pattern.pattern, pattern.flags | re.ASCII))).casefold()
        assert any(word in text for word in reader.words), pattern.pattern


def test_a_failure_without_an_exit_code_is_none() -> None:
    text = "  time      : 2025-03-19_09:50:04\n  rank      : 0 (local_rank: 0)\n  traceback : x"
    assert not elastic.read_failure_blocks(lines(text), context())
    assert structure._FAILURE_BLOCKS.words == ("exitcode",)


@pytest.mark.parametrize(("part", "text"), _TEXTS)
def test_what_stands_alone_in_a_log_is_found(part: str, text: str) -> None:
    found = read_structure([lines(text)], "", context())
    assert getattr(found, part)


def test_printed_values_are_looked_for_by_the_words_of_their_reader() -> None:
    assert structure._VALUES.words == printed.WORDS
    assert structure._LIMITS.words == limits.WORDS
    assert structure._BATCH_SHAPES.words == batch_shapes.WORDS


def test_a_run_configuration_is_read_where_the_kind_is_unknown() -> None:
    found = read_structure([lines("fsdp:\nadapter: qlora")], "fsdp:\nadapter: qlora", context("run.yml", "unknown"))
    assert [(one.family, one.key, one.value) for one in found.settings] == [
        ("config", "fsdp", None),
        ("config", "adapter", "qlora"),
    ]
    assert not read_structure([lines("a: [")], "a: [", context("run.yml", "unknown")).notes
