"""What in a plan will not go as meant: the entries of the encyclopedia whose `[[plan]]` conditions the plan makes true."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from firstfault.ingest.plan_files import files_of, script_report
from firstfault.knowledge.expression import parse
from firstfault.launch.plan_facts import facts_of_plan
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact, FactSet
from firstfault.model.plan import Plan, PlanFinding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from firstfault.knowledge.schema import Condition, Entry, Pack
    from firstfault.launch.request import Request
    from firstfault.model.bundle import Bundle, SourceReport
    from firstfault.model.fact import FactValue
    from firstfault.model.span import SourceSpan

MAX_FIXES = 3
MAX_FINDINGS = 12


def with_findings(plan: Plan, request: Request, pack: Pack) -> Plan:
    """The plan with its findings; where the number of GPUs is not known, each variant with its own."""
    variants = {
        count: with_findings(variant, _counted(request, count), pack) for count, variant in plan.variants.items()
    }  # fmt: skip
    return msgspec.structs.replace(plan, findings=findings(plan, request, pack), variants=variants)


def _counted(request: Request, gpus: int) -> Request:
    return msgspec.structs.replace(request, machine=msgspec.structs.replace(request.machine, gpus=gpus))


def findings(plan: Plan, request: Request, pack: Pack) -> tuple[PlanFinding, ...]:
    """The entries that the plan opens, the surest first, each with this command's numbers and the change that ends it.

    An entry that a more special one refines is left out.
    """
    return held_against(facts_of_plan(plan, request), said_by(plan), lambda: _files(plan, request), pack)


def _files(plan: Plan, request: Request) -> tuple[SourceReport, ...]:
    """The configurations that the plan reads, and the script that holds the command."""
    script = script_report(request.script, request.read(request.script) if request.script else None)
    return (*files_of(plan, request.read), *((script,) if script is not None else ()))


def held_against(
    facts: FactSet, said: Sequence[str], files: Callable[[], Sequence[SourceReport]], pack: Pack
) -> tuple[PlanFinding, ...]:
    """The entries that these facts and lines open; a fix changes one of `files`, which are asked for only then."""
    known = PlanKnown(facts, said, pack)
    opened = [(entry, true) for entry in pack.entries.values() if (true := _true(entry, known))]
    general = {name for entry, _ in opened for name in _ancestors(entry, pack)}
    kept = [(entry, true) for entry, true in opened if entry.id not in general]
    if not kept:
        return ()
    from firstfault.model.bundle import Bundle

    bundle = Bundle(reports=tuple(files()))
    made = [_finding(entry, true, known, bundle, pack) for entry, true in kept]
    return tuple(sorted(made, key=lambda finding: finding.verdict != "established"))[:MAX_FINDINGS]


def said_by(plan: Plan) -> tuple[str, ...]:
    """The lines that the launcher and the first process will print, errors included."""
    errors = (plan.error, plan.rank0.error if plan.rank0 else None)
    texts = [f"{error.type}: {error.message}" for error in errors if error is not None]
    return tuple(line for text in (*texts, *plan.warnings, *plan.log) for line in text.splitlines())


_NAME = lazy_pattern(r"[a-z_]+\.[a-z0-9_.]+\Z")


class PlanKnown:
    """What is known of a plan: its facts, and the signals in what its launcher will print."""

    def __init__(self, facts: FactSet, said: Sequence[str], pack: Pack) -> None:
        self.facts = facts
        self.pack = pack
        self._said = said

    def value(self, name: str) -> FactValue | None:
        """A fact, the truth of a text that will be printed, or None while it is unknown."""
        found = self.facts.get(name)
        if found is not None:
            return found.value
        return True if name in self._events else None

    def rounded(self, name: str) -> bool:
        """Numbers of a plan are exact."""
        del name
        return False

    def span(self, name: str) -> SourceSpan | None:
        """The line of a file that decides the fact."""
        found = self.facts.get(name)
        return found.spans[0] if found is not None and found.spans else None

    def fact(self, name: str) -> Fact | None:
        """The fact with its place."""
        return self.facts.get(name)

    @cached_property
    def _events(self) -> frozenset[str]:
        return frozenset(self._seen())

    def _seen(self) -> Iterator[str]:
        text = "\n".join(self._said)
        likely = [signal for signal in self.pack.signals if signal.literal in text]
        if not likely:
            return
        asked = "\n".join(one.if_ for entry in self.pack.entries.values() for one in entry.plan)
        from firstfault.knowledge.signal_match import match_text

        for signal in likely:
            if signal.event in asked and any(match_text(signal, line) is not None for line in self._said):
                yield signal.event


def _true(entry: Entry, known: PlanKnown) -> tuple[Condition, ...]:
    """The conditions of the entry that the plan makes true; beside decisive ones the others only say less of the same."""
    likely = (condition for condition in entry.plan if _may_hold(condition.if_, known))
    true = tuple(condition for condition in likely if parse(condition.if_).evaluate(known) is True)
    return tuple(condition for condition in true if condition.decisive) or true


def _may_hold(text: str, known: PlanKnown) -> bool:
    """False for a plain conjunction of which a fact is unknown: most are that, and to read one costs more than to see it."""
    if " or " in text or "not " in text or "(" in text:
        return True
    first = (part.split(" ", 1)[0] for part in text.split(" and "))
    return all(known.value(word) is not None for word in first if _NAME.match(word))


def _ancestors(entry: Entry, pack: Pack) -> Iterator[str]:
    parent, steps = entry.refines, 0
    while parent in pack.entries and parent is not None and steps < len(pack.entries):
        yield parent
        parent, steps = pack.entries[parent].refines, steps + 1


def _finding(entry: Entry, true: tuple[Condition, ...], known: PlanKnown, bundle: Bundle, pack: Pack) -> PlanFinding:
    # Most plans have no finding: what words one is loaded for those that have.
    from firstfault.engine.blanks import Blanks
    from firstfault.engine.prescribe import prescribe
    from firstfault.knowledge.template import fill

    said = list(dict.fromkeys(fill(condition.says, known, pack.facts).strip() for condition in true[:2]))
    fixes, _ = prescribe(entry, known, bundle, pack, Blanks(known, bundle, None))
    return PlanFinding(
        entry=entry.id,
        title=entry.title,
        verdict="established" if true[0].decisive else "likely",
        text=" ".join(filter(None, said)) or entry.title,
        where=_where(true[0], known),
        fix=fixes[:MAX_FIXES],
    )


def _where(condition: Condition, known: PlanKnown) -> str:
    """The line, else the option or variable, that decides a fact of the condition."""
    facts = [found for name in sorted(parse(condition.if_).names) if (found := known.fact(name)) is not None]
    spans = [span for found in facts for span in found.spans]
    options = [found.origin for found in facts if found.origin.startswith("-") or found.origin.isupper()]
    return str(spans[0]) if spans else options[0] if options else ""
