"""Walks the JSON of a diagnosis and names every claim that stands on no line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def claims_without_evidence(answer: dict[str, Any]) -> list[str]:
    """One sentence for each claim without evidence, and for each piece of evidence that nobody could look up; empty is good."""
    known = {item["id"] for item in answer["evidence"]}
    problems = [problem for item in answer["evidence"] for problem in _evidence_problems(item)]
    if len(known) != len(answer["evidence"]):
        problems.append("two pieces of evidence share an id")
    for name, keys in _claims(answer):
        if not keys:
            problems.append(f"{name}: no evidence")
        problems += [f"{name}: {key} is no evidence of this answer" for key in keys if key not in known]
    for number, mark in enumerate(answer["timeline"]):
        if mark["evidence"] is not None and mark["evidence"] not in known:
            problems.append(f"timeline[{number}]: {mark['evidence']} is no evidence of this answer")
    return problems


def _claims(answer: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    if answer["initiating"]:
        yield "initiating", answer["initiating"]["evidence"]
    for name in ("collateral", "reasons", "others"):
        for number, item in enumerate(answer[name]):
            yield f"{name}[{number}]", item["evidence"]
            if item.get("initiating"):
                yield f"{name}[{number}].initiating", item["initiating"]["evidence"]


def _evidence_problems(item: dict[str, Any]) -> Iterator[str]:
    name = item["id"] or "evidence without id"
    if not item["source"]:
        yield f"{name}: no source"
    if item["line"] < 1:
        yield f"{name}: lines count from 1"
    if item["offset"] < 0:
        yield f"{name}: a negative offset"
    if not item["text"].strip():
        yield f"{name}: no text"
