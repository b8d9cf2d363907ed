"""The signal files: they load, their literals are rare in healthy logs, and they agree with the causal table."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

from firstfault.knowledge.causal import load_causal
from firstfault.knowledge.fact_list import load_facts
from firstfault.knowledge.pattern import GOOD_LITERAL_BYTES
from firstfault.knowledge.schema import Signal
from firstfault.knowledge.signal import load_signals
from firstfault.knowledge.signal_match import match_text
from signals.benign_corpus import benign_text

ROOT = Path(__file__).parents[2]
FILES = sorted(path for path in (ROOT / "signals").glob("*.toml") if path.stem != "redaction")
CORPUS_BYTES = 4 << 20
FATAL_ROLES = ("initiating", "either", "collateral")


@lru_cache
def signals() -> tuple[Signal, ...]:
    return tuple(signal for path in FILES for signal in load_signals(path))


@lru_cache
def corpus() -> str:
    return benign_text(seed=7, size_bytes=CORPUS_BYTES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_loads_and_its_samples_match(path: Path) -> None:
    assert load_signals(path)


def test_ids_are_unique() -> None:
    idents = [signal.id for signal in signals()]
    assert sorted(idents) == sorted(set(idents))


def test_literals_are_long_enough_for_the_prefilter() -> None:
    """Seven bytes are left where a number stands on either side."""
    short = [s.id for s in signals() if len(s.literal.encode()) < GOOD_LITERAL_BYTES and s.role != "progress"]
    assert short == ["kernel.edac_uncorrected"]


def test_literals_are_rare_in_healthy_logs() -> None:
    """At most one hit in a megabyte; progress lines are sampled by the scan instead."""
    allowed = CORPUS_BYTES >> 20
    literals = {signal.literal for signal in signals() if signal.role != "progress"}
    frequent = {literal: count for literal in literals if (count := corpus().count(literal)) > allowed}
    assert frequent == {}


def test_nothing_fatal_is_seen_in_healthy_logs() -> None:
    lines = re.split(r"[\r\n]", corpus())
    seen = {
        (signal.id, line)
        for signal in signals()
        if signal.role in FATAL_ROLES and signal.literal in corpus()
        for line in lines
        if signal.literal in line and match_text(signal, line) is not None
    }
    assert seen == set()


def test_progress_is_seen_in_healthy_logs() -> None:
    lines = re.split(r"[\r\n]", corpus())[:4000]
    progress = [signal for signal in signals() if signal.role == "progress"]
    seen = {
        signal.id for signal in progress for line in lines if signal.literal in line and match_text(signal, line) is not None
    }
    assert {
        "progress.tqdm.first_half",
        "progress.tqdm.second_half",
        "progress.trainer_dict",
        "progress.megatron",
        "progress.deepspeed",
        "progress.step_of",
        "data.progress.examples",
    } <= seen


def test_bars_of_data_carry_no_step() -> None:
    assert all(not signal.holes for signal in signals() if signal.event == "data.progress")


def test_fatal_signals_have_the_role_of_their_class() -> None:
    priors = {row.id: row.prior for row in load_causal(ROOT / "encyclopedia" / "explains.toml").classes}
    wrong = {
        signal.id: (signal.role, signal.fault_class)
        for signal in signals()
        if (signal.role in FATAL_ROLES or signal.fault_class) and priors.get(signal.fault_class or "") != signal.role
    }
    assert wrong == {}


def test_facts_exist_and_have_the_type_that_the_signal_gives() -> None:
    specs = load_facts(ROOT / "encyclopedia" / "facts.toml")
    accepted = {
        "int": ("int", "rank", "size"),
        "bytes": ("size", "int"),
        "rank": ("int", "rank"),
        "float": ("float", "int", "duration"),
    }
    for signal in signals():
        for name, given in signal.facts.items():
            spec = specs[name]
            if isinstance(given, str) and given.startswith("{"):
                assert signal.holes[given[1:-1]] in accepted.get(spec.type, (signal.holes[given[1:-1]],)), (signal.id, name)
            elif spec.type == "enum":
                assert given in spec.values, (signal.id, name)
            else:
                assert isinstance(given, {"bool": bool, "int": int}.get(spec.type, str)), (signal.id, name)


def test_events_and_facts_share_no_name() -> None:
    """A condition asks for either by its name; the one exception says the same as event and as fact."""
    specs = load_facts(ROOT / "encyclopedia" / "facts.toml")
    assert {signal.event for signal in signals()} & specs.keys() == {"run.finished"}


def test_an_event_means_one_thing() -> None:
    """Only Xids differ in class by their number."""
    roles: dict[str, set[tuple[str, str | None]]] = {}
    for signal in signals():
        if signal.role in FATAL_ROLES:
            roles.setdefault(signal.event, set()).add((signal.role, signal.fault_class))
    several = {event: seen for event, seen in roles.items() if len(seen) > 1}
    assert several.keys() == {"gpu.xid_line"}
