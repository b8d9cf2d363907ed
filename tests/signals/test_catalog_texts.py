"""Every text that the catalogue of causes names is a signal, or the list says who reads it instead."""

from __future__ import annotations

import tomllib
from pathlib import Path

from firstfault.knowledge.pack import load_pack

LIST = Path(__file__).parent / "catalog_texts.toml"


def _listed() -> tuple[set[str], dict[str, str]]:
    read = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {text for texts in read["texts"].values() for text in texts}, read["read_otherwise"]


def _sampled(text: str) -> bool:
    """True if a sample, which its signal must match, holds the text; front ends differ in capitals."""
    return any(text.lower() in sample.line.lower() for signal in load_pack().signals for sample in signal.samples)


def test_each_text_stands_in_a_sample_or_is_read_otherwise() -> None:
    texts, otherwise = _listed()
    assert sorted(text for text in texts - otherwise.keys() if not _sampled(text)) == []


def test_no_exception_is_out_of_date() -> None:
    texts, otherwise = _listed()
    assert otherwise.keys() <= texts
    assert sorted(text for text in otherwise if _sampled(text)) == []


def test_the_causes_of_the_list_are_entries() -> None:
    causes = tomllib.loads(LIST.read_text(encoding="utf-8"))["texts"].keys()
    assert sorted(causes - load_pack().entries.keys()) == []
