"""Logs with the last lines of a rank's work, for what is derived of them."""

from __future__ import annotations

import msgspec

from engine.faults import LINE_BYTES, Log, clock
from firstfault.model.bundle import RankEnd
from firstfault.model.event import Place


class Working(Log):
    """A log whose rank prints lines that no signal knows."""

    def __init__(self, path, **more):
        super().__init__(path, **more)
        self.work = []

    def says(self, text, *, at=None):
        self.lines += 1
        place = Place(rank=self.place.rank, host=self.place.host, time=clock(at))
        self.work.append(RankEnd(place=place, text=text, line=self.lines, offset=self.lines * LINE_BYTES))
        return self

    def report(self):
        end = self.work[-1] if self.work else None
        ends = () if end is None else (msgspec.structs.replace(end, work=tuple(self.work)),)
        return msgspec.structs.replace(super().report(), ends=ends)


def working(size, **more):
    """One such log for each rank."""
    return [Working(f"rank-{rank}.log", rank=rank, **more) for rank in range(size)]


def waiting(size, *, without=(), at=1000, limit=600.0, **captures):
    """Logs in which all ranks but those `without` gave up waiting."""
    logs = working(size)
    for log in logs:
        if log.place.rank not in without:
            log.fault("collective_timeout", name="collective.timeout", at=at, ran_for=limit, **captures)
    return logs
