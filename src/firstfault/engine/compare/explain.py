"""Which difference explains that one side fails: a difference counts only if the failure rests on it.

A finding rests on the conditions of its entry, and on what the entry says of two runs (`[[difference]]`). A condition on how
the run was set up that is true of the failing side and false of the other carries an explanation; one that is unknown of the
other is the missing fact. That something differs is never a reason by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from firstfault.engine.compare.side import Side
from firstfault.engine.match import weight
from firstfault.knowledge.expression import parse
from firstfault.knowledge.schema import Condition, DifferenceRule, Entry, Pack
from firstfault.knowledge.template import fill
from firstfault.knowledge.truth import Truth
from firstfault.launch.request import version_numbers
from firstfault.model.comparison import Explanation, SideName
from firstfault.model.diagnosis import Certainty, Fix
from firstfault.model.fact import FactValue

# How the run was set up, as opposed to what happened in it.
_SETUP = ("launch.", "trainer.", "train.", "script.", "plan.", "model.", "env.", "host.ram_bytes", "host.offload")
_SETUP_FACTS = frozenset(
    {"run.world_size", "run.strategy", "run.zero_stage", "run.framework", "collective.backend", "oom.total_bytes"}
    | {"lib.torch_has_cuda", "gpu.count_torch", "gpu.capability_supported", "ckpt.world_size_saved"}
)
_NO_SETUP = frozenset(
    {"plan.stops", "plan.error", "plan.error_type", "plan.finding", "launch.rejected_argument", "launch.rejected_by"}
)
_ENOUGH = 2
"""A condition that weighs less only fits; it carries no explanation."""
_ORDER: tuple[Certainty, ...] = ("established", "likely", "undetermined")


class Reasons(NamedTuple):
    """What explains a failure, what would decide if it were known, and the causes that both sides have."""

    explanations: tuple[Explanation, ...] = ()
    unknown: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()


class _Ground(NamedTuple):
    """One thing that the failure rests on: the words, how much, whether the other side lacks it, and the rows of it."""

    says: str
    decisive: bool
    lacking: Truth
    names: tuple[str, ...]
    entry: Entry


def reasons(failing: Side, other: Side, name: SideName, pack: Pack) -> Reasons:
    """Why `failing` fails and `other` does not, as far as the knowledge and what was read tell."""
    if failing.subject.ending == "stops":
        return _stop(failing, other, name)
    if failing.examined is None and other.examined is None:
        return _of_plans(failing, other, name, pack)
    grounds = [*_grounds(failing, other, pack)]
    return Reasons(
        explanations=tuple(_explanations(failing, other, name, grounds)),
        unknown=_unknown(grounds),
        alike=tuple(dict.fromkeys(ground.says for ground in grounds if ground.lacking is False and ground.decisive)),
    )


def _unknown(grounds: Sequence[_Ground]) -> tuple[str, ...]:
    """The facts that the other side does not show: those without which the cause cannot be there, else those that add to it."""
    open_ = [ground for ground in grounds if ground.lacking is None]
    asked = [ground for ground in open_ if ground.decisive] or open_
    return tuple(dict.fromkeys(name for ground in asked for name in ground.names))


def _stop(failing: Side, other: Side, name: SideName) -> Reasons:
    """The launcher, or the first process, stops with an error of its own: nothing that comes later matters."""
    plan = failing.plan
    if plan is None or other.subject.ending == "stops":
        return Reasons()
    stage = "The launcher stops before it starts anything" if plan.error else "The first process stops at its start"
    rests = "plan.error"
    text = f"{stage}: {failing.subject.cause}"
    fixes = plan.findings[0].fix if plan.findings else ()
    made = Explanation(
        verdict="established",
        failing=name,
        text=text,
        entry=failing.subject.entry,
        title=failing.subject.title,
        differences=(rests,),
        fix=fixes,
    )
    return Reasons(explanations=(made,))


def _of_plans(failing: Side, other: Side, name: SideName, pack: Pack) -> Reasons:
    """Findings that only the failing side's plan has; the plan of the other must be complete to be known to lack them."""
    if failing.plan is None or other.plan is None:
        return Reasons()
    shared = {finding.entry: finding for finding in other.plan.findings}
    complete = other.plan.error is not None or (other.plan.rank0 is not None and not other.plan.variants)
    own = [finding for finding in failing.plan.findings if finding.entry not in shared]
    made = [
        Explanation(
            # That a finding is what the reader complains of is not shown.
            verdict="established" if finding.verdict == "established" and not failing.subject.told else "likely",
            failing=name,
            text=finding.text,
            entry=finding.entry,
            title=finding.title,
            differences=_names(finding.entry, failing, pack),
            fix=finding.fix,
        )
        for finding in own
        if complete
    ]
    alike = tuple(finding.title for finding in failing.plan.findings if finding.entry in shared)
    return Reasons(explanations=tuple(sorted(made, key=lambda one: _ORDER.index(one.verdict))), alike=alike)


