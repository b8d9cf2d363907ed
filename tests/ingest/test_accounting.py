from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.accounting import AccountingTable
from firstfault.ingest.scheduler import read_scheduler
from firstfault.ingest.sniff import sniff
from reader_lines import context, lines

BARS = """\
JobID|State|ExitCode|DerivedExitCode|MaxRSS|ReqMem|Elapsed|Timelimit|NodeList|End
718|FAILED|1:0|0:9|||00:41:10|04:00:00|node-3|2031-03-04T10:41:10
718.batch|FAILED|1:0||210412K||00:41:10||node-3|2031-03-04T10:41:10
718.extern|COMPLETED|0:0||0||00:41:10||node-3|2031-03-04T10:41:10
718.0|FAILED|0:9||66060288K||00:41:02||node-3|2031-03-04T10:41:02
"""
COLUMNS = """\
       JobID      State ExitCode     ReqMem   NNodes        NodeList
------------ ---------- -------- ---------- -------- ---------------
718          OUT_OF_ME+    0:125        64G        1          node-3
718.batch    OUT_OF_ME+    0:125                   1          node-3
718.0         CANCELLED     0:15                   1          node-3
"""


def read(text):
    exits, facts = read_scheduler(lines(text), context("sacct.txt", "slurm"))
    assert all(fact.spans for fact in facts)
    return exits, {fact.name: fact.value for fact in facts}


def test_steps_end_on_their_node_and_the_extern_step_is_slurms_own():
    exits, facts = read(BARS)
    assert [(found.code, found.place.host, found.reporter) for found in exits] == [
        (1, "node-3", "slurm"),
        (-9, "node-3", "slurm"),
    ]
    assert exits[1].place.time.text == "2031-03-04T10:41:02"
    assert facts == {}


def test_columns_are_as_wide_as_their_dashes():
    exits, facts = read(COLUMNS)
    assert [found.code for found in exits] == [-9, -15]
    assert facts == {"host.oom_kill": "memcg", "host.ram_bytes": 64 << 30}


@pytest.mark.parametrize(
    ("memory", "nodes", "known"),
    [
        ("64G", "node-3", True),
        ("64Gn", "node-[3-4]", True),
        ("64G", "node-[3-4]", False),
        ("4Gc", "node-3", False),
        ("", "node-3", False),
    ],
)
def test_memory_counts_where_it_is_that_of_one_node(memory, nodes, known):
    _, facts = read(f"JobID|State|ExitCode|ReqMem|NodeList\n718|FAILED|1:0|{memory}|{nodes}\n")
    assert facts.get("host.ram_bytes") == (64 << 30 if known else None)


@pytest.mark.parametrize(
    ("state", "stop"),
    [
        ("TIMEOUT", "time_limit"),
        ("PREEMPTED", "preemption"),
        ("NODE_FAIL", "node_failure"),
        ("CANCELLED by 1004", "cancelled"),
        ("FAILED", None),
    ],
)
def test_the_state_of_the_job_says_why_it_stopped(state, stop):
    _, facts = read(f"JobID|JobName|State|ExitCode\n718_4|train TIMEOUT test|{state}|0:0\n718_4.0|python|CANCELLED|0:15\n")
    assert facts.get("sched.stop") == stop


def test_a_job_without_steps_ends_itself():
    (found,), _ = read("JobID|State|ExitCode\n718|FAILED|137:0\n719|COMPLETED|0:0\n")
    assert found.code == -9


@given(st.lists(st.text(alphabet="JobID State|-. 0123456789:FAILED\n", max_size=80), max_size=8))
def test_any_table_is_read(texts):
    table = AccountingTable()
    for text in texts:
        table.row(text)


@pytest.mark.parametrize("text", [BARS, COLUMNS])
def test_such_a_table_is_known_by_its_content(text):
    assert sniff("x.txt", text.encode()) == "slurm"
