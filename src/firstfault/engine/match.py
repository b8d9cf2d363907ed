"""The walk down the entry tree: which entry the evidence reaches, how surely, and what else was held against it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.knowledge.expression import parse
from firstfault.knowledge.schema import DECISIVE_WEIGHT, Condition, Entry, Pack
from firstfault.knowledge.truth import Truth, and_
from firstfault.model.diagnosis import Verdict

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from firstfault.engine.attribute import Attribution
    from firstfault.engine.lookup import Known
    from firstfault.model.fact import Fact
    from firstfault.model.span import SourceSpan

REQUIRES_SCORE = 3
CLEAR_LEAD = 2
# Facts of the plan and of the vitals: the only start of runs that fail without a fatal event.
SILENT_FAMILIES = frozenset({"plan", "launch", "trainer", "memory", "autograd", "script", "perf", "hang", "train"})
# A machine that runs slower fails nothing: its state is read like a figure of speed.
_SPEED_FACTS = frozenset({"gpu.throttle"})
_OF_THE_MACHINE = frozenset({"launch.visible_gpus"})
SETTING_FAMILIES = frozenset({"plan", "launch", "script", "train"})
# Facts that the frames of the traceback give: what the process was doing when it failed.
FRAMES_PRODUCER = "engine/derive/frames"
OUTPUT_KINDS = frozenset({"log", "error_file", "slurm", "kubernetes", "kernel", "vitals", "flight_recorder"})
_NO_FAULT = frozenset({"none", "silent"})


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An entry held against the facts.

    `requires` is the truth of all requirements, `veto` that of the strongest veto. `decisive` holds the decisive conditions
    that are true in what was read (not told). `adds` is false if all its requirements are requirements of an ancestor too.
    """

    entry: Entry
    requires: Truth
    veto: Truth
    score: int
    for_: tuple[Condition, ...]
    against: tuple[Condition, ...]
    decisive: tuple[Condition, ...]
    unknown: tuple[Condition, ...]
    adds: bool = True

    @property
    def alive(self) -> bool:
        """True if its requirements hold and no veto is known to."""
        return self.requires is True and self.veto is not True

    @property
    def possible(self) -> bool:
        """True if it is neither alive nor excluded: what is unknown decides."""
        return self.requires is None and self.veto is not True

    @property
    def support(self) -> int:
        """The weight of the evidence beyond the requirements."""
        return sum(weight(condition) for condition in self.for_ if condition not in self.entry.requires)


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """The way that was walked.

    `path` begins at the root; `passed` are the entries beside it and below its end; `open` those between which the missing
    fact decides. `only_collateral` is true if nothing but consequences was seen.
    """

    verdict: Verdict
    path: tuple[Candidate, ...] = ()
    passed: tuple[Candidate, ...] = ()
    open: tuple[Candidate, ...] = ()
    only_collateral: bool = False

    @property
    def finding(self) -> Candidate | None:
        """The entry that was reached."""
        return self.path[-1] if self.path else None


def weight(condition: Condition) -> int:
    """How much a true condition counts."""
    return DECISIVE_WEIGHT if condition.decisive else condition.weight


def judge(entry: Entry, known: Known, ancestors: Iterable[Candidate] = ()) -> Candidate:
    """Hold `entry` against what is known."""
    inherited = {condition.if_ for ancestor in ancestors for condition in ancestor.entry.requires}
    truths = {id(c): parse(c.if_).evaluate(known) for c in (*entry.requires, *entry.evidence, *entry.against)}
    requires = and_(truths[id(condition)] for condition in entry.requires)
    vetoes = [truths[id(condition)] for condition in entry.against if condition.veto]
    veto: Truth = True if True in vetoes else None if None in vetoes else False
    adds = any(condition.if_ not in inherited for condition in entry.requires)
    evidence = tuple(c for c in entry.evidence if truths[id(c)] is True)
    against = tuple(c for c in entry.against if truths[id(c)] is True)
    met = tuple(c for c in entry.requires if truths[id(c)] is True)
    score = (REQUIRES_SCORE if requires is True and adds else 0) + sum(map(weight, evidence))
    score -= sum(condition.weight for condition in against if not condition.veto)
    return Candidate(
        entry=entry,
        requires=requires,
        veto=veto,
        score=score,
        for_=(*evidence, *met) if requires is not False else evidence,
        against=against,
        decisive=tuple(c for c in (*met, *evidence) if c.decisive and parse(c.if_).evaluate(known.read_only) is True),
        unknown=tuple(c for c in (*entry.requires, *entry.evidence, *entry.against) if truths[id(c)] is None),
        adds=adds,
    )


