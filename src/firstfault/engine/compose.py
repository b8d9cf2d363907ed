"""Puts the answer together: every statement with the lines that show it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from firstfault.engine.accused import MAX_ACCUSED, shown_of_suspects
from firstfault.engine.attribute import spoken_class
from firstfault.engine.chronicle import timeline
from firstfault.engine.classes import words_of
from firstfault.engine.derive.frames import is_library
from firstfault.engine.derive.scope import Scope
from firstfault.engine.evidence import EvidenceBook
from firstfault.engine.handed_over import said_of, shows_run
from firstfault.engine.known_part import known_part
from firstfault.engine.match import Candidate, Walk, weight
from firstfault.knowledge.expression import parse
from firstfault.knowledge.pack import body
from firstfault.knowledge.template import fill
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import (
    Alternative,
    Collateral,
    Diagnosis,
    Fix,
    Initiating,
    Missing,
    OtherFinding,
    Reason,
    SourceSummary,
    Verification,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from firstfault.engine.align import Aligned
    from firstfault.engine.attribute import Attribution
    from firstfault.engine.lookup import Known
    from firstfault.knowledge.schema import Condition, Pack
    from firstfault.model.event import Event
    from firstfault.model.fact import FactValue
    from firstfault.model.span import SourceSpan

_PLACE = lazy_pattern(r" \(\{[a-z_.]+\.span\}\)")
MAX_REASONS = 6
MAX_ALTERNATIVES = 6
MAX_RULED_OUT = 3
MAX_COLLATERAL = 4096
MAX_NOTES = 50
# Of the fifteen lines, what the initiating event may take: its line and the frames that say what it was doing.
_MAX_INITIATING = 3
_MAX_FRAMES = 3
_STARTERS_OF_ONE = frozenset({"python", "accelerate", "torchrun", "deepspeed"})
_OUTSIDE_THE_RANKS = frozenset(
    {"launcher_exception", "argument_rejected", "scheduler_stop", "launcher_report", "rendezvous_error"}
)
_WEIGHT_OF_SHOWN = 3
_OOM_SENTENCES = ("oom.tensor_arithmetic", "oom.account")
_FRAME_FACTS = ("oom.consumer", "oom.phase", "exc.site", "fault.stage")


class Composer:
    """Makes a `Diagnosis` of the walk and the attribution."""

    def __init__(self, aligned: Aligned, attribution: Attribution, known: Known, walk: Walk, pack: Pack) -> None:
        self._aligned = aligned
        self._attribution = attribution
        self._known = known
        self._walk = walk
        self._pack = pack
        self._scope = Scope(aligned, attribution, pack)
        self._book = EvidenceBook(aligned)

    def compose(
        self, missing: tuple[Missing, ...], fixes: tuple[Fix, ...], verifications: tuple[Verification, ...]
    ) -> Diagnosis:
        """The whole answer. The order of the calls is the order of the evidence: what decides comes first."""
        finding = self._walk.finding
        failed = self._walk.verdict != "no_failure"
        entry = finding.entry if finding else None
        self._book.cite([*self._suspect_spans(), *(event.span for event in self._attribution.initiating[:1])])
        reasons = self._reasons() if failed else ()
        initiating = self._initiating() if failed else None
        others = self._others() if failed else ()
        collateral = self._collateral() if failed else ()
        self._book.cite(
            event.span for event in self._attribution.recovered[:_MAX_INITIATING] if self._attribution.circumstances
        )
        marks = timeline(self._aligned, self._attribution, self._book, self._pack.causal) if failed else ()
        return Diagnosis(
            verdict=self._walk.verdict,
            entry=entry.id if entry else None,
            title=entry.title if entry else self._title() if failed else "",
            category=entry.category if entry else None,
            path=tuple(step.entry.id for step in self._walk.path),
            initiating=initiating,
            others=others,
            collateral=collateral,
            cause=" ".join(filter(None, (self._cause() if failed else "", *self._attribution.circumstances))),
            mechanism=self._mechanism(),
            reasons=reasons,
            fix=fixes,
            verify=verifications,
            missing=missing,
            alternatives=self._alternatives(missing),
            evidence=self._book.entries(),
            timeline=marks,
            facts=self._facts(),
            sources=tuple(_sources(self._aligned)),
            notes=tuple(self._notes()),
            elapsed_s=self._aligned.bundle.elapsed_s,
        )

    def _initiating(self) -> Initiating | None:
        attribution = self._attribution
        events = attribution.initiating
        if not events and attribution.rank is None and not attribution.suspects:
            return None
        spans = [*self._suspect_spans(), *(event.span for event in events[:_MAX_INITIATING])]
        evidence = self._book.cite([*spans, *self._frame_spans()]) if events else self._cite_suspects()
        rank = 0 if attribution.rank is None and self._is_one_process() else attribution.rank
        return Initiating(
            rank=rank,
            ranks=attribution.ranks if rank == attribution.rank or rank is None else (rank,),
            relation=attribution.relation,
            host=attribution.host,
            time=(attribution.time.text or None) if attribution.time else None,
            attempt=attribution.attempt,
            certainty=attribution.certainty,
            evidence=evidence,
        )

    def _title(self) -> str:
        """What happened, where no entry says why; nothing where only consequences were seen."""
        events = self._attribution.initiating[:1]
        said = "" if self._walk.only_collateral else "".join(words_of(event, self._pack.causal) for event in events)
        return _capital(said)

    def _is_one_process(self) -> bool:
        """True if the run is known to be a single process: that process is rank 0, whether it says so or not."""
        aligned, known = self._aligned, self._known
        return (
            known.value("launch.processes") == 1
            and known.value("launch.starter") in _STARTERS_OF_ONE
            and known.value("launch.slurm_tasks_per_node") is None
            and self._attribution.fault_class not in _OUTSIDE_THE_RANKS
            and aligned.world_size in {None, 1}
            and not aligned.ranks - {0}
            and not self._attribution.suspects
            and self._attribution.relation == "one"
        )

    def _frame_spans(self) -> list[SourceSpan]:
        """The frames that say what the initiating event was doing, the user's own one, and the innermost one."""
        facts = self._known.facts
        spans = [span for name in _FRAME_FACTS if name in facts for span in facts[name].spans]
        frames = self._scope.frames
        own = [frame.span for frame in frames if not is_library(frame.path)][-1:]
        return list(dict.fromkeys([*spans[: _MAX_FRAMES - 1], *own, *(frame.span for frame in frames[-1:])]))[:_MAX_FRAMES]

    def _suspect_spans(self) -> list[SourceSpan]:
        """What the records of collectives show of the ranks that the answer names."""
        named = set(self._attribution.ranks) if self._walk.only_collateral else set()
        found = self._aligned.hang.suspects if self._aligned.hang else ()
        return [span for one in found if one.rank in named for span in one.evidence[:2]][: 2 * _MAX_INITIATING]

    def _cite_suspects(self) -> tuple[str, ...]:
        # A rank that fell silent is shown by what the others report of it.
        return self._book.cite(explained.event.span for explained in self._attribution.collateral[:_MAX_INITIATING])

    def _reasons(self) -> tuple[Reason, ...]:
        pairs = [(weight(c), c) for step in reversed(self._walk.path) for c in step.for_]
        reasons = list(self._of_suspects()) if self._walk.only_collateral else []
        most = MAX_REASONS + len(reasons)
        for points, condition in sorted(pairs, key=lambda pair: -pair[0]):
            text = self._say(condition)
            if text and all(reason.text != text for reason in reasons) and len(reasons) < most:
                evidence = self._book.cite(self._spans(condition))
                if evidence or self._is_answered(condition):
                    reasons.append(Reason(text=text, weight=points, evidence=evidence))
        return tuple(reasons)

    def _of_suspects(self) -> Iterator[Reason]:
        for shown in shown_of_suspects(self._aligned, self._attribution):
            evidence = self._book.cite(shown.spans)
            if evidence:
                yield Reason(text=shown.text, weight=_WEIGHT_OF_SHOWN, evidence=evidence)

    def _spans(self, condition: Condition) -> Iterator[SourceSpan]:
        for name in sorted(parse(condition.if_).names):
            fact = self._known.fact(name)
            if fact is not None:
                yield from fact.spans[:2]
            elif (event := self._known.event(name)) is not None:
                yield event.span

    def _is_answered(self, condition: Condition) -> bool:
        facts = [self._known.fact(name) for name in parse(condition.if_).names]
        return any(fact is not None and fact.basis == "answered" for fact in facts)

    def _say(self, condition: Condition) -> str:
        # The lines are cited beside the sentence, once.
        return fill(_PLACE.sub("", condition.says), self._known, self._pack.facts).strip()

    def _mechanism(self) -> str:
        finding = self._walk.finding
        if finding is None or not finding.alive:
            return ""
        return _first_paragraph(body(self._pack, finding.entry.id).sections.get("Why it happens", ""))

    def _cause(self) -> str:
        finding = self._walk.finding
        # A node that is only possible says nothing that is so.
        said = fill(finding.entry.says, self._known, self._pack.facts).strip() if finding and finding.alive else ""
        if not said and not self._attribution.reason and not shows_run(self._aligned.bundle):
            return said_of(self._aligned.bundle)
        hang = self._aligned.hang
        if said and hang is not None and hang.suspects and self._walk.only_collateral:
            several = 1 < len(self._attribution.ranks) <= MAX_ACCUSED
            # Each of a few has a line of its own among the reasons.
            return said if several else f"{said} {_capital(hang.reason)}."
        if said and self._walk.only_collateral and self._attribution.suspects and self._attribution.reason:
            return f"{said} {_capital(self._attribution.reason)}."
        # The facts are there only where the message of this failure has the numbers.
        arithmetic = (self._known.value(name) for name in _OOM_SENTENCES)
        said = said or (f"{_capital(self._attribution.reason)}." if self._attribution.reason else "")
        return " ".join([said, *(text for text in arithmetic if isinstance(text, str))])

    def _others(self) -> tuple[OtherFinding, ...]:
        found: dict[tuple[str, int | None], OtherFinding] = {}
        for event in self._attribution.independent:
            key = (self._entry_of(event), event.place.rank)
            evidence = self._book.cite((event.span,))
            if key not in found and evidence:
                place = event.place
                ranks = () if place.rank is None else (place.rank,)
                initiating = Initiating(rank=place.rank, ranks=ranks, host=place.host, certainty="likely", evidence=evidence)
                found[key] = OtherFinding(entry=key[0], verdict="likely", initiating=initiating, evidence=evidence)
        return tuple(found.values())

    def _collateral(self) -> tuple[Collateral, ...]:
        made: list[Collateral] = []
        shown: dict[tuple[str, str], tuple[str, ...]] = {}
        done: set[tuple[int | None, str]] = set()
        for explained in self._attribution.collateral:
            event = explained.event
            entry = self._entry_of(event)
            if (event.place.rank, entry) in done or len(made) >= MAX_COLLATERAL:
                continue
            done.add((event.place.rank, entry))
            because = self._because(event, explained.by)
            # Many ranks that follow alike share a line: fifteen pieces of evidence are for the reader, not for the count.
            evidence = shown.get((entry, because)) or self._book.cite((event.span,))
            if evidence:
                shown[(entry, because)] = evidence
                what = words_of(event, self._pack.causal)
                made.append(Collateral(rank=event.place.rank, entry=entry, explained_by=because, what=what, evidence=evidence))
        return tuple(made)

    def _because(self, event: Event, by: Event | None) -> str:
        found, rank = self._attribution, by.place.rank if by else None
        if by is None or self._walk.only_collateral or (found.suspects and rank not in found.suspects):
            # What was seen first is a consequence too: it explains nothing.
            return f"what happened on rank {found.rank}" if found.rank is not None else "a failure that was not read"
        if rank is not None and rank == event.place.rank:
            return "the rank's own first error"
        if found.relation == "symmetric" and (rank is None or rank in found.ranks):
            return "the failure that all ranks share"
        if rank is not None:
            return f"the failure of rank {rank}"
        return f"the first failure on {by.place.host}" if by.place.host else "the first failure"

    def _entry_of(self, event: Event) -> str:
        return entry_of_class(spoken_class(self._scope.class_of(event) or ""), self._pack)

    def _alternatives(self, missing: tuple[Missing, ...]) -> tuple[Alternative, ...]:
        """What else was held against the evidence: first what the question is about, then what speaks for itself."""
        on_path = {step.entry.id for step in self._walk.path}
        asked = missing[0].separates if missing else ()
        listed: dict[str, tuple[tuple[int, ...], Alternative]] = {}
        for candidate in self._walk.passed:
            entry = candidate.entry
            if entry.id in on_path or entry.id in listed:
                continue
            for_ = tuple(filter(None, map(self._say, candidate.for_))) or self._known_part(candidate)
            against = tuple(filter(None, map(self._say, candidate.against)))
            if candidate.alive or candidate.possible:
                if self._is_worth_naming(candidate, asked):
                    order: tuple[int, ...] = (0, entry.id not in asked, not candidate.alive, -candidate.support)
                    listed[entry.id] = order, Alternative(entry=entry.id, verdict="possible", for_=for_, against=against)
            elif why := against or tuple(self._unmet(candidate)):
                order = (1, not against)
                listed[entry.id] = order, Alternative(entry=entry.id, verdict="ruled_out", for_=for_, against=why)
        kept = [alternative for _, alternative in sorted(listed.values(), key=lambda pair: pair[0])]
        possible = [found for found in kept if found.verdict == "possible"][:MAX_ALTERNATIVES]
        return (*possible, *[found for found in kept if found.verdict == "ruled_out"][:MAX_RULED_OUT])

    def _known_part(self, candidate: Candidate) -> tuple[str, ...]:
        """What of an open cause is known already, its lines cited."""
        shown = known_part(candidate.entry, self._known) if candidate.possible else ()
        self._book.cite(span for _, fact in shown for span in fact.spans[:1])
        return tuple(text for text, _ in shown)

    def _is_worth_naming(self, candidate: Candidate, asked: tuple[str, ...]) -> bool:
        """An entry about which nothing is known beyond its possibility tells a reader nothing."""
        if candidate.entry.id in asked:
            return True
        if candidate.entry.fallback:
            return False
        if self._walk.verdict == "undetermined":
            finding = self._walk.finding
            own = finding is not None and candidate.entry.refines == finding.entry.id
            return candidate.support > 0 or candidate.alive or own
        return candidate.support > 0

    def _unmet(self, candidate: Candidate) -> Iterator[str]:
        """The requirements that do not hold, in their own words."""
        for condition in candidate.entry.requires:
            # A sentence with a number of this run would claim the number.
            said = "" if "{" in condition.says else self._say(condition)
            if said and parse(condition.if_).evaluate(self._known) is False:
                yield f'this does not hold: "{said.rstrip(".")}"'

    def _facts(self) -> dict[str, Any]:
        return {
            name: {
                "value": fact.value,
                "origin": fact.origin,
                "basis": fact.basis,
                "at": [str(span) for span in fact.spans[:3]],
            }
            for name, fact in sorted(self._known.facts.items())
        }

    def _notes(self) -> Iterator[str]:
        bundle = self._aligned.bundle
        notes = [*bundle.notes, *(note for report in bundle.reports for note in report.notes)]
        yield from self._aligned.clocks.said
        for note in notes[:MAX_NOTES]:
            yield f"{note.where}: {note.what}" if note.where else note.what
        if len(notes) > MAX_NOTES:
            yield f"{len(notes) - MAX_NOTES} more notes were left out"


