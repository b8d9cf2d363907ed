"""Which of the printed counters counts the steps of training: bars of evaluations and of data count too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Event, Progress

_ANNOUNCEMENT = "trainer.total_steps"
_LATER_EPOCH = lazy_pattern(r"[Ee]poch\W{0,4}0{0,3}[1-9]", needs=("Epoch", "epoch"))


def announced_totals(events: Iterable[Event]) -> frozenset[int]:
    """The numbers of optimizer steps that trainers say they are about to do."""
    texts = [str(event.captures.get("steps", "")).replace(",", "") for event in events if event.signal == _ANNOUNCEMENT]
    return frozenset(int(text) for text in texts if text.isascii() and text.isdigit())


def training_series(progress: Iterable[Progress], announced: Collection[int] = ()) -> tuple[Progress, ...]:
    """The series that count the steps of training, of every rank; empty if that cannot be told.

    They are those with the announced total, else with the largest one, unless a counter without a total goes beyond it. A
    smaller total that was there before the largest and is still counted after it began may be the outer loop: then nothing is
    told. Without any total all counters are taken.
    """
    counted = [one for one in progress if one.last_step is not None]
    plain = [one for one in counted if not one.total_steps]
    limits = sorted({one.total_steps for one in counted if one.total_steps})
    told = [limit for limit in limits if limit in announced]
    if len(told) > 1:
        return ()
    if told:
        return tuple(one for one in counted if one.total_steps == told[0])
    if not limits or announced or max((one.last_step or 0 for one in plain), default=0) > limits[-1]:
        return tuple(plain)
    if _may_enclose(counted, limits[-1]):
        return ()
    return tuple(one for one in counted if one.total_steps == limits[-1])


def latest(series: Iterable[Progress]) -> list[Progress]:
    """Of each process in each source the series that was printed last, those that count steps before others."""
    found: dict[tuple[object, ...], Progress] = {}
    for one in series:
        key = _process(one)
        if key not in found or _when(one) > _when(found[key]):
            found[key] = one
    return list(found.values())


def starts_anew(series: Sequence[Progress]) -> bool:
    """Whether the counter of these series of training counts from zero again, by the epoch: then it is not the number of steps.

    It does if its lines name a later epoch, or if one process counted up and then stands at less than half of that.
    """
    if any(one.total_steps and _LATER_EPOCH.search(one.last_text) for one in series):
        return True
    now = {_process(one): one for one in latest(series)}
    return any(2 * (now[_process(one)].last_step or 0) < (one.last_step or 0) for one in series if one.total_steps)


def _process(one: Progress) -> tuple[object, ...]:
    return (one.last_span.source if one.last_span else "", one.rank, one.local_rank, one.host, one.attempt)


def _when(one: Progress) -> tuple[bool, int]:
    return one.last_step is not None, one.last_span.offset if one.last_span else -1


def _may_enclose(counted: Iterable[Progress], largest: int) -> bool:
    """Whether a smaller total was there before the largest one, in the lines of one process, and still behind its beginning."""
    extents: dict[tuple[object, ...], dict[int, tuple[int, int]]] = {}
    for one in counted:
        if one.total_steps and one.first_span and one.last_span:
            totals = extents.setdefault(_process(one), {})
            begin, end = totals.get(one.total_steps, (one.first_span.offset, one.last_span.offset))
            totals[one.total_steps] = (min(begin, one.first_span.offset), max(end, one.last_span.offset))
    return any(
        begin < totals[largest][0] < end for totals in extents.values() if largest in totals for begin, end in totals.values()
    )
