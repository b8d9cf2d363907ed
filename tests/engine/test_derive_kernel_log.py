"""Whether the silence of a kernel log says something about the end of a rank."""

from __future__ import annotations

import pytest

from engine.faults import Log
from engine.runs import facts_of
from firstfault.ingest.clock import parse_clock
from firstfault.model.bundle import Coverage
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan

ENDED = "2025-03-04 10:12:00"


def kernel_log(first="2025-03-04 09:00:00", last="2025-03-04 11:00:00", host="node-1"):
    log = Log("dmesg.txt", kind="kernel", host=host)
    spans = (SourceSpan("dmesg.txt", 1, 0), SourceSpan("dmesg.txt", 90, 8_900))
    log.covers = Coverage(host=host, first=parse_clock(first), last=parse_clock(last), spans=spans)
    return log


def console(ended=ENDED, host="node-1", code=-9):
    log = Log("console.log", host=host)
    log.exit(code, rank=1, pid=101, at=parse_clock(ended).seconds)
    log.exit(None, rank=0, pid=100, told=True)
    return log


def test_a_log_around_the_end_without_a_kill():
    facts = facts_of(console(), kernel_log(), size=2)
    assert facts.value("host.kernel_log_covers") is True
    assert facts.value("host.oom_kill") == "none"
    assert facts.value("exit.signal_sender") == "unknown"
    assert [span.line for span in facts["host.oom_kill"].spans] == [1, 90]


@pytest.mark.parametrize(
    "log",
    [
        kernel_log(last="2025-03-04 10:00:00"),
        kernel_log(first="2025-03-04 10:30:00"),
    ],
)
def test_a_log_that_ends_before_or_begins_after(log):
    facts = facts_of(console(), log, size=2)
    assert facts.value("host.kernel_log_covers") is False
    assert facts.value("host.oom_kill") is None
    assert facts.value("exit.signal_sender") is None


@pytest.mark.parametrize(
    "log",
    [
        kernel_log(host="node-2"),
        kernel_log(last="2025-03-04 10:12:30"),  # too near: the clock of dmesg drifts
        kernel_log(first="2025-03-04 09:00:00 +0200", last="2025-03-04 11:00:00 +0200"),  # is the end local time or UTC?
    ],
)
def test_another_host_a_near_miss_and_an_unknown_zone_decide_nothing(log):
    facts = facts_of(console(), log, size=2)
    assert facts.value("host.kernel_log_covers") is None
    assert facts.value("host.oom_kill") is None


def test_a_zone_is_no_obstacle_where_both_readings_agree():
    log = kernel_log(first="2025-03-04 04:00:00 +0200", last="2025-03-04 19:00:00 +0200")
    assert facts_of(console(), log, size=2).value("host.oom_kill") == "none"


def test_a_clock_without_a_year():
    log = kernel_log(first="Mar 04 09:00:00", last="Mar 04 11:00:00")
    assert facts_of(console(), log, size=2).value("host.kernel_log_covers") is True


def test_a_kill_anywhere_is_not_overlooked():
    log = kernel_log().fault("host_oom_kill", name="kernel.oom_kill")
    assert facts_of(console(), log, size=2).value("host.oom_kill") != "none"
    log = kernel_log()
    log.facts.append(Fact(name="host.oom_kill", value="memcg", origin="test"))
    assert facts_of(console(), log, size=2).value("host.oom_kill") == "memcg"


def test_without_the_time_of_the_end_nothing_is_covered():
    log = Log("console.log", host="node-1").exit(-9, rank=1, pid=101)
    facts = facts_of(log, kernel_log(), size=2)
    assert facts.value("host.kernel_log_covers") is None
