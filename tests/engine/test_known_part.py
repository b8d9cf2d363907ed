"""What speaks for a cause that is only possible."""

from __future__ import annotations

from engine.runs import Stated, entry, pack_of, spec, told, when
from firstfault.engine.known_part import known_part

PACK = pack_of(facts=(spec("launch.processes", "int"), spec("launch.visible_gpus", "int")))
ONE = told("launch.processes", 1, line=8)


def shown(condition, *facts):
    return [text for text, _ in known_part(entry("e", [], plan=(when(condition),)), Stated(PACK, *facts))]


def test_the_true_part_of_an_open_condition_is_shown_with_its_line():
    found = known_part(entry("e", [], plan=(when("launch.processes == 1 and launch.visible_gpus > 1"),)), Stated(PACK, ONE))
    assert [(text, fact.spans[0].line) for text, fact in found] == [("what launch.processes says: 1 (test)", 8)]


def test_what_is_decided_or_is_only_one_of_several_ways_shows_nothing():
    assert shown("launch.processes == 1", ONE) == []
    assert shown("launch.processes == 2 or launch.visible_gpus > 1", ONE) == []


def test_a_part_that_is_open_itself_is_not_shown():
    assert shown("launch.visible_gpus > launch.processes and launch.processes == 1", ONE) == [
        "what launch.processes says: 1 (test)"
    ]