def walk(known: Known, pack: Pack, attribution: Attribution, *, shows_output: bool = True) -> Walk:
    """The entry that the evidence reaches, with its verdict; `no_failure` if nothing failed.

    `shows_output` is false if nothing that a run printed was handed over: then nothing shows that it went well either.
    """
    start = _start(known, pack, attribution)
    if not start:
        healthy = attribution.fault_class == "none" and shows_output
        planned = () if shows_output else _planned(known, pack)
        return Walk(
            verdict="no_failure" if healthy else "undetermined",
            path=_common_root(planned, known, pack),
            passed=planned,
            open=planned,
            only_collateral=_collateral(attribution, pack),
        )
    path = list(start)
    beside: list[list[Candidate]] = [[]]
    while True:
        children = _children(path[-1].entry, path, known, pack)
        choice = _lead(children, path, known, pack)
        if choice is None:
            break
        beside.append([child for child in children if child is not choice])
        path.append(choice)
    return _finished(path, beside, children, known, pack, attribution)


def _start(known: Known, pack: Pack, attribution: Attribution) -> tuple[Candidate, ...]:
    if attribution.fault_class in _NO_FAULT:
        return _silent_start(known, pack)
    # Most roots are about other failures: what they weigh is read only where their requirements hold.
    roots = [entry for entry in pack.entries.values() if entry.refines is None and entry.requires]
    opened = [entry for entry in roots if _requirements(entry, known) is True]
    alive = [root for root in (judge(entry, known) for entry in opened) if root.alive]
    # A finding of the plan explains no crash by itself: it is reached from the symptom, through `also_under`.
    by_fault = [root for root in alive if not _asks_only(root.entry, SILENT_FAMILIES) or _asks_for_a_text(root.entry, pack)]
    first = [root for root in by_fault if not root.entry.fallback] or by_fault
    first.sort(key=lambda root: -root.score)
    return tuple(first[:1])


def _planned(known: Known, pack: Pack) -> tuple[Candidate, ...]:
    """Entries that a configuration makes possible and one more fact of the start would decide; nothing of a run is needed.

    A command that reads no configuration holds nothing that its writer may have overlooked.
    """
    if known.value("launch.starter") is not None and known.value("launch.config_source") not in ("explicit", "default"):
        return ()
    found = (judge(entry, known) for entry in pack.entries.values() if any(half_known(one, known) for one in entry.plan))
    return tuple(candidate for candidate in found if candidate.veto is not True and candidate.requires is not False)


def _common_root(planned: Sequence[Candidate], known: Known, pack: Pack) -> tuple[Candidate, ...]:
    """The root below which all of them stand; none if there is no such one."""
    roots = {_ancestry(candidate.entry, known, pack)[0].entry.id for candidate in planned}
    return (judge(pack.entries[roots.pop()], known),) if len(roots) == 1 else ()


def half_known(condition: Condition, known: Known) -> bool:
    """True if the condition of a plan is open, a part of it is known, and what is not can be answered of a start.

    What the machine has is no part of a start: a list of GPUs alone makes none of its faults possible.
    """
    expression = parse(condition.if_)
    unknown = expression.unknowns(known)
    askable = not any(name.startswith("plan.") or name not in known.pack.facts for name in unknown)
    return askable and expression.evaluate(known) is None and bool(expression.names - unknown - _OF_THE_MACHINE)


def _requirements(entry: Entry, known: Known) -> Truth:
    return and_(parse(condition.if_).evaluate(known) for condition in entry.requires)


def _silent_start(known: Known, pack: Pack) -> tuple[Candidate, ...]:
    """The deepest entry that a decisive finding of the plan or the vitals opens, else the root that the plan opens."""
    opened: list[tuple[Candidate, ...]] = []
    for entry in pack.entries.values():
        path = _ancestry(entry, known, pack)
        last = path[-1]
        decided = any(_families(condition) <= SILENT_FAMILIES for condition in last.decisive)
        root = entry.refines is None and (_asks_only(entry, SILENT_FAMILIES) or _asks_for_silence(entry))
        if last.alive and (decided or root):
            opened.append(path)
    opened.sort(key=lambda path: (-len(path[-1].decisive), -len(path), -path[-1].score))
    return opened[0] if opened else ()


