"""One diagnosis held against its label."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from firstfault.model.diagnosis import Diagnosis, Evidence, Initiating
from firstfault.trial.label import Case, Label

# A piece of evidence may be a part of the labelled line (long lines are cut), but not any word of it.
_SHARE_OF_LINE = 0.6
_SHORTEST_PART = 20


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What was right in one answer. Values that do not apply to the kind of case are None.

    `credit` is 1 for the labelled entry (or an accepted one) with a verdict that commits itself, 0.5 for a more general entry
    or an uncommitted right one. `false_established` is the worst outcome: established, and the entry is wrong.
    """

    case: str
    set: str
    category: str
    kind: Literal["decidable", "undecidable", "negative"]
    verdict: str
    entry: str | None
    wanted: str | None
    credit: float = 0.0
    rank_right: bool | None = None
    line_cited: bool | None = None
    asked_right: float | None = None
    false_established: bool = False


def judge(case: Case, answer: Diagnosis) -> Judgement:
    """Hold `answer` against the label of `case`."""
    label = case.label
    kind: Literal["decidable", "undecidable", "negative"] = (
        "negative" if label.negative else "undecidable" if label.undecidable else "decidable"
    )
    base = Judgement(
        case=case.name,
        set=case.set,
        category=label.category or "none",
        kind=kind,
        verdict=answer.verdict,
        entry=answer.entry,
        wanted=label.id,
    )
    if kind == "negative":
        right = answer.verdict == "no_failure"
        return msgspec.structs.replace(base, credit=float(right), false_established=answer.verdict == "established")
    if answer.verdict == "no_failure":
        accepted = label.accept_no_failure
        return msgspec.structs.replace(
            base, credit=float(accepted), rank_right=accepted, line_cited=None if accepted else False
        )
    asked = _asked_right(label, answer) if kind == "undecidable" else None
    credit = _credit(label, answer)
    wrong = answer.entry not in {label.id, *label.partial} if kind == "undecidable" else credit == 0
    return msgspec.structs.replace(
        base,
        credit=credit,
        rank_right=_rank_right(label, answer.initiating),
        line_cited=_line_cited(label, answer.evidence),
        asked_right=asked,
        false_established=answer.verdict == "established" and wrong,
    )


def _credit(label: Label, answer: Diagnosis) -> float:
    committed = answer.verdict in {"established", "likely"} or label.accept_undetermined
    if answer.entry is not None and answer.entry in label.exact:
        return 1.0 if committed else 0.5
    return 0.5 if answer.entry in label.partial else 0.0


def _rank_right(label: Label, initiating: Initiating | None) -> bool:
    rank = initiating.rank if initiating else None
    ranks = set(initiating.ranks) if initiating else set()
    if rank is None and len(ranks) == 1:
        (rank,) = ranks
    accepted = set(label.accept_ranks)
    wanted = label.initiating_rank
    if isinstance(wanted, int):
        accepted.add(wanted)
        if rank is not None:
            return rank in accepted
        return ranks <= accepted if ranks else label.single_process or label.rank_optional
    if rank is None or rank in accepted or (label.single_process and rank == 0):
        return True
    # Several ranks name no single one; where the label lists those that may be named, they must be among them.
    return len(ranks) > 1 and (wanted == "all" or not accepted or ranks <= accepted)


def _line_cited(label: Label, evidence: tuple[Evidence, ...]) -> bool | None:
    if not label.initiating_line and not label.initiating_regex:
        return None
    wanted = [_folded(line) for line in (label.initiating_line, *label.initiating_line_alt) if line]
    return any(
        any(_same_line(line, _folded(item.text)) for line in wanted)
        or (label.initiating_regex is not None and re.search(label.initiating_regex, item.text) is not None)
        for item in evidence
    )


def _same_line(wanted: str, text: str) -> bool:
    return wanted in text or (len(text) >= max(_SHORTEST_PART, _SHARE_OF_LINE * len(wanted)) and text in wanted)


def _asked_right(label: Label, answer: Diagnosis) -> float:
    """1 for the right node, undetermined, with a question that fits; half if it names no node or leans to the right one."""
    if not answer.missing:
        return 0.0
    first = answer.missing[0]
    asked = _folded(f"{first.fact} {first.why[:200]} {(first.command.splitlines() or [''])[0]}").lower()
    if not any(word.lower() in asked for word in label.missing_keywords):
        return 0.0
    if answer.verdict == "undetermined":
        return 1.0 if answer.entry in {*label.exact, *label.partial} else 0.5 if answer.entry is None else 0.0
    return 0.5 if answer.verdict == "likely" and answer.entry in label.exact else 0.0


def _folded(text: str) -> str:
    return " ".join(text.split())