def _names(entry: str, failing: Side, pack: Pack) -> tuple[str, ...]:
    """The facts that make the entry a finding of the plan."""
    found = [parse(condition.if_) for condition in pack.entries[entry].plan] if entry in pack.entries else []
    true = [expression for expression in found if expression.evaluate(failing.known) is True]
    return tuple(sorted({name for expression in true for name in expression.names}))


def _grounds(failing: Side, other: Side, pack: Pack) -> Iterator[_Ground]:
    for entry, conditions in _found(failing, pack):
        for condition in conditions:
            ground = _of_condition(condition, entry, failing, other, pack)
            if ground is not None:
                yield ground
        for rule in (rule for rule in entry.differences if not rule.differs):
            ground = _of_rule(rule, entry, failing, other, pack)
            if ground is not None:
                yield ground


def _found(side: Side, pack: Pack) -> Iterator[tuple[Entry, Sequence[Condition]]]:
    """The entries that the side's finding went through, the most special first, with what of them is true."""
    if side.examined is not None:
        for step in reversed(side.examined.walk.path):
            yield step.entry, step.for_
        return
    for finding in side.plan.findings if side.plan else ():
        entry = pack.entries.get(finding.entry)
        if entry is not None:
            yield entry, [condition for condition in entry.plan if parse(condition.if_).evaluate(side.known) is True]


def is_setup(name: str, pack: Pack) -> bool:
    """True for a fact on how the run was set up, false for one on what happened in it, or a text that was printed."""
    spec = pack.facts.get(name)
    if spec is None or name in _NO_SETUP or (spec.type == "bool" and spec.producer in ("", "signals")):
        return False
    return name in _SETUP_FACTS or name.startswith(_SETUP)


class _AlikeIn:
    """The other side as it would be with the framework of the failing one: whose loop runs is nothing that one sets."""

    def __init__(self, other: Side, failing: Side) -> None:
        self._other = other
        self._failing = failing

    def value(self, name: str) -> FactValue | None:
        """The value of the other side."""
        return (self._failing if name == "run.framework" else self._other).known.value(name)

    def rounded(self, name: str) -> bool:
        """True if the number was printed with two decimals."""
        return self._other.known.rounded(name)


def _of_condition(condition: Condition, entry: Entry, failing: Side, other: Side, pack: Pack) -> _Ground | None:
    expression = parse(condition.if_)
    names = tuple(sorted(expression.names))
    needed = condition in entry.requires or condition.decisive
    if not names or not all(is_setup(name, pack) for name in names) or not (needed or weight(condition) >= _ENOUGH):
        return None
    alike = _AlikeIn(other, failing)
    there = expression.evaluate(alike)
    lacking = None if there is None else not there
    unknown = tuple(sorted(expression.unknowns(alike))) if there is None else names
    says = fill(condition.says, failing.known, pack.facts).strip()
    return _Ground(says, condition.decisive or condition in entry.requires, lacking, unknown, entry)


