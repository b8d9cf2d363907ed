"""Short ways to build what attribution reads: events, exits, tracebacks, sources and bundles."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from firstfault.engine.align import Aligned, align
from firstfault.engine.attribute import Attribution, attribute
from firstfault.knowledge.causal import load_causal
from firstfault.knowledge.schema import CausalTable
from firstfault.model.bundle import Bundle, Source, SourceReport
from firstfault.model.event import Clock, Event, ExceptionBlock, Frame, Place, ProcessExit, Progress, Traceback
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan

LINE_BYTES = 100


@lru_cache(maxsize=1)
def causal() -> CausalTable:
    """The real table of the encyclopedia."""
    return load_causal(Path(__file__).parents[2] / "encyclopedia" / "explains.toml")


def clock(seconds, kind="wall", resolution_s=0.001):
    return None if seconds is None else Clock(float(seconds), kind, resolution_s)


class Log:
    """One source under construction; each call adds a line."""

    def __init__(self, path, rank=None, host=None, attempt=None, kind="log", ends=True):
        self.place = Place(rank=rank, host=host, attempt=attempt)
        self.path, self.kind, self.ends, self.lines = path, kind, ends, 0
        self.events, self.tracebacks, self.exits, self.progress, self.facts = [], [], [], [], []
        self.covers = None

    def _span(self):
        self.lines += 1
        return SourceSpan(self.path, self.lines, self.lines * LINE_BYTES)

    def _place(self, rank, at, pid, kind, local_rank=None, host=None):
        return Place(
            rank=self.place.rank if rank is None else rank,
            local_rank=local_rank,
            host=host or self.place.host,
            pid=pid,
            attempt=self.place.attempt,
            time=clock(at, kind),
        )

    def fault(self, fault_class, text=None, *, rank=None, at=None, name=None, kind="wall", **captures):
        """A line that a signal of `fault_class` matched."""
        self.events.append(
            Event(
                name=name or fault_class,
                signal=fault_class,
                role="context" if fault_class is None else "either",
                fault_class=fault_class,
                span=self._span(),
                text=text or f"{fault_class} happened",
                place=self._place(rank, at, None, kind),
                captures=captures,
                source_id=self.path,
            )
        )
        return self

    def note(self, name, *, rank=None, at=None, **captures):
        """A line of context."""
        return self.fault(None, name, rank=rank, at=at, name=name, **captures)

    def raises(self, *chain, rank=None, at=None, path="train.py", function="main", line=7, fault_class=None):
        """A traceback; each of `chain` is `Type: message`, the oldest first. A signal of `fault_class` knows the last line."""
        blocks = []
        for text in chain:
            kind, _, message = text.partition(": ")
            frame = Frame(path, line, function, "x = f(x)", self._span())
            span = self._span()
            blocks.append(
                ExceptionBlock(type=kind, message=message, frames=(frame,), span=span, end_offset=span.offset + LINE_BYTES - 1)
            )
        place = self._place(rank, at, None, "wall")
        self.tracebacks.append(Traceback(blocks=tuple(blocks), place=place, source_id=self.path))
        self.lines -= 1
        self.fault(fault_class or "python_exception", chain[0], rank=rank, at=at, name=fault_class or "python.exception")
        root = self.tracebacks[-1].root.span
        self.events[-1] = msgspec.structs.replace(self.events[-1], traceback=len(self.tracebacks) - 1, span=root)
        return self

    def exit(
        self, code, *, rank=None, local_rank=None, pid=None, told=False, reporter="elastic", at=None, first=False, host=None
    ):
        """A line about the end of a process; `told` is the launcher that sends a signal."""
        span = self._span()
        self.exits.append(
            ProcessExit(
                place=self._place(rank, at, pid, "wall", local_rank, host),
                code=code,
                by_launcher=told,
                reporter=reporter,
                span=span,
                text=f"exit {code} pid {pid} line {span.line}",
                source_id=self.path,
                first_observed=first,
            )
        )
        return self

    def steps(self, count=10, *, rank=None, total=None, at=None):
        """`count` progress lines."""
        first = self.lines + 1
        self.lines += count
        rank = self.place.rank if rank is None else rank
        span = SourceSpan(self.path, self.lines, self.lines * LINE_BYTES)
        self.progress.append(
            Progress(
                rank=rank,
                lines=count,
                first_step=first,
                last_step=count,
                total_steps=total,
                last_span=span,
                last_text="step",
                last_time=clock(at),
                attempt=self.place.attempt,
            )
        )
        return self

    def report(self):
        source = Source(id=self.path, path=self.path, kind=self.kind, place=self.place, lines=self.lines, ends=self.ends)
        ranks = {e.place.rank for e in self.events} | {self.place.rank} | {p.rank for p in self.progress}
        return SourceReport(
            source=source,
            events=tuple(self.events),
            tracebacks=tuple(self.tracebacks),
            exits=tuple(self.exits),
            progress=tuple(self.progress),
            facts=tuple(self.facts),
            ranks=tuple(sorted(rank for rank in ranks if rank is not None)),
            covers=self.covers,
        )


def world(size, *logs):
    """A bundle of `logs` of a run of `size` ranks."""
    reports = [log.report() for log in logs]
    if size is not None:
        fact = Fact(name="run.world_size", value=size, origin="test")
        reports.append(SourceReport(source=Source(id="plan", path="plan", kind="command"), facts=(fact,)))
    return Bundle(reports=tuple(reports))


def aligned(size, *logs) -> Aligned:
    return align(world(size, *logs))


def attributed(size, *logs) -> Attribution:
    return attribute(aligned(size, *logs), causal())


def rank_logs(size, **kwargs):
    return [Log(f"rank-{rank}.log", rank=rank, **kwargs) for rank in range(size)]
