"""Clocks of several hosts and of kernels, from what must have happened at one moment."""

from __future__ import annotations

import pytest

from engine.faults import Log, aligned, attributed, clock
from firstfault.model.event import Place


def node(name, *, at, rank=0):
    """A log of one host with a first and a last line."""
    return Log(f"{name}.log", host=name, rank=rank).note("a.start", at=at).note("an.end", at=at + 700)


def delay(found, a, b, at_a=0.0, at_b=0.0):
    return found.clocks.delay(Place(host=a, time=clock(at_a)), Place(host=b, time=clock(at_b)))


def test_step_that_both_hosts_print():
    logs = [node("a", at=1000).steps(8, at=1500), node("b", at=1090, rank=1).steps(8, at=1590)]
    found = aligned(2, *logs)
    assert delay(found, "a", "b", 1500, 1590).seconds == 0
    assert delay(found, "a", "b").error_s == pytest.approx(10.001)
    assert found.clocks.said == ("the clock of b is 90 s ahead of that of a (± 5 s, from a training step that both print)",)


def test_other_step_says_nothing():
    found = aligned(2, node("a", at=1000).steps(8, at=1500), node("b", at=1090, rank=1).steps(7, at=1590))
    assert delay(found, "a", "b") is None and found.clocks.said == ()


def test_collectives_are_better_witnesses_than_steps():
    logs = [node("a", at=1000).steps(8, at=1500), node("b", at=1090, rank=1).steps(8, at=1600)]
    for log, at in zip(logs, (2100, 2190), strict=True):
        log.fault("collective_timeout", at=at, ran_for=600.0, seq=5, op="ALLREDUCE")
    assert delay(aligned(2, *logs), "a", "b").seconds == -90


@pytest.mark.parametrize("hours", [1, -5, 5.5])
def test_another_time_zone(hours):
    found = aligned(2, node("a", at=1_700_000_000), node("b", at=1_700_000_020 + hours * 3600, rank=1))
    assert delay(found, "a", "b").seconds == -hours * 3600
    (said,) = found.clocks.said
    assert "another time zone" in said and "± 2 min" in said


def test_host_that_goes_on_for_half_an_hour_is_in_no_other_zone():
    late = node("b", at=1_700_000_000, rank=1).note("a.timeout", at=1_700_000_700 + 1800)
    found = aligned(2, node("a", at=1_700_000_000), late)
    assert found.clocks.offsets.get("b", (0.0, 0.0))[0] == 0.0


def test_new_year_between_two_clocks_without_a_year():
    last_second = Place(host="a", time=clock(365 * 86_400 - 1, "yearless"))
    found = aligned(1, Log("x.log")).clocks.delay(last_second, Place(host="a", time=clock(1, "yearless")))
    assert found.seconds == 2


def kernel(host="a"):
    log = Log("dmesg.txt", host=host, kind="kernel")
    return log.fault("host_oom_kill", "Killed process 11 (python)", at=7010, kind="boot", pid=11)


def test_kill_that_kernel_and_launcher_report_ties_seconds_since_boot_to_the_clock():
    console = Log("console.log", host="a").exit(-9, rank=1, pid=11, at=50_000)
    found = aligned(2, kernel(), console)
    before = Place(host="a", time=clock(7000, "boot"))
    gap = found.clocks.delay(before, Place(host="a", time=clock(50_000)))
    assert (gap.seconds, gap.error_s >= 10) == (10, True)
    assert "tied to the clock" in found.clocks.said[0]
    assert attributed(2, kernel(), console).fault_class == "host_oom_kill"


def test_seconds_since_boot_without_an_anchor_are_said_to_have_none():
    other = Log("console.log", host="a").exit(-9, rank=1, pid=12, at=50_000)
    found = aligned(2, kernel(), other)
    assert found.clocks.boots == {} and "tied to no clock" in found.clocks.said[0]