def _ancestry(entry: Entry, known: Known, pack: Pack) -> tuple[Candidate, ...]:
    path = [entry]
    while path[0].refines is not None and path[0].refines in pack.entries and len(path) < 20:
        path.insert(0, pack.entries[path[0].refines])
    judged: list[Candidate] = []
    for step in path:
        judged.append(judge(step, known, judged))
    return tuple(judged)


def _families(condition: Condition) -> frozenset[str]:
    return frozenset("perf" if name in _SPEED_FACTS else name.split(".", 1)[0] for name in parse(condition.if_).names)


def _asks_only(entry: Entry, families: frozenset[str]) -> bool:
    return bool(entry.requires) and all(_families(condition) <= families for condition in entry.requires)


def _asks_for_silence(entry: Entry) -> bool:
    """True if a requirement names runs that stop without a word."""
    return any('"silent"' in condition.if_ for condition in entry.requires)


def _asks_for_a_text(entry: Entry, pack: Pack) -> bool:
    """True if a requirement names something that was printed: no setting, whatever its family."""
    printed = {signal.event for signal in pack.signals}
    return any(not printed.isdisjoint(parse(condition.if_).names) for condition in entry.requires)


def _children(parent: Entry, path: Sequence[Candidate], known: Known, pack: Pack) -> list[Candidate]:
    walked = {step.entry.id for step in path}
    return [
        judge(entry, known, path)
        for entry in pack.entries.values()
        if (entry.refines == parent.id or parent.id in entry.also_under) and entry.id not in walked
    ]


def _lead(children: Sequence[Candidate], path: Sequence[Candidate], known: Known, pack: Pack) -> Candidate | None:
    """The child that leads clearly, or None."""
    parent = path[-1].entry
    alive = [child for child in children if child.alive]
    alive = [child for child in alive if not child.entry.fallback] or alive
    # Found from another branch and decided there: it says why, the symptom's own children say where.
    decided = [child for child in alive if child.entry.refines != parent.id and child.decisive]
    scores = {child.entry.id: child.score + _support_below(child, path, known, pack) for child in alive}
    ranked = sorted(decided or alive, key=lambda child: -scores[child.entry.id])
    first = next((child for child in ranked if _about_the_failure(child, pack)), None)
    if first is None or first.score < REQUIRES_SCORE:
        return None
    bare = scores[first.entry.id] - first.score + first.support == 0
    # What only this cause prints is no bare lead, also where it was told and so decides nothing.
    bare = bare and not any(condition.decisive for condition in first.for_)
    # A setting that fits stands beside a bare lead, but not beside evidence.
    rivals = [child for child in ranked if child is not first and (bare or _about_the_failure(child, pack))]
    if any(scores[first.entry.id] - scores[rival.entry.id] < CLEAR_LEAD for rival in rivals):
        return None
    return None if bare and _differential_is_open(children, known) else first


def _support_below(child: Candidate, path: Sequence[Candidate], known: Known, pack: Pack) -> int:
    """The evidence of the best entry alive right below: what speaks for a grandchild speaks for the child."""
    grandchildren = _children(child.entry, (*path, child), known, pack)
    own = [found for found in grandchildren if found.entry.refines == child.entry.id and not found.entry.fallback]
    return max((found.support for found in own if found.alive), default=0)


def _differential_is_open(children: Sequence[Candidate], known: Known) -> bool:
    """True if several children wait for one fact of the traceback: without it, none of the others leads by default."""
    required: Counter[str] = Counter()
    for child in children:
        if child.possible and not child.entry.fallback:
            required.update({name for condition in child.entry.requires for name in parse(condition.if_).unknowns(known)})
    facts = known.pack.facts
    return any(count > 1 and name in facts and facts[name].producer == FRAMES_PRODUCER for name, count in required.items())


