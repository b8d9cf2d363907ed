"""Why one rank is, or is not, the one that failed first: what it did, what it waited for, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from firstfault.engine.accused import not_reached, sites_of
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.classes import words_of
from firstfault.engine.clocks import ran_for_s
from firstfault.engine.evidence import EvidenceBook
from firstfault.engine.last_lines import work_of
from firstfault.engine.live_votes import live_suspicion, with_records
from firstfault.engine.series import latest
from firstfault.engine.wording import listed
from firstfault.errors import UsageError
from firstfault.model.span import SourceSpan
from firstfault.model.why import RankAnswer, RankRole, Statement
from firstfault.units import format_duration

if TYPE_CHECKING:
    from firstfault.engine.align import Aligned
    from firstfault.engine.attribute import Attribution, Explained
    from firstfault.engine.hang.analysis import Waiting
    from firstfault.knowledge.schema import CausalTable, Pack
    from firstfault.model.bundle import Bundle, RankEnd
    from firstfault.model.collective import HangSuspect
    from firstfault.model.diagnosis import Certainty
    from firstfault.model.event import Event, Place

MAX_EVENTS = 6
MAX_LAST_LINES = 3
_MAX_EVIDENCE = 24
_WAITS = frozenset({"collective_timeout", "store_timeout", "peer_lost", "watchdog_stuck"})
_ELSEWHERE = "hang.stands_elsewhere"
_NO_FAILURE = "no failure was found in what was handed over"


def explain_rank(rank: int, bundle: Bundle, pack: Pack) -> RankAnswer:
    """What `bundle` says of the global rank `rank`; UsageError for a rank that the run did not have."""
    aligned = with_records(align(bundle))
    attribution = attribute(aligned, pack.causal, suspicion=live_suspicion(aligned))
    _check(rank, aligned, attribution)
    return _RankStory(rank, aligned, attribution, pack.causal).tell()


def _check(rank: int, aligned: Aligned, attribution: Attribution) -> None:
    known = {*aligned.ranks, *attribution.ranks, *attribution.suspects, *_ranks_of_exits(aligned)}
    size = aligned.world_size
    if rank in known or (size is not None and 0 <= rank < size):
        return
    if size:
        raise UsageError(f"the run has no rank {rank}: its ranks are 0 to {size - 1}", where="RANK")
    if not known:
        hint = "Hand over logs that name their ranks (`[rank3]:`, rank_3.log, torchrun --log-dir), or ask without RANK."
        raise UsageError("nothing in what was handed over names a rank", where="RANK", hint=hint)
    raise UsageError(f"rank {rank} is not among the ranks that were seen", where="RANK", hint=f"Seen: {_listed(known)}.")


def _ranks_of_exits(aligned: Aligned) -> Iterator[int]:
    return (found.place.rank for found in aligned.exits if found.place.rank is not None)


def _rank_of(event: Event | None) -> int | None:
    return event.place.rank if event is not None else None


def _listed(ranks: Iterable[int]) -> str:
    numbers = sorted(ranks)
    shown = ", ".join(str(number) for number in numbers[:12])
    return f"{shown} and {len(numbers) - 12} more" if len(numbers) > 12 else shown


class _RankStory:
    """Collects what is known of one rank, each sentence with its lines."""

    def __init__(self, rank: int, aligned: Aligned, attribution: Attribution, causal: CausalTable) -> None:
        self._rank = rank
        self._aligned = aligned
        self._attribution = attribution
        self._causal = causal
        self._book = EvidenceBook(aligned, limit=_MAX_EVIDENCE)
        self._explained = [found for found in attribution.collateral if found.event.place.rank == rank]

    def tell(self) -> RankAnswer:
        """The whole answer; the order of the calls is the order of the evidence."""
        role = self._role()
        shown = tuple(self._shown(role))
        events = tuple(self._events())
        waited = tuple(self._waited())
        ended = tuple(self._ended())
        says = self._says(role)
        return RankAnswer(
            rank=self._rank,
            role=role,
            certainty=self._certainty(role),
            host=self._aligned.rank_map.hosts.get(self._rank),
            attempt=self._attribution.attempt,
            says=says,
            shown=shown,
            events=events,
            waited_for=waited,
            ended=ended,
            last_lines=tuple(self._last_lines()),
            progress=self._progress(),
            next_step=self._next_step(role),
            evidence=self._book.entries(),
        )

    def _role(self) -> RankRole:
        found, rank = self._attribution, self._rank
        if found.rank == rank and found.certainty != "undetermined":
            return "initiating"
        if rank in found.ranks and found.relation == "symmetric":
            return "symmetric"
        if rank == found.rank or rank in found.suspects or rank in found.ranks:
            return "suspect"
        if any(event.place.rank == rank for event in found.independent):
            return "independent"
        if self._explained or self._stands() is not None:
            return "collateral"
        heard = rank in self._aligned.ranks or rank in _ranks_of_exits(self._aligned)
        return "unmarked" if heard else "absent"

    def _certainty(self, role: RankRole) -> Certainty | None:
        if self._attribution.fault_class == "none":
            return None
        if role in ("initiating", "symmetric", "suspect"):
            return self._attribution.certainty
        if role == "absent" and self._attribution.certainty != "established":
            return "undetermined"
        return "likely" if role == "independent" else self._attribution.certainty

    def _says(self, role: RankRole) -> str:
        found, rank = self._attribution, self._rank
        if found.fault_class == "none":
            return f"Rank {rank} did not fail: {_NO_FAILURE}."
        first = self._who_was_first()
        if role == "collateral":
            return self._followed(first)
        own = next((one.says for one in self._named if one.rank == rank), "")
        if own and role in ("initiating", "suspect"):
            return f"The others wait for rank {rank}: {own}."
        reason = f": {found.reason}" if found.reason else ""
        said = {
            "initiating": f"Rank {rank} failed first{reason}.",
            "symmetric": f"Rank {rank} failed as ranks {_listed(found.ranks)} did, alike: no one of them was first{reason}.",
            "suspect": f"Rank {rank} is suspected, not shown, to have been first{reason}.",
            "independent": f"Rank {rank} failed for a reason of its own, which {first} does not explain.",
            "unmarked": f"Rank {rank} shows no failure of its own, and no line of it says what {first} did to it.",
            "absent": f"Nothing of rank {rank} was handed over{self._unheard(first)}.",
        }
        return said[role]

    def _unheard(self, first: str) -> str:
        if self._attribution.certainty == "established":
            return f": how it ended is not known, but it does not explain {first}"
        return ", so nothing can be said of it: it may even have been first"

    def _followed(self, first: str) -> str:
        stands = self._stands()
        if stands is not None and self._named:
            call = f"{stands.op or 'call'} #{stands.seq} of {stands.group}"
            return f"Rank {self._rank} is not the one: it waits in {call}{self._for()}."
        by = self._explained[0]
        own = _rank_of(by.by) == self._rank
        if self._waits_for_a_suspect(by):
            return f"Rank {self._rank} is not the one: it waits in a call that cannot complete without {self._suspected()}."
        why = next((one for one in self._explained if _rank_of(one.by) != self._rank), by) if own else by
        return f"Rank {self._rank} is not the one: what it reports follows from {first}: {why.rule}."

    def _who_was_first(self) -> str:
        found = self._attribution
        if found.rank is not None:
            return f"the failure of rank {found.rank}"
        if found.ranks:
            return f"the failure of ranks {_listed(found.ranks)}"
        return f"the first failure on {found.host}" if found.host else "the first failure"

    def _own_events(self) -> Iterator[Event]:
        found = self._attribution
        for event in (*found.initiating, *found.independent, *(one.event for one in self._explained)):
            if event.place.rank == self._rank:
                yield event

    def _events(self) -> Iterator[Statement]:
        seen: set[tuple[str, str]] = set()
        ordered = sorted(self._own_events(), key=lambda event: (event.span.source, event.span.offset))
        for event in ordered:
            what = words_of(event, self._causal) or event.name
            if (event.name, event.span.source) in seen or len(seen) >= MAX_EVENTS:
                continue
            seen.add((event.name, event.span.source))
            yield Statement(text=what, evidence=self._book.cite((event.span,)), time=_time(event.place))

    def _waited(self) -> Iterator[Statement]:
        """The calls it was in when others had failed or not come, and for whom."""
        stands = self._stands()
        if stands is not None:
            text = f"It stands in {stands.op or 'call'} #{stands.seq} of {stands.group}{self._for()}"
            yield Statement(text=text, evidence=self._book.cite((stands.span,)))
            return
        for one in self._explained:
            if one.event.fault_class in _WAITS:
                yield Statement(text=self._wait(one), evidence=self._book.cite((one.event.span,)), time=_time(one.event.place))
                return

    @property
    def _named(self) -> tuple[HangSuspect, ...]:
        """Those whom the analysis of the collectives names, if the answer rests on it."""
        named = {*self._attribution.ranks, *self._attribution.suspects}
        return tuple(one for one in (self._aligned.hang.suspects if self._aligned.hang else ()) if one.rank in named)

    def _stands(self) -> Waiting | None:
        """The call in which the rank stands, as a record of its collectives shows it."""
        named = self._named
        if self._aligned.hang is None or not named or any(one.rank == self._rank for one in named):
            return None
        found = self._aligned.hang.waiting
        return next((one for one in found if one.rank == self._rank), None)

    def _for(self) -> str:
        """For whom it waits: for a suspect itself, or behind others that do."""
        direct = [one.rank for one in self._named if self._rank in one.others and one.rank is not None]
        if direct:
            return f", for {listed(direct)}"
        return f", behind ranks that wait for {listed([one.rank for one in self._named if one.rank is not None])}"

    def _shown(self, role: RankRole) -> Iterator[Statement]:
        """What the collectives and the stacks show of a suspect."""
        if role not in ("suspect", "initiating") or self._rank not in self._attribution.suspects:
            return
        own = [one for one in self._named if one.rank == self._rank]
        for one in own:
            yield Statement(text=one.says[:1].upper() + one.says[1:], evidence=self._book.cite(one.evidence))
            others = [rank for rank in one.others if rank != self._rank]
            if others:
                yield Statement(text=f"For it {'wait' if len(others) > 1 else 'waits'} {listed(others)}")
        for event in self._aligned.events:
            if event.name == _ELSEWHERE and event.place.rank == self._rank:
                yield Statement(text=f"It {event.text}", evidence=self._book.cite((event.span,)))
        sites = [shown for one in own for shown in sites_of(one)]
        for shown in sites or not_reached(self._aligned, self._attribution, (self._rank,)):
            yield Statement(text=shown.text, evidence=self._book.cite(shown.spans))

    def _waits_for_a_suspect(self, one: Explained) -> bool:
        """True if what it follows from is only another rank's wait for a suspect."""
        suspects = self._attribution.suspects
        return bool(suspects) and one.event.fault_class in _WAITS and _rank_of(one.by) not in suspects

    def _suspected(self) -> str:
        return listed(self._attribution.suspects)

    def _wait(self, one: Explained) -> str:
        captures = one.event.captures
        op, seq, waited = captures.get("op"), captures.get("seq"), ran_for_s(one.event)
        call = f"{op} number {seq}" if op and seq is not None else str(op or "a call that needs its peers")
        time = f" for {format_duration(waited)}" if waited else ""
        by = _rank_of(one.by)
        if self._waits_for_a_suspect(one):
            return f"It was in {call}{time}, which cannot complete without {self._suspected()}"
        whom = f"rank {by}" if by is not None and by != self._rank else self._who_was_first().removeprefix("the failure of ")
        return f"It was in {call}{time}, which cannot complete without {whom}"

    def _ended(self) -> Iterator[Statement]:
        for found in self._aligned.exits:
            if found.place.rank == self._rank:
                told = "The launcher stopped it" if found.by_launcher else _code_words(found.code)
                yield Statement(text=told, evidence=self._book.cite((found.span,)), time=_time(found.place))

    def _last_lines(self) -> Iterator[Statement]:
        lines = list(work_of(self._aligned, self._rank, None)) or list(self._ends())[-1:]
        for path, line in lines[-MAX_LAST_LINES:]:
            keys = self._book.cite((SourceSpan(path, line.line, line.offset),))
            yield Statement(text=line.text, evidence=keys, time=_time(line.place))

    def _ends(self) -> Iterator[tuple[str, RankEnd]]:
        """The last line of each source of the rank, where it is no stack."""
        for report in self._aligned.bundle.reports:
            place = self._aligned.rank_map.source_place(report)
            for end in report.ends if not report.stacks else ():
                rank = self._aligned.rank_map.complete(end.place).rank
                if (place.rank if rank is None else rank) == self._rank:
                    yield report.source.path, end

    def _progress(self) -> Statement | None:
        ranks = self._aligned.rank_map.source_ranks
        for sample in latest(self._aligned.progress):
            if sample.last_span is not None and self._rank in (sample.rank, ranks.get(sample.last_span.source)):
                keys = self._book.cite((sample.last_span,))
                time = sample.last_time.text if sample.last_time else None
                return Statement(text=sample.last_text.strip(), evidence=keys, time=time or None)
        return None

    def _next_step(self, role: RankRole) -> str:
        if role == "absent":
            return f"firstfault diagnose INPUTS --answer LOG-OF-RANK-{self._rank}"
        first = self._attribution.rank
        if role in ("collateral", "unmarked") and first is not None and first != self._rank:
            return f"firstfault why {first} INPUTS"
        return "firstfault diagnose INPUTS"


def _time(place: Place) -> str | None:
    return place.time.text or None if place.time else None


def _code_words(code: int | None) -> str:
    if code is None:
        return "It ended, and how is not said"
    if code < 0:
        import signal

        try:
            return f"It was ended by {signal.Signals(-code).name} (signal {-code})"
        except ValueError:
            return f"It was ended by signal {-code}"
    return f"It left with exit code {code}"
