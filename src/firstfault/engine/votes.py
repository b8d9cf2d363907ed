"""Which rank the others point at: named in their texts, behind a closed address, or alone with another call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Event, Traceback

_ACCUSED = ("named_rank", "ranks", "other_rank")
_WAITED_FOR = "waits_for"
_INTEGERS = lazy_pattern(r"\d{1,7}")
_COLLECTIVES = "torch/distributed/distributed_c10d.py"
_WRAPPERS = frozenset({"wrapper", "inner", "decorate_context"})
_CALL_CAPTURES = ("op", "numel_in", "numel_out")
_SEQUENCES = ("seq",)
_DUMP_SIGNAL = "collective.dump_signal"
_PROCESS_SHAPE = "collective.process_shape"
MIN_VOTERS = 3


def named_rank(faults: Iterable[Fault], world_size: int | None = None) -> int | None:
    """The rank that the texts of the others accuse most.

    A rank that says for whom it waits passes its vote on to whom that one accuses (`Please check rank 0 logs for faulty rank`).
    A tie decides nothing: two ranks that name each other, for example.
    """
    accused: dict[int, set[int]] = {}
    waited_for: dict[int, set[int]] = {}
    for fault in faults:
        if fault.rank is not None:
            accused.setdefault(fault.rank, set()).update(_ranks_in(fault, _ACCUSED, world_size))
            waited_for.setdefault(fault.rank, set()).update(_ranks_in(fault, (_WAITED_FOR,), world_size))
    votes: Counter[int] = Counter()
    for voter, names in accused.items():
        passed_on = {one for name in waited_for[voter] for one in accused.get(name, ()) or {name} if one != voter}
        votes.update(names or passed_on)
    ranked = votes.most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def accuses(fault: Fault) -> bool:
    """True if the text itself says which rank did not come or differs."""
    return any(key in fault.event.captures for key in _ACCUSED)


def odd_one_out(aligned: Aligned, faults: Iterable[Fault]) -> int | None:
    """The one rank whose collective differs from that of all others: by what it prints of it, by function, by sizes."""
    own: dict[int, str] = {}
    listed = _listed_shapes(aligned.events)
    calls: dict[int, str] = {}
    sizes: dict[object, dict[int, str]] = {}
    for fault in faults:
        if fault.rank is None:
            continue
        if "own" in fault.event.captures:
            own.setdefault(fault.rank, str(fault.event.captures["own"]))
        call = collective_call(aligned.traceback_of(fault.event))
        if call:
            calls.setdefault(fault.rank, call)
        sequence = next((fault.event.captures[key] for key in _SEQUENCES if key in fault.event.captures), None)
        signature = " ".join(str(fault.event.captures[key]) for key in _CALL_CAPTURES if key in fault.event.captures)
        if sequence is not None and signature:
            sizes.setdefault(sequence, {}).setdefault(fault.rank, signature)
    for signatures in (own, listed, calls, *(sizes[sequence] for sequence in sorted(sizes, key=str))):
        found = minority(signatures)
        if found is not None:
            return found
    return None


def _listed_shapes(events: Iterable[Event]) -> dict[int, str]:
    """The shape that each process brought, where the text lists them all."""
    shapes: dict[int, str] = {}
    for event in events:
        process = event.captures.get("process")
        if event.name == _PROCESS_SHAPE and isinstance(process, int) and not event.quoted:
            shapes.setdefault(process, str(event.captures.get("shape", "")).strip())
    return shapes


def never_entered(aligned: Aligned, attempt: int | None = None) -> dict[int, Event]:
    """Ranks that had nothing pending when another rank's time-out reached them: all they had enqueued was completed.

    None of them reports a time-out of its own; the event is the line with the counters.
    """
    found: dict[int, Event] = {}
    waited: set[int | None] = set()
    for event in aligned.events:
        if event.quoted or (attempt is not None and event.place.attempt not in (None, attempt)):
            continue
        if event.fault_class == "collective_timeout":
            waited.add(event.place.rank)
        elif event.name == _DUMP_SIGNAL and event.place.rank is not None and "enqueued" in event.captures:
            if event.captures["enqueued"] == event.captures.get("completed"):
                found.setdefault(event.place.rank, event)
            else:
                waited.add(event.place.rank)
    return {rank: event for rank, event in found.items() if rank not in waited} if waited else {}


def _ranks_in(fault: Fault, keys: Iterable[str], world_size: int | None) -> set[int]:
    found: set[int] = set()
    for key in keys:
        value = fault.event.captures.get(key)
        if value is not None and not isinstance(value, bool):
            found.update(int(number) for number in _INTEGERS.findall(str(value)))
    return {rank for rank in found if rank != fault.rank and (world_size is None or rank < world_size)}


def collective_call(traceback: Traceback | None) -> str:
    """The innermost function of torch.distributed in the exception raised first; empty if none stands there."""
    if traceback is None or not traceback.blocks:
        return ""
    inner = [f.function for f in traceback.root.frames if _COLLECTIVES in f.path and f.function not in _WRAPPERS]
    return inner[-1] if inner else ""


def minority(signatures: Mapping[int, str]) -> int | None:
    """The one rank of at least three whose signature differs from that of all others."""
    counted = Counter(signatures.values())
    if len(signatures) < MIN_VOTERS or len(counted) != 2:
        return None
    rare, times = counted.most_common()[-1]
    return next(rank for rank, text in signatures.items() if text == rare) if times == 1 else None
