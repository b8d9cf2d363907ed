"""Which of the things read belong to the initiating event: its line, its rank, its host, its attempt."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from firstfault.engine.classes import read_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.align import Aligned
    from firstfault.engine.attribute import Attribution
    from firstfault.engine.classes import Fault
    from firstfault.knowledge.schema import Pack
    from firstfault.model.bundle import SourceReport
    from firstfault.model.event import Event, ExceptionBlock, Frame, Place, Traceback
    from firstfault.model.fact import Setting


class Scope:
    """The initiating event and what belongs to it. Without a failure `event` is None and the whole bundle is one scope."""

    def __init__(self, aligned: Aligned, attribution: Attribution, pack: Pack) -> None:
        self.aligned = aligned
        self.attribution = attribution
        self.pack = pack
        self.event: Event | None = attribution.initiating[0] if attribution.initiating else None
        self.rank = self.event.place.rank if self.event and self.event.place.rank is not None else attribution.rank
        self.host = (self.event.place.host if self.event else None) or attribution.host
        self.attempt = attribution.attempt

    @cached_property
    def faults(self) -> dict[int, Fault]:
        """Every fatal-looking event with its class, by the identity of the event."""
        return {id(fault.event): fault for fault in read_faults(self.aligned, self.pack.causal)}

    def class_of(self, event: Event) -> str | None:
        """The class of an event as attribution sees it: that of the exception's type where the text says no more."""
        fault = self.faults.get(id(event))
        return fault.fault_class if fault else event.fault_class

    @cached_property
    def reports(self) -> dict[str, SourceReport]:
        """Reports by source id."""
        return {report.source.id: report for report in self.aligned.bundle.reports}

    @cached_property
    def traceback(self) -> Traceback | None:
        """The traceback that the initiating event ends, if one was read."""
        return self.aligned.traceback_of(self.event) if self.event else None

    @cached_property
    def block(self) -> ExceptionBlock | None:
        """The exception of the chain that is the event: the one it stands in, else the first of the chain."""
        if self.traceback is None or not self.traceback.blocks or self.event is None:
            return None
        for block in self.traceback.blocks:
            if block.span.line == self.event.span.line and block.span.source == self.event.span.source:
                return block
        return self.traceback.root

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        """The frames of that exception, outermost first."""
        return self.block.frames if self.block else ()

    @cached_property
    def whole(self) -> bool:
        """True if the traceback is complete from the script to the raising frame."""
        return self.block is not None and self.block.whole and bool(self.block.frames)

    @cached_property
    def inner_side_whole(self) -> bool:
        """True if nothing was cut between the innermost printed frame and the exception line."""
        block = self.block
        if block is None or not block.frames:
            return False
        if block.whole:
            return True
        innermost = block.frames[-1]
        # A frame takes its File line, its code and a line of carets; a cut leaves a longer gap or a mark where the code stood.
        return 0 < block.span.line - innermost.span.line <= 3 and not _is_cut_mark(innermost.code)

    @cached_property
    def on_the_line(self) -> tuple[Event, ...]:
        """The initiating event and the events that stand in the same message."""
        event = self.event
        if event is None:
            return ()
        first, last = event.span.offset, event.span.offset
        if self.block is not None and self.block.span.line == event.span.line:
            first, last = min(first, self.block.span.offset), max(last, self.block.end_offset)
        return tuple(
            other
            for other in self.aligned.events
            if other.source_id == event.source_id
            and (first <= other.span.offset <= last or other.span.line == event.span.line)
            and not other.quoted
        )

    def events(self) -> Iterator[Event]:
        """Events of the attempt that are no mere quotation, those of the initiating rank first."""
        mine: list[Event] = []
        others: list[Event] = []
        for event in self.aligned.events:
            if not event.quoted and self.in_attempt(event.place):
                (mine if self.on_rank(event) else others).append(event)
        yield from mine
        yield from others

    def in_attempt(self, place: Place) -> bool:
        """True unless the place is known to belong to another attempt."""
        return self.attempt is None or place.attempt is None or place.attempt == self.attempt

    def on_rank(self, event: Event) -> bool:
        """True if the event was printed by the initiating rank, or by the only process there is."""
        if event.place.rank is not None and self.rank is not None:
            return event.place.rank == self.rank
        if event.place.rank is None and self.rank is None:
            return self.event is None or event.source_id == self.event.source_id or len(self.aligned.ranks) <= 1
        return len(self.aligned.ranks) <= 1

    def on_host(self, event: Event) -> bool:
        """True unless the event is known to come from another host."""
        return self.host is None or event.place.host is None or event.place.host == self.host

    def settings(self) -> Iterator[Setting]:
        """All settings of the bundle, in the order in which they were handed over."""
        for report in self.aligned.bundle.reports:
            yield from report.settings


def _is_cut_mark(code: str) -> bool:
    stripped = code.strip().strip("[]().")
    return code.strip() in {"...", "[...]", "…", "(...)"} or stripped.lower().startswith(
        ("cut", "truncated", "snip", "omitted")
    )