def _of_rule(rule: DifferenceRule, entry: Entry, failing: Side, other: Side, pack: Pack) -> _Ground | None:
    says = fill(rule.says, failing.known, pack.facts).strip()
    if rule.package:
        return _of_package(rule, says, entry, failing, other)
    if rule.if_:
        expression = parse(rule.if_)
        if expression.evaluate(failing.known) is not True:
            return None
        there = expression.evaluate(other.known)
        names = expression.unknowns(other.known) if there is None else expression.names
        return _Ground(says, rule.decisive, None if there is None else not there, tuple(sorted(names)), entry)
    name = rule.more or rule.less
    own, its = failing.facts.value(name), other.facts.value(name)
    if not _is_number(own):
        return None
    if not _is_number(its):
        return _Ground(says, False, None, (name,), entry)
    assert isinstance(own, int | float)
    assert isinstance(its, int | float)
    lacking = own > its if rule.more else own < its
    return _Ground(says, rule.decisive, True, (name,), entry) if lacking else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_package(rule: DifferenceRule, says: str, entry: Entry, failing: Side, other: Side) -> _Ground | None:
    own, its = version_of(failing, rule.package), version_of(other, rule.package)
    inside = own is not None and _is_inside(own, rule)
    if not inside:
        return None
    lacking: Truth = None if its is None else not _is_inside(its, rule)
    return _Ground(says, rule.decisive, lacking, (f"package.{rule.package}",), entry)


def version_of(side: Side, package: str) -> str | None:
    """The one version of a package that a side shows."""
    found = {str(setting.value) for setting in side.settings if (setting.family, setting.key) == ("package", package)}
    if len(found) == 1:
        return found.pop()
    planned = side.plan.versions.get(package) if side.plan is not None and not found else None
    return planned or None


def _is_inside(version: str, rule: DifferenceRule) -> bool:
    numbers = version_numbers(version)
    return (not rule.since or numbers >= version_numbers(rule.since)) and (
        not rule.until or numbers < version_numbers(rule.until)
    )


def _explanations(failing: Side, other: Side, name: SideName, grounds: Iterable[_Ground]) -> Iterator[Explanation]:
    """One explanation for each entry, the grounds that the other side lacks together."""
    by_entry: dict[str, list[_Ground]] = {}
    for ground in grounds:
        if ground.lacking is True:
            by_entry.setdefault(ground.entry.id, []).append(ground)
    made = []
    for found in by_entry.values():
        found.sort(key=lambda ground: not ground.decisive)
        made.append(_explanation(failing, other, name, found))
    told: set[str] = set()
    for one in sorted(made, key=lambda one: _ORDER.index(one.verdict)):
        # A more general entry that rests on the same says nothing more.
        if not told.issuperset(one.differences):
            yield one
        told.update(one.differences)


def _explanation(failing: Side, other: Side, name: SideName, grounds: Sequence[_Ground]) -> Explanation:
    entry = grounds[0].entry
    return Explanation(
        verdict=_verdict(failing, other, grounds),
        failing=name,
        text=" ".join(dict.fromkeys(_sentence(ground.says) for ground in grounds if ground.says)) or entry.title,
        entry=entry.id,
        title=entry.title,
        differences=tuple(dict.fromkeys(each for ground in grounds for each in ground.names)),
        fix=_fixes(failing, entry.id),
    )


def _verdict(failing: Side, other: Side, grounds: Sequence[_Ground]) -> Certainty:
    """Established only if the failure is, the other side is seen to go well, and the cause needs it.

    Where the diagnosis stopped at a symptom, what is known of the symptom makes its explanation likely.
    """
    seen = other.subject.ending == "ends_well" and not other.subject.told
    sure = failing.subject.verdict == "established" and any(ground.decisive for ground in grounds)
    if sure and seen and not fell_short(other, failing):
        return "established"
    known = failing.subject.verdict in ("established", "likely") or (seen and _holds(grounds[0].entry, failing))
    return "likely" if known else "undetermined"


def _holds(entry: Entry, failing: Side) -> bool:
    """True if the failure surely is the entry, whatever its own cause may be."""
    return bool(entry.requires) and all(parse(condition.if_).evaluate(failing.known) is True for condition in entry.requires)


def fell_short(other: Side, failing: Side) -> bool:
    """True if the side that goes well was not seen to reach the step at which the other failed."""
    reached, failed = other.facts.value("run.steps_done"), failing.facts.value("run.steps_done")
    return isinstance(reached, int) and isinstance(failed, int) and reached < failed


def _fixes(side: Side, entry: str) -> tuple[Fix, ...]:
    """The changes that end the finding: of the diagnosis, or of that finding of the plan."""
    if side.examined is not None:
        return side.examined.diagnosis.fix
    found = side.plan.findings if side.plan is not None else ()
    return next((finding.fix for finding in found if finding.entry == entry), ())


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