class _OnlyTheClass:
    """A lookup that knows nothing but the class of the fault."""

    def __init__(self, fault_class: str) -> None:
        self._class = fault_class

    def value(self, name: str) -> FactValue | None:
        return self._class if name == "fault.class" else None

    def rounded(self, name: str) -> bool:
        return False


@lru_cache(maxsize=256)
def _entry_of_class(fault_class: str, requirements: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    lookup = _OnlyTheClass(fault_class)
    nothing = _OnlyTheClass("")
    named = fault_class
    for entry_id, conditions in requirements:
        truths = [parse(condition).evaluate(lookup) for condition in conditions]
        if truths and all(truths):
            return entry_id
        # It names the class beside a fact that is not looked at here.
        if named == fault_class and False not in truths and any(parse(c).evaluate(nothing) is False for c in conditions):
            named = entry_id
    return named


def entry_of_class(fault_class: str, pack: Pack) -> str:
    """The most general entry that the class opens; the class itself if there is none."""
    roots = (entry for entry in pack.entries.values() if entry.refines is None)
    return _entry_of_class(fault_class, tuple((entry.id, tuple(c.if_ for c in entry.requires)) for entry in roots))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _first_paragraph(section: str) -> str:
    paragraph = section.strip().split("\n\n", 1)[0]
    return " ".join(paragraph.split())


def _sources(aligned: Aligned) -> Iterable[SourceSummary]:
    for report in aligned.bundle.reports:
        source = report.source
        rank = source.place.rank if source.place.rank is not None else _only(report.ranks)
        yield SourceSummary(path=source.path, kind=source.kind, rank=rank, bytes=source.size_bytes, lines=source.lines)


def _only(ranks: Sequence[int]) -> int | None:
    return ranks[0] if len(ranks) == 1 else None
