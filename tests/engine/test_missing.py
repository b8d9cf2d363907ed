"""The missing fact is computed from the conditions that are open: what separates most, cheapest first."""

from __future__ import annotations

import msgspec

from engine.faults import causal
from engine.runs import Stated, entry, pack_of, spec, told, when
from firstfault.engine.attribute import Attribution
from firstfault.engine.blanks import Blanks
from firstfault.engine.match import walk
from firstfault.engine.missing import missing_facts
from firstfault.model.bundle import Bundle, Source, SourceReport

ROOT = entry("oom", ['fault.class == "device_oom"'])
LOG = Bundle(reports=(SourceReport(source=Source(id="run.log", path="logs/run.log", kind="log")),))


def ask(pack, *facts, fault_class="device_oom"):
    known = Stated(pack, told("fault.class", fault_class), *facts)
    found = walk(known, pack, Attribution(fault_class=fault_class, certainty="established"))
    return missing_facts(found, known, pack, Blanks(known, LOG, "logs/run.log"))


def test_fact_that_separates_most_comes_first():
    pack = pack_of(
        ROOT,
        entry("a", ['oom.phase == "load"', "rare"], "oom"),
        entry("b", ['oom.phase == "forward"'], "oom"),
        facts=[spec("rare"), spec("oom.phase", "str")],
    )
    first, *_ = ask(pack)
    assert first.fact == "oom.phase"
    assert set(first.separates) == {"a", "b"}
    assert first.command == "look at logs/run.log"
    assert "What of oom.phase?" in first.why and "“a”" in first.why and "“b”" in first.why


def test_cheaper_question_comes_before_a_better_one():
    pack = pack_of(
        ROOT,
        entry("a", ["slope > 1"], "oom"),
        entry("b", ["slope > 2"], "oom"),
        entry("c", ["seen"], "oom"),
        facts=[spec("slope", "int", "one-run"), spec("seen", "bool", "seconds")],
    )
    assert [missing.fact for missing in ask(pack)] == ["seen", "slope"]


def test_unknown_veto_is_asked_for():
    killed = entry("killed", ["signal == 9"], "oom", against=[when("kernel", veto=True)])
    assert [missing.fact for missing in ask(pack_of(ROOT, killed, facts=[spec("kernel")]), told("signal", 9))] == ["kernel"]


def test_nothing_is_missing_where_it_is_established():
    child = entry("child", [when("a", decisive=True)], "oom", against=[when("b")])
    assert ask(pack_of(ROOT, child, facts=[spec("a"), spec("b")]), told("a", True)) == ()


def test_known_facts_and_excluded_children_ask_nothing():
    pack = pack_of(ROOT, entry("a", ["x", "y"], "oom"), entry("b", ["z"], "oom"), facts=[spec("x"), spec("y"), spec("z")])
    assert [missing.fact for missing in ask(pack, told("x", False))] == ["z"]


def test_whole_traceback_is_not_asked_for_again():
    pack = pack_of(ROOT, entry("a", ["oom.phase"], "oom"), facts=[spec("oom.phase", producer="engine/derive/frames")])
    assert [missing.fact for missing in ask(pack)] == ["oom.phase"]
    assert ask(pack, told("exc.calls_more", True)) == ()


def test_only_collateral_asks_for_the_other_ranks():
    timeout = entry("timeout", ['fault.class == "collective_timeout"'])
    pack = pack_of(timeout, facts=[spec("fault.rank_has_log"), spec("collective.suspect_kind", "str", "rerun")])
    asked = ask(pack, told("fault.rank_has_log", False), fault_class="collective_timeout")
    assert [missing.fact for missing in asked] == ["fault.rank_has_log", "collective.suspect_kind"]
    asked = ask(pack, told("fault.rank_has_log", True), fault_class="collective_timeout")
    assert [missing.fact for missing in asked] == ["collective.suspect_kind"]


def test_unknown_blank_stays_readable():
    pack = pack_of(ROOT, entry("a", ["x"], "oom"), facts=[spec("x", obtain="{launch.command} | tee {log}")])
    assert ask(pack)[0].command == "<your launch command> | tee logs/run.log"


def test_fact_that_decides_nothing_by_itself_comes_after_one_that_does():
    pack = pack_of(
        ROOT,
        entry("a", ["free > 0.1 * total"], "oom"),
        entry("b", ["free > 0.2 * total"], "oom"),
        entry("c", ["seen"], "oom"),
        facts=[spec("free", "int"), spec("total", "int"), spec("seen")],
    )
    assert ask(pack)[0].fact == "seen"


def test_late_rank_that_lived_is_asked_what_it_was_doing():
    asked = ("collective.suspect_activity", "fault.rank_has_log", "collective.suspect_kind", "fault.own_exceptions")
    timeout = entry("timeout", ['fault.class == "collective_timeout"'])
    pack = msgspec.structs.replace(
        pack_of(timeout, facts=[spec(name) for name in asked]),
        causal=causal(),
    )
    assert ask(pack, fault_class="collective_timeout")[0].fact == "fault.rank_has_log"
    late = told("collective.suspect_alive", True)
    assert ask(pack, late, fault_class="collective_timeout")[0].fact == "collective.suspect_activity"
    known = ask(pack, late, told("collective.suspect_activity", "save"), fault_class="collective_timeout")
    assert known[0].fact == "fault.rank_has_log"
    training = ask(pack, late, told("collective.suspect_activity", "train"), fault_class="collective_timeout")
    assert training[0].fact == "collective.suspect_activity"
