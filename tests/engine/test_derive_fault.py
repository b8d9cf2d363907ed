"""Whether the run went on after a fault, and whether its work was done before."""

from __future__ import annotations

from engine.faults import Log
from engine.runs import facts_of


def test_run_that_went_on_recovered():
    log = Log("a.log").steps(4).raises("OSError: retrying").steps(6).note("run.finished")
    facts = facts_of(log)
    assert facts.value("fault.recovered") is True
    assert facts["fault.recovered"].spans
    assert facts.value("exit.after_work") is None


def test_run_that_failed_or_had_no_fault_says_nothing():
    assert facts_of(Log("a.log").steps(4).raises("OSError: no")).value("fault.recovered") is None
    assert facts_of(Log("a.log").steps(4).note("run.finished")).value("fault.recovered") is None


def test_crash_below_the_end_of_training_came_after_the_work():
    log = Log("a.log").steps(4).note("run.finished").raises("ValueError: at exit")
    console = Log("console.log").exit(1, pid=10)
    facts = facts_of(log, console)
    assert facts.value("exit.after_work") is True
    assert [span.line for span in facts["exit.after_work"].spans] == [5, 7]


def test_crash_without_such_a_line_above_says_nothing():
    assert facts_of(Log("a.log").steps(4).raises("ValueError: x")).value("exit.after_work") is None
    other = Log("b.log").note("run.finished")
    assert facts_of(Log("a.log").steps(4).raises("ValueError: x"), other).value("exit.after_work") is None
