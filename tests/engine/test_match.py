"""The walk: roots, children, second parents, fallback nodes, ties, and the four verdicts."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import Log
from engine.runs import Stated, entry, pack_of, spec, told, when
from firstfault.engine.attribute import Attribution
from firstfault.engine.match import walk
from firstfault.knowledge.schema import Signal
from firstfault.model.event import Event
from firstfault.model.span import SourceSpan

OOM = 'fault.class == "device_oom"'


def reach(pack, *facts, fault_class="device_oom", **more):
    known = Stated(pack, told("fault.class", fault_class), *facts)
    attribution = Attribution(fault_class=fault_class, certainty=more.pop("certainty", "established"), **more)
    found = walk(known, pack, attribution)
    return found, tuple(step.entry.id for step in found.path)


ROOT = entry("oom", [OOM])
PACK = pack_of(
    ROOT,
    entry("activations", ['oom.phase == "forward"'], "oom", evidence=[when("run.steps_done == 0", weight=3)]),
    entry("optimizer", ['oom.phase == "optimizer"'], "oom", evidence=[when('oom.consumer == "optimizer_init"', decisive=True)]),
)


def test_decisive_child_is_established():
    found, path = reach(PACK, told("oom.phase", "optimizer"), told("oom.consumer", "optimizer_init"))
    assert (found.verdict, path) == ("established", ("oom", "optimizer"))


def test_supported_child_is_likely():
    found, path = reach(PACK, told("oom.phase", "forward"), told("run.steps_done", 0))
    assert (found.verdict, path) == ("likely", ("oom", "activations"))


def test_unknown_requirements_stop_at_the_parent():
    found, path = reach(PACK)
    assert (found.verdict, path) == ("undetermined", ("oom",))
    assert {candidate.entry.id for candidate in found.open} == {"activations", "optimizer"}


def test_parent_whose_children_are_all_false_is_likely():
    found, path = reach(PACK, told("oom.phase", "gather"))
    assert (found.verdict, path) == ("likely", ("oom",))


def test_what_was_told_never_establishes():
    found, path = reach(PACK, told("oom.phase", "optimizer"), told("oom.consumer", "optimizer_init", basis="told"))
    assert (found.verdict, path) == ("likely", ("oom", "optimizer"))
    found, _ = reach(PACK, told("oom.phase", "optimizer"), told("oom.consumer", "optimizer_init", basis="answered"))
    assert found.verdict == "established"


@pytest.mark.parametrize("veto", [True, False])
def test_true_against_ends_a_child_or_keeps_it_from_being_established(veto):
    child = entry("child", ["a"], "oom", evidence=[when("b", decisive=True)], against=[when("c", veto=veto)])
    found, path = reach(pack_of(ROOT, child), told("a", True), told("b", True), told("c", True))
    assert (found.verdict, path) == (("likely", ("oom",)) if veto else ("likely", ("oom", "child")))


def test_tie_stops_at_the_parent():
    pack = pack_of(ROOT, entry("one", ["a"], "oom"), entry("two", ["b"], "oom"))
    found, path = reach(pack, told("a", True), told("b", True))
    assert (found.verdict, path) == ("undetermined", ("oom",))
    assert {candidate.entry.id for candidate in found.open} == {"one", "two"}


def test_lead_of_two_is_clear():
    pack = pack_of(ROOT, entry("one", ["a"], "oom", evidence=[when("c", weight=2)]), entry("two", ["b"], "oom"))
    found, path = reach(pack, told("a", True), told("b", True), told("c", True))
    assert (found.verdict, path) == ("likely", ("oom", "one"))


def test_second_parent_wins_when_it_is_decided():
    plan = entry("plan", ["plan.finding"])
    cause = entry("cause", ["wrapped"], "plan", evidence=[when("processes == 1", decisive=True)], also_under=["oom"])
    symptom = entry("symptom", ["a"], "oom", evidence=[when("b", weight=5)])
    pack = pack_of(ROOT, plan, cause, symptom)
    found, path = reach(pack, told("a", True), told("b", True), told("wrapped", True), told("processes", 1))
    assert (found.verdict, path) == ("established", ("oom", "cause"))
    found, path = reach(pack, told("a", True), told("b", True), told("wrapped", True))
    assert path == ("oom", "symptom")


def test_fallback_is_considered_only_when_nothing_says_why():
    pack = pack_of(ROOT, entry("reported", ["a"], "oom", fallback=True), entry("why", ["b"], "oom"))
    assert reach(pack, told("a", True), told("b", True))[1] == ("oom", "why")
    assert reach(pack, told("a", True), told("b", False))[1] == ("oom", "reported")


def test_fallback_is_never_established():
    pack = pack_of(ROOT, entry("reported", [when("a", decisive=True)], "oom", fallback=True))
    assert reach(pack, told("a", True))[0].verdict == "likely"


def test_fallback_root_gives_way_to_one_with_a_text_of_its_own():
    pack = pack_of(entry("exception", ['fault.class == "python_exception"'], fallback=True), entry("shape", ["torch.shape"]))
    assert reach(pack, told("torch.shape", True), fault_class="python_exception")[1] == ("shape",)
    assert reach(pack, fault_class="python_exception")[1] == ("exception",)


def test_plan_finding_does_not_explain_a_crash_by_itself():
    pack = pack_of(ROOT, entry("plan", ["plan.finding"], evidence=[when("plan.finding", weight=9)]))
    assert reach(pack, told("plan.finding", True))[1] == ("oom",)


def test_silent_run_is_opened_by_the_plan():
    pack = pack_of(ROOT, entry("plan", ["plan.finding"]), entry("fewer", ["launch.processes == 1"], "plan"))
    found, path = reach(pack, told("plan.finding", True), told("launch.processes", 1), fault_class="none")
    assert path == ("plan", "fewer") and found.verdict == "likely"


def test_silent_run_is_opened_by_decisive_vitals():
    spike = entry("spike", ["train.steps > 1"], "oom")
    window = entry("window", ["train.steps > 1"], "spike", evidence=[when("memory.slope > 5", decisive=True)])
    found, path = reach(pack_of(ROOT, spike, window), told("train.steps", 8), told("memory.slope", 9), fault_class="none")
    assert (found.verdict, path) == ("established", ("oom", "spike", "window"))


def test_nothing_failed():
    assert reach(PACK, fault_class="none")[0].verdict == "no_failure"


def test_run_that_stops_without_a_word_is_undetermined():
    found, path = reach(PACK, fault_class="silent")
    assert (found.verdict, path) == ("undetermined", ())


def test_only_collateral_is_undetermined():
    pack = pack_of(entry("timeout", [when('fault.class == "collective_timeout"', decisive=True)]))
    found, path = reach(pack, fault_class="collective_timeout")
    assert (found.verdict, path) == ("undetermined", ("timeout",)) and found.only_collateral


def waiting(*evidence, fallback=False, against=()):
    """A pack with one cause below a time-out."""
    root = entry("timeout", ['fault.class == "collective_timeout"'])
    return pack_of(root, entry("straggler", ["kind"], "timeout", evidence=evidence, against=against, fallback=fallback))


def reach_waiting(pack, *facts, **more):
    found, path = reach(pack, told("kind", True), *facts, fault_class="collective_timeout", certainty="likely", **more)
    return found.verdict, path[-1]


def test_evidence_beside_the_report_makes_a_cause_of_a_wait_likely():
    assert reach_waiting(waiting(when("activity", weight=3)), told("activity", True)) == ("likely", "straggler")
    assert reach_waiting(waiting(when("activity", weight=1)), told("activity", True)) == ("undetermined", "straggler")
    assert reach_waiting(waiting(when("activity", weight=3), fallback=True), told("activity", True))[0] == "undetermined"


def test_the_report_of_a_wait_says_nothing_of_its_cause():
    log = Log("run.log").fault("collective_timeout")
    report = msgspec.structs.replace(told("activity", True), spans=(log.events[0].span,))
    assert reach_waiting(waiting(when("activity", weight=3)), report, initiating=tuple(log.events))[0] == "undetermined"


def test_cause_of_a_wait_is_established_if_it_is_decided_and_the_rank_is_named():
    pack = waiting(when("activity", decisive=True))
    assert reach_waiting(pack, told("activity", True), rank=2) == ("established", "straggler")
    assert reach_waiting(pack, told("activity", True)) == ("likely", "straggler")
    doubted = waiting(when("activity", decisive=True), against=[when("other", veto=True)])
    assert reach_waiting(doubted, told("activity", True), rank=2) == ("likely", "straggler")


def test_requirement_of_the_parent_counts_once():
    spike = entry("spike", ["steps > 1"], "oom", evidence=[when("fits", decisive=True)])
    window = entry("window", ["steps > 1"], "spike", evidence=[when("after", weight=3)])
    pack = pack_of(ROOT, spike, window)
    assert reach(pack, told("steps", 8), told("fits", True))[1] == ("oom", "spike")
    assert reach(pack, told("steps", 8), told("fits", True), told("after", True))[1] == ("oom", "spike", "window")


def test_bare_leaf_with_an_unknown_veto_is_undetermined():
    killed = entry("killed", ["signal == 9"], "oom", evidence=[when("alone", weight=2)], against=[when("kernel", veto=True)])
    pack = pack_of(ROOT, killed)
    assert reach(pack, told("signal", 9))[0].verdict == "undetermined"
    assert reach(pack, told("signal", 9), told("kernel", False))[0].verdict == "likely"
    assert reach(pack, told("signal", 9), told("alone", True))[0].verdict == "likely"


def test_cut_traceback_keeps_a_bare_child_from_leading():
    children = [
        entry("one", ["oom.phase == 1"], "oom"),
        entry("two", ["oom.phase == 2"], "oom"),
        entry("rest", ["left > 1"], "oom"),
    ]
    pack = pack_of(ROOT, *children, facts=[spec("oom.phase", "int", producer="engine/derive/frames")])
    assert reach(pack, told("left", 2))[1] == ("oom",)
    assert reach(pack, told("left", 2), told("oom.phase", 3))[1] == ("oom", "rest")


def test_evidence_of_a_grandchild_breaks_a_tie_of_its_parents():
    deeper = [
        entry("left", ["a"], "oom"),
        entry("right", ["a"], "oom"),
        entry("right-below", ["b"], "right", evidence=[when("c", weight=3)]),
    ]
    facts = (told("a", True), told("b", True))
    assert reach(pack_of(ROOT, *deeper), *facts)[1] == ("oom",)
    assert reach(pack_of(ROOT, *deeper), *facts, told("c", True))[1] == ("oom", "right", "right-below")


def test_text_of_the_launcher_opens_a_root_although_settings_of_its_family_do_not():
    refused = entry("refused", ["launch.refused_text"])
    pack = pack_of(entry("exception", ['fault.class == "python_exception"'], fallback=True), refused)
    assert reach(pack, told("launch.refused_text", True), fault_class="python_exception")[1] == ("exception",)
    printed = Signal(
        id="x",
        event="launch.refused_text",
        role="initiating",
        fault_class="python_exception",
        literal="refused",
        pattern="refused",
    )
    spoken = msgspec.structs.replace(pack, signals=(printed,))
    assert reach(spoken, told("launch.refused_text", True), fault_class="python_exception")[1] == ("refused",)


def test_setting_that_fits_ties_with_a_bare_lead_but_not_with_evidence():
    setting = entry("setting", ["train.accumulation_steps > 1"], "oom", against=[when("unknown_veto", veto=True)])
    symptom = entry("symptom", ["a"], "oom", evidence=[when("b", weight=3)])
    pack = pack_of(ROOT, setting, symptom)
    facts = (told("train.accumulation_steps", 8), told("a", True))
    assert reach(pack, *facts)[1] == ("oom",)
    assert reach(pack, *facts, told("b", True))[1] == ("oom", "symptom")


def test_reporter_is_not_established_while_a_why_is_open():
    reporter = entry("reporter", ["a"], "oom", fallback=True, evidence=[when("b", decisive=True)])
    facts = (told("a", True), told("b", True))
    assert reach(pack_of(ROOT, reporter), *facts)[0].verdict == "established"
    why = entry("why", ["unknown"], "oom")
    found, path = reach(pack_of(ROOT, reporter, why), *facts)
    assert (found.verdict, path) == ("likely", ("oom", "reporter"))


def test_competing_failure_keeps_an_answer_from_being_established():
    facts = (told("oom.phase", "optimizer"), told("oom.consumer", "optimizer_init"))
    assert reach(PACK, *facts)[0].verdict == "established"
    rival = Event(
        name="x", signal="x", role="initiating", fault_class="python_exception", span=SourceSpan("run.log", 9, 900), text="x"
    )
    assert reach(PACK, *facts, independent=(rival,))[0].verdict == "likely"
