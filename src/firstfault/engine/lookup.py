"""What is known of a run: facts by name, and the three-valued truth of events.

An event is true if it was seen on the initiating rank (or anywhere, for texts of launchers, kernels and schedulers). It is
false only if the source that would carry it is in the bundle and complete: it begins before and ends after the failure, and
the traceback is whole. Otherwise it is unknown.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from firstfault.engine.derive.scope import Scope

if TYPE_CHECKING:
    from firstfault.engine.align import Aligned
    from firstfault.engine.attribute import Attribution
    from firstfault.knowledge.schema import Pack
    from firstfault.knowledge.truth import Truth
    from firstfault.model.event import Event
    from firstfault.model.fact import Fact, FactSet, FactValue
    from firstfault.model.span import SourceSpan

# Which sources carry the signals of an emitter (the stem of its file); the output of the ranks carries all others.
_CARRIERS: dict[str, frozenset[str]] = {
    "kernel": frozenset({"kernel"}),
    "slurm": frozenset({"slurm"}),
    "kubernetes": frozenset({"kubernetes"}),
}
_ANY_RANK = frozenset({"kernel", "slurm", "kubernetes", "torchelastic", "launcher", "accelerate", "deepspeed_launcher"})
_RANK_OUTPUT = frozenset({"log", "slurm", "error_file"})


class Known:
    """Facts and events of one investigation, as conditions and templates ask for them."""

    def __init__(self, facts: FactSet, aligned: Aligned, attribution: Attribution, pack: Pack) -> None:
        self.facts = facts
        self.pack = pack
        self._scope = Scope(aligned, attribution, pack)
        self._aligned = aligned
        self._recovered = frozenset(map(id, attribution.recovered))

    def value(self, name: str) -> FactValue | None:
        """The value of a fact, the truth of an event, or None while it is unknown."""
        found = self.facts.get(name)
        if found is not None:
            return found.value
        return self._truth(name) if name in self._emitters else None

    def rounded(self, name: str) -> bool:
        """True if the number was printed with two decimals."""
        found = self.facts.get(name)
        return found is not None and found.rounded

    def span(self, name: str) -> SourceSpan | None:
        """The first line that shows the fact or the event."""
        found = self.facts.get(name)
        if found is not None:
            return found.spans[0] if found.spans else None
        event = self._seen.get(name)
        return event.span if event else None

    def fact(self, name: str) -> Fact | None:
        """The fact with its origin and lines."""
        return self.facts.get(name)

    def event(self, name: str) -> Event | None:
        """The first event of that name that counts as seen."""
        return self._seen.get(name)

    @cached_property
    def read_only(self) -> ReadOnly:
        """The same without what was merely told: only this may establish an answer."""
        return ReadOnly(self)

    @cached_property
    def _emitters(self) -> dict[str, frozenset[str]]:
        stems: dict[str, set[str]] = {}
        for signal in self.pack.signals:
            stem = signal.source.rsplit("/", 1)[-1].split(".toml", 1)[0]
            stems.setdefault(signal.event, set()).add(stem)
        return {name: frozenset(found) for name, found in stems.items()}

    @cached_property
    def _seen(self) -> dict[str, Event]:
        seen: dict[str, Event] = {}
        for event in self._scope.events():
            if id(event) in self._recovered or event.name in seen:
                continue
            emitters = self._emitters.get(event.name, frozenset())
            if "kernel" in emitters and not self._scope.on_host(event):
                continue
            anywhere = bool(emitters & _ANY_RANK)
            if anywhere or self._scope.on_rank(event) or self._scope.event is None:
                seen[event.name] = event
        return seen

    def _truth(self, name: str) -> Truth:
        if name in self._seen:
            return True
        carriers = frozenset[str]().union(*(_CARRIERS.get(stem, _RANK_OUTPUT) for stem in self._emitters[name]))
        return False if self._complete(carriers) else None

    def _complete(self, kinds: frozenset[str]) -> bool:
        event = self._scope.event
        if event is None:
            return False
        if _RANK_OUTPUT & kinds:
            report = self._scope.reports.get(event.source_id)
            if report is None or report.source.kind not in kinds:
                return False
            # Something must stand above the traceback: an excerpt that starts with it shows nothing of the time before.
            first = self._scope.frames[0].span.line if self._scope.frames else event.span.line
            begins = report.source.begins and first > report.source.first_line + 1
            whole = self._scope.whole or self._scope.block is None
            return begins and report.source.ends and whole
        return any(
            report.source.kind in kinds and report.source.begins and report.source.ends
            for report in self._aligned.bundle.reports
        )


class ReadOnly:
    """What stands in the bundle or was answered: `Known` without what was merely told."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def value(self, name: str) -> FactValue | None:
        """The value unless it was only told, or may be a quotation."""
        found = self._known.fact(name)
        event = self._known.event(name) if found is None else None
        only_told = (found is not None and found.basis == "told") or (event is not None and event.alone)
        return None if only_told else self._known.value(name)

    def rounded(self, name: str) -> bool:
        """True if the number was printed with two decimals."""
        return self._known.rounded(name)
