"""The scoreboard of judged cases as text: figures, a table a set and a category, the wrong ones, and mistaken entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from firstfault.trial.judgement import Judgement


def scoreboard(judgements: Sequence[Judgement], *, confusion: bool = False) -> str:
    """Lines of at most 100 columns; with `confusion` also which entries were taken for which."""
    parts = [
        _figures(judgements),
        _table(judgements, "set", lambda j: j.set),
        _table(judgements, "category", lambda j: j.category),
    ]
    parts.append(_wrong(judgements))
    if confusion:
        parts.append(_confusion(judgements))
    return "\n\n".join(part for part in parts if part) + "\n"


def _figures(judgements: Sequence[Judgement]) -> str:
    decidable, undecidable, negative = (_of(judgements, kind) for kind in ("decidable", "undecidable", "negative"))
    lines = [j.line_cited for j in decidable if j.line_cited is not None]
    established = [j for j in decidable if j.credit == 1 and j.verdict == "established"]
    rows = [
        ("right entry", sum(j.credit == 1 for j in decidable), len(decidable)),
        ("  with half credits", sum(j.credit for j in decidable), len(decidable)),
        ("  right and established", len(established), sum(j.credit == 1 for j in decidable)),
        ("right rank", sum(bool(j.rank_right) for j in decidable), len(decidable)),
        ("initiating line cited", sum(map(bool, lines)), len(lines)),
        ("undecidable, right question", sum(j.asked_right or 0 for j in undecidable), len(undecidable)),
        ("nothing failed, and said so", sum(j.credit for j in negative), len(negative)),
    ]
    out = [f"{len(judgements)} cases: {len(decidable)} decidable, {len(undecidable)} undecidable, {len(negative)} healthy"]
    out += [f"{name:<28} {got:g} of {of}  ({100 * got / of:.1f} %)" for name, got, of in rows if of]
    out.append(f"{'established and wrong':<28} {sum(j.false_established for j in judgements)}")
    return "\n".join(out)


def _table(judgements: Sequence[Judgement], name: str, key: Callable[[Judgement], str]) -> str:
    out = [f"{name:<16}{'cases':>7}{'right':>9}{'rank':>9}{'asked':>9}{'negative':>10}{'wrong established':>19}"]
    for value in sorted({key(j) for j in judgements}):
        group = [j for j in judgements if key(j) == value]
        decidable, undecidable, negative = (_of(group, kind) for kind in ("decidable", "undecidable", "negative"))
        cells = [
            _share(sum(j.credit == 1 for j in decidable), len(decidable)),
            _share(sum(bool(j.rank_right) for j in decidable), len(decidable)),
            _share(sum(j.asked_right or 0 for j in undecidable), len(undecidable)),
        ]
        wrong = sum(j.false_established for j in group)
        negatives = _share(sum(j.credit for j in negative), len(negative))
        out.append(f"{value:<16}{len(group):>7}" + "".join(f"{cell:>9}" for cell in cells) + f"{negatives:>10}{wrong:>19}")
    return "\n".join(out)


def _wrong(judgements: Sequence[Judgement]) -> str:
    rows = [
        ("established and wrong", [j for j in judgements if j.false_established]),
        ("wrong entry", [j for j in _of(judgements, "decidable") if j.credit == 0]),
        ("more general entry", [j for j in _of(judgements, "decidable") if j.credit == 0.5]),
        ("wrong rank", [j for j in _of(judgements, "decidable") if not j.rank_right]),
        ("undecidable, wrong question", [j for j in _of(judgements, "undecidable") if (j.asked_right or 0) < 1]),
        ("nothing failed, not said", [j for j in _of(judgements, "negative") if j.credit == 0]),
    ]
    return "\n".join(f"{title} ({len(found)}): {' '.join(j.case for j in found)}" for title, found in rows if found)


def _confusion(judgements: Sequence[Judgement]) -> str:
    mistaken = [j for j in judgements if j.credit < 1 and j.kind != "undecidable"]
    pairs = Counter((j.wanted or "nothing failed", j.entry or j.verdict) for j in mistaken)
    if not pairs:
        return "no entry was taken for another"
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return "taken for another\n" + "\n".join(f"{count:>4}  {wanted} -> {got}" for (wanted, got), count in ordered)


def _of(judgements: Iterable[Judgement], kind: str) -> list[Judgement]:
    return [j for j in judgements if j.kind == kind]


def _share(got: float, of: int) -> str:
    return f"{got:g}/{of}" if of else "-"
