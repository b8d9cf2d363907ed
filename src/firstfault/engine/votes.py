"""Which rank the others point at: named in their texts, behind a closed address, or alone with another call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.model.event import Event, Traceback

_NAMED = ("named_rank", "ranks", "waits_for", "other_rank")
_INTEGERS = re.compile(r"\d{1,7}")
_COLLECTIVES = "torch/distributed/distributed_c10d.py"
_WRAPPERS = frozenset({"wrapper", "inner", "decorate_context"})
_CALL_CAPTURES = ("op", "numel_in", "numel_out")
_SEQUENCES = ("seq",)
MIN_VOTERS = 3


def named_rank(faults: Iterable[Fault], world_size: int | None = None) -> int | None:
    """The rank that the texts of the others name.

    A rank that is named and itself names another passes the vote on; where two name each other, the rank with more votes
    counts. Two ranks that only name each other decide nothing.
    """
    naming: dict[int, set[int]] = {}
    for fault in faults:
        names = {rank for rank in _named(fault.event) if rank != fault.rank and (world_size is None or rank < world_size)}
        if fault.rank is not None and names:
            naming.setdefault(fault.rank, set()).update(names)
    votes: Counter[int] = Counter()
    for voter, names in naming.items():
        for name in names:
            votes[_followed(voter, name, naming)] += 1
    ranked = votes.most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def odd_one_out(aligned: Aligned, faults: Iterable[Fault]) -> int | None:
    """The one rank whose pending collective differs from that of all the others: by function, or by operation and sizes."""
    calls: dict[int, str] = {}
    sizes: dict[object, dict[int, str]] = {}
    for fault in faults:
        if fault.rank is None:
            continue
        call = _collective_call(aligned.traceback_of(fault.event))
        if call:
            calls.setdefault(fault.rank, call)
        sequence = next((fault.event.captures[key] for key in _SEQUENCES if key in fault.event.captures), None)
        signature = " ".join(str(fault.event.captures[key]) for key in _CALL_CAPTURES if key in fault.event.captures)
        if sequence is not None and signature:
            sizes.setdefault(sequence, {}).setdefault(fault.rank, signature)
    for signatures in (calls, *(sizes[sequence] for sequence in sorted(sizes, key=str))):
        found = _minority(signatures)
        if found is not None:
            return found
    return None


def _named(event: Event) -> set[int]:
    found: set[int] = set()
    for key in _NAMED:
        value = event.captures.get(key)
        if value is not None and not isinstance(value, bool):
            found.update(int(number) for number in _INTEGERS.findall(str(value)))
    return found


def _followed(voter: int, name: int, naming: Mapping[int, set[int]]) -> int:
    """`check rank 0 logs` counts for the rank that rank 0 names, unless that points back."""
    seen = {voter, name}
    while len(naming.get(name, ())) == 1:
        (following,) = naming[name]
        if following in seen or name in naming.get(following, ()):
            break
        seen.add(following)
        name = following
    return name


def _collective_call(traceback: Traceback | None) -> str:
    if traceback is None or not traceback.blocks:
        return ""
    inner = [f.function for f in traceback.root.frames if _COLLECTIVES in f.path and f.function not in _WRAPPERS]
    return inner[-1] if inner else ""


def _minority(signatures: Mapping[int, str]) -> int | None:
    counted = Counter(signatures.values())
    if len(signatures) < MIN_VOTERS or len(counted) != 2:
        return None
    rare, times = counted.most_common()[-1]
    return next(rank for rank, text in signatures.items() if text == rare) if times == 1 else None