def _about_the_failure(child: Candidate, pack: Pack) -> bool:
    """True unless all that is known of it is how the run was set up: a setting alone is no cause of a crash."""
    return (
        child.support > 0
        or child.veto is False
        or not _asks_only(child.entry, SETTING_FAMILIES)
        or _asks_for_a_text(child.entry, pack)
    )


def _finished(
    path: Sequence[Candidate],
    beside: Sequence[Sequence[Candidate]],
    children: Sequence[Candidate],
    known: Known,
    pack: Pack,
    attribution: Attribution,
) -> Walk:
    finding, siblings = path[-1], beside[-1]
    only_collateral = _collateral(attribution, pack)
    # A node that only says who reported would change nothing: it leaves no question open.
    undecided = [child for child in children if child.alive or (child.possible and not child.entry.fallback)]
    rivals = [rival for rival in siblings if rival.possible and not rival.entry.fallback]
    verdict: Literal["established", "likely", "undetermined"]
    if only_collateral and not _says_why(finding, known, attribution):
        verdict = "undetermined"
    elif finding.decisive:
        sure = not only_collateral or (attribution.rank is not None and all(step.veto is False for step in path))
        verdict = "established" if sure and _establishes(finding, siblings, attribution) else "likely"
    elif undecided or not _supported(finding, rivals):
        verdict = "undetermined"
    else:
        verdict = "likely"
    return Walk(
        verdict=verdict,
        path=tuple(path),
        passed=tuple(candidate for level in (children, *reversed(beside)) for candidate in level),
        open=(*undecided, *((finding, *rivals) if not undecided else ())),
        only_collateral=only_collateral,
    )


def without_question(walked: Walk) -> Walk:
    """The same for an answer that leaves nothing to ask: what was reached is likely if no other entry's requirements hold."""
    rivals = any(one is not walked.finding and one.requires is True for one in walked.open)
    lone = walked.finding is not None and not walked.only_collateral and not rivals
    return msgspec.structs.replace(walked, verdict="likely") if lone and walked.verdict == "undetermined" else walked


def _establishes(finding: Candidate, siblings: Sequence[Candidate], attribution: Attribution) -> bool:
    """True if nothing speaks against it, nothing as close is open, and the initiating event itself is not in doubt."""
    if finding.against or attribution.independent or any(event.alone for event in attribution.initiating):
        return False
    # Who reported something is seen at once; that it is the cause takes evidence beyond the report, and no open why.
    if finding.entry.fallback and (
        all(condition in finding.entry.requires for condition in finding.decisive)
        or any(sibling.possible and not sibling.entry.fallback for sibling in siblings)
    ):
        return False
    if (
        attribution.fault_class not in _NO_FAULT
        and attribution.certainty == "undetermined"
        and attribution.relation == "several"
    ):
        return False
    return not any(
        sibling.alive and sibling.decisive and not sibling.entry.fallback and finding.score - sibling.score < CLEAR_LEAD
        for sibling in siblings
    )


def _says_why(finding: Candidate, known: Known, attribution: Attribution) -> bool:
    """True if evidence beside the report of the consequence speaks for it: other lines, or what follows from several."""
    if finding.entry.fallback:
        return False
    reports = {event.span for event in attribution.initiating}
    beside = [
        condition
        for condition in finding.for_
        if condition.decisive or condition not in finding.entry.requires
        if any(_stands_beside(known.fact(name), reports) for name in parse(condition.if_).names)
    ]
    return sum(map(weight, beside)) >= CLEAR_LEAD


def _stands_beside(fact: Fact | None, reports: Container[SourceSpan]) -> bool:
    if fact is None or fact.value is False or fact.name.startswith("fault."):
        return False
    return fact.basis in ("derived", "answered") or any(span not in reports for span in fact.spans)


def _supported(finding: Candidate, rivals: Sequence[Candidate]) -> bool:
    """True if it leads clearly: by evidence of its own, or because nothing that is unknown could change it."""
    if finding.score < REQUIRES_SCORE:
        return False
    if finding.support >= CLEAR_LEAD:
        return True
    return finding.veto is False and not rivals


def _collateral(attribution: Attribution, pack: Pack) -> bool:
    """True if all that is left unexplained is normally a consequence of something that was not seen."""
    priors = {entry.id: entry.prior for entry in pack.causal.classes}
    return priors.get(attribution.fault_class) in ("collateral", "context")
