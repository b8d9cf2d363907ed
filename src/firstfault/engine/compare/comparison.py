"""Two sides compared: rows, then reasons, then the verdict in words."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.engine.blanks import Blanks
from firstfault.engine.compare.curves import curve_rows
from firstfault.engine.compare.explain import Reasons, fell_short, reasons, version_of
from firstfault.engine.compare.facts import fact_rows
from firstfault.engine.compare.plans import essence, plan_rows, variant_rows
from firstfault.engine.compare.rows import Rows
from firstfault.engine.compare.settings import setting_rows
from firstfault.engine.compare.side import Side
from firstfault.engine.compare.training import training_reasons
from firstfault.knowledge.schema import Pack
from firstfault.model.comparison import Comparison, Difference, Explanation, SideName
from firstfault.model.diagnosis import Verdict
from firstfault.model.plan import UnknownFact

MAX_MISSING = 3
_BAD = frozenset({"fails", "stops", "goes_wrong"})
_RANKING: tuple[Verdict, ...] = ("established", "likely", "undetermined")
_VISIBLE = (
    "launch.visible_gpus",
    "With the same visible GPUs both start the same program: if one works and the other does not, they did not see the same "
    "GPUs.",
    'echo "$CUDA_VISIBLE_DEVICES"; python -c "import torch; print(torch.cuda.device_count())"   # where each of them runs',
)
_TOPICS = ("plan", "batch", "version", "configuration", "argument", "environment", "machine", "memory", "progress")


def compare(a: Side, b: Side, pack: Pack, *, elapsed_s: float = 0.0) -> Comparison:
    """What differs between `a` and `b`, and what of it explains that they end otherwise."""
    rows = Rows()
    apart: tuple[int, ...] = ()
    if a.plan is not None and b.plan is not None:
        apart = variant_rows(a.plan, b.plan, rows)
        plan_rows(a.plan, b.plan, rows)
    fact_rows(a, b, pack, rows)
    setting_rows(a, b, rows)
    parting = curve_rows(a.curve, b.curve, rows)
    found = _reasons(a, b, pack)
    trained, wanted = training_reasons(a, b, parting, pack) if not _one_is_bad(a, b) else ((), ())
    explanations = _named(a, b, tuple(sorted((*found.explanations, *trained), key=_rank)), rows.differences)
    nothing = not rows.differences and not rows.equal
    verdict = _verdict(a, b, explanations, undecided=parting is not None or bool(apart) or nothing)
    missing = _missing(a, b, (*found.unknown, *wanted), pack) if verdict == "undetermined" else ()
    if apart:
        missing = (*_counts(a, b), *missing)[:MAX_MISSING]
    return Comparison(
        a=a.subject,
        b=b.subject,
        verdict=verdict,
        summary=_summary(a, b, explanations, rows, parted=parting is not None, apart=apart),
        explanations=explanations,
        alike=_alike(a, b, found),
        differences=_sorted(rows.differences, explanations),
        unknown=_sorted(rows.unknown, ()),
        equal=sum(rows.equal.values()),
        equal_by_topic=dict(rows.equal),
        missing=missing,
        notes=_notes(a, b),
        elapsed_s=elapsed_s,
    )


def _is_bad(side: Side) -> bool:
    return side.subject.ending in _BAD


def _one_is_bad(a: Side, b: Side) -> bool:
    return _is_bad(a) or _is_bad(b)


def _fail_alike(a: Side, b: Side) -> bool:
    """True if both end badly by the same entry, or by the same error of the launcher."""
    if not (_is_bad(a) and _is_bad(b)) or a.subject.ending != b.subject.ending:
        return False
    if a.subject.ending == "stops":
        return a.subject.cause == b.subject.cause
    return a.subject.entry == b.subject.entry and a.subject.entry is not None


def _reasons(a: Side, b: Side, pack: Pack) -> Reasons:
    if _fail_alike(a, b):
        return Reasons()
    pairs: list[tuple[Side, Side, SideName]] = [(b, a, "b"), (a, b, "a")]
    parts = [reasons(failing, other, name, pack) for failing, other, name in pairs if _is_bad(failing)]
    return Reasons(
        explanations=tuple(one for part in parts for one in part.explanations),
        unknown=tuple(dict.fromkeys(name for part in parts for name in part.unknown)),
        alike=tuple(dict.fromkeys(text for part in parts for text in part.alike)),
    )


def _rank(explanation: Explanation) -> int:
    return _RANKING.index(explanation.verdict)


def _named(a: Side, b: Side, found: tuple[Explanation, ...], rows: Sequence[Difference]) -> tuple[Explanation, ...]:
    """The explanations with the rows that show them: the row of a fact, and of the line of a file that the fact rests on."""
    made = []
    for one in found:
        facts = (a if one.failing == "a" else b).facts
        lines = {str(span) for name in one.differences if name in facts for span in facts[name].spans}
        shown = [row.id for row in rows if _ROW_FACTS.get(row.id, row.id) in one.differences or _stands_in(row, one, lines)]
        made.append(msgspec.structs.replace(one, differences=tuple(shown)))
    return tuple(made)


def _stands_in(row: Difference, one: Explanation, lines: set[str]) -> bool:
    """True for a key of a file; the words of a command share a line."""
    return row.topic == "configuration" and (row.a if one.failing == "a" else row.b).where in lines


_ROW_FACTS = {
    "plan.visible": "launch.visible_gpus",
    "plan.nproc_per_node": "launch.processes",
    "plan.tool": "launch.starter",
    "plan.n_gpu": "trainer.n_gpu",
    "plan.wraps_in_DataParallel": "trainer.uses_dataparallel",
    "plan.world_size": "run.world_size",
    "arguments.learning_rate": "learning_rate",
    "arguments.--learning_rate": "learning_rate",
    "arguments.seed": "seed",
    "arguments.--seed": "seed",
}


def _verdict(a: Side, b: Side, explanations: Sequence[Explanation], *, undecided: bool) -> Verdict:
    if explanations:
        return explanations[0].verdict
    if _fail_alike(a, b):
        return "no_failure"
    if _one_is_bad(a, b) or undecided:
        return "undetermined"
    return "no_failure"


def _missing(a: Side, b: Side, names: Sequence[str], pack: Pack) -> tuple[UnknownFact, ...]:
    """What to ask: the facts on which the failure rests and the other side does not show, else what the diagnosis asks for."""
    asked = [fact for name in names if (fact := _ask(name, a, b, pack)) is not None]
    for side in (b, a):
        if not asked and _is_bad(side) and side.examined is not None:
            asked += [
                UnknownFact(fact=one.fact, why=one.why, command=one.command) for one in side.examined.diagnosis.missing[:1]
            ]
    if not asked and a.plan is not None and b.plan is not None and _same_program(a, b):
        asked.append(UnknownFact(fact=_VISIBLE[0], why=_VISIBLE[1], command=_VISIBLE[2]))
    if not asked:
        asked = [_log_of(name, side) for name, side in (("B", b), ("A", a)) if side.subject.told and _is_bad(side)]
    return tuple(asked[:MAX_MISSING])


def _log_of(name: str, side: Side) -> UnknownFact:
    """What a command that fails prints."""
    return UnknownFact(
        fact=f"the log of {name}",
        why=f"How {name} fails was told, not read. With its log in place of the command the failure itself is compared.",
        command=f"{side.subject.command} 2>&1 | tee {name.lower()}.log",
    )


def _counts(a: Side, b: Side) -> tuple[UnknownFact, ...]:
    """What the plans ask for: the number of GPUs."""
    plans = [side.plan for side in (a, b) if side.plan is not None and side.plan.variants]
    asked = {fact.fact: fact for plan in plans for fact in plan.unknown}
    return tuple(asked.values())


def _ask(name: str, a: Side, b: Side, pack: Pack) -> UnknownFact | None:
    """The question about a fact, of the side that does not show it."""
    package = name.removeprefix("package.") if name.startswith("package.") else ""
    silent = [
        (letter, side)
        for letter, side in (("A", a), ("B", b))
        if (version_of(side, package) if package else side.known.value(name)) is None
    ]
    who = "Neither side shows it." if len(silent) > 1 else f"{silent[0][0]} does not show it." if silent else ""
    if package:
        return UnknownFact(
            fact=name,
            why=f"The failure depends on the version of {package}. {who}",
            command=f"pip freeze | grep -i '^{package}=='   # in the environment of that run",
        )
    spec = pack.facts.get(name)
    if spec is None:
        return None
    side = silent[0][1] if silent else b
    return UnknownFact(fact=name, why=f"{spec.ask} {who}", command=Blanks(side.known, side.bundle, None).fill(spec.obtain))


def _same_program(a: Side, b: Side) -> bool:
    """True if the processes of both plans are the same to the training code, with GPUs that they assume to be the same.

    Where the number of GPUs is not known, for each number above one.
    """
    if a.plan is None or b.plan is None:
        return False
    pairs = [(a.plan, b.plan)] if (a.plan.gpus or 0) > 1 else []
    if a.plan.variants and b.plan.variants:
        pairs = [(a.plan.variants[count], b.plan.variants[count]) for count in a.plan.variants if count > 1]
    alike = [(essence(left), essence(right)) for left, right in pairs]
    return bool(alike) and all(own is not None and own == its for own, its in alike)


def _summary(a: Side, b: Side, explanations: Sequence[Explanation], rows: Rows, *, parted: bool, apart: Sequence[int]) -> str:
    count = len(rows.differences)
    things = "1 thing that was read differs" if count == 1 else f"{count} things that were read differ"
    if explanations:
        first = explanations[0]
        failing = (a if first.failing == "a" else b).subject
        # The side names its failure itself: here stands what it rests on.
        return first.text if first.title in ("", failing.title) else first.title
    if _fail_alike(a, b):
        what = a.subject.title or a.subject.cause
        if not count:
            return f"Nothing that was read differs. On both sides: {what}."
        alike = "On both sides" if a.subject.ending == "goes_wrong" else "Both fail alike"
        return f"{alike}: {what}. Nothing that differs matters to that."
    if _is_bad(a) and _is_bad(b):
        return f"Both fail, each in its own way, and none of the {count} differences is known to lead to either."
    if _one_is_bad(a, b) and (a.subject.told or b.subject.told) and _same_program(a, b):
        return "With the same visible GPUs both start the same program, and none of what differs is known to lead to a failure."
    if _one_is_bad(a, b):
        name = "B" if _is_bad(b) else "A"
        known = "nothing that was read differs" if not count else f"{things}, none of it known to lead to this failure"
        return f"Only {name} fails, and {known}."
    if apart:
        counts = ", ".join(map(str, apart))
        return f"They start something else with {counts} GPU{'' if apart == (1,) else 's'}: how many there are is not known."
    if parted:
        return f"The losses part, and what would explain it was not read. {things[:1].upper()}{things[1:]}."
    if not count and not rows.equal:
        return "Nothing of what was read stands on both sides: there is nothing to compare."
    if not count:
        return "Nothing that was read differs."
    if _same_program(a, b):
        return "Both start the same program: the processes, their devices and the batch are alike."
    return f"{things[:1].upper()}{things[1:]}; no failure shows on either side."


def _alike(a: Side, b: Side, found: Reasons) -> tuple[str, ...]:
    """Causes that stand on both sides: they explain no difference."""
    own = {finding.entry: finding for finding in a.plan.findings} if a.plan is not None else {}
    own.pop(a.subject.entry or "", None)  # the verdict names it
    shared = [own[finding.entry].title for finding in (b.plan.findings if b.plan is not None else ()) if finding.entry in own]
    return tuple(dict.fromkeys((*found.alike, *shared)))


def _sorted(rows: Sequence[Difference], explanations: Sequence[Explanation]) -> tuple[Difference, ...]:
    first = {name for one in explanations for name in one.differences}
    return tuple(sorted(rows, key=lambda row: (row.id not in first, _TOPICS.index(row.topic))))


def _notes(a: Side, b: Side) -> tuple[str, ...]:
    notes = [f"{letter}: {note}" for letter, side in (("A", a), ("B", b)) for note in side.notes[:8]]
    for failing, other, letter in ((b, a, "A"), (a, b, "B")):
        if _is_bad(failing) and other.subject.ending == "ends_well" and fell_short(other, failing):
            notes.insert(0, f"{letter} was not seen to reach the step at which the other side failed")
    both = a.subject.ending == b.subject.ending == "not_seen" and not _same_program(a, b)
    if both and a.subject.kind == b.subject.kind == "command":
        notes.append("if one of them fails, say which: --fails a or --fails b, or hand over its log in place of the command")
    if _same_program(a, b) and a.subject.kind == b.subject.kind == "command" and not a.subject.told:
        notes.insert(0, f"{_VISIBLE[1]} Look at CUDA_VISIBLE_DEVICES in both shells; --gpus N,M compares the two.")
    return tuple(dict.fromkeys(notes))
