"""Every consequence with the fault it comes from in the end, and one plain sentence about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from firstfault.engine.causes import Link
from firstfault.engine.classes import Fault
from firstfault.engine.streams import Stream
from firstfault.engine.wording import subject, why_consequence, why_follower

_Key = tuple[object, str]


class Consequence(msgspec.Struct, frozen=True, eq=False):
    """`effect` comes from `cause`: through a row of the table (`link`), or because `head` came before it on its rank."""

    effect: Fault
    cause: Fault
    link: Link | None = None
    head: Fault | None = None


def followers(streams: Iterable[Stream]) -> list[Consequence]:
    """The later errors of each rank, which follow from its first one."""
    return [Consequence(fault, stream.head, head=stream.head) for stream in streams for fault in stream.followers]


def explain_all(consequences: Sequence[Consequence]) -> tuple[tuple[Fault, Fault, str], ...]:
    """(effect, root, sentence) of each consequence, its cause followed to the end."""
    causes = {_key(one.effect): one.cause for one in consequences}
    out = []
    for one in consequences:
        root = _root(one.cause, causes)
        if _key(root) != _key(one.effect):
            out.append((one.effect, root, _sentence(one, root)))
    return tuple(out)


def _key(fault: Fault) -> _Key:
    return fault.event.span, fault.fault_class


def _root(fault: Fault, causes: dict[_Key, Fault]) -> Fault:
    seen = {_key(fault)}
    while (cause := causes.get(_key(fault))) is not None and _key(cause) not in seen:
        fault = cause
        seen.add(_key(fault))
    return fault


def _sentence(one: Consequence, root: Fault) -> str:
    if one.effect.event.place.attempt != root.event.place.attempt:
        return f"the attempt before had just failed: {subject(root)}"
    if one.head is not None:
        return why_follower(one.head, root)
    if one.link is None and one.effect.rank is not None and one.effect.rank == root.rank:
        return why_follower(root, root)
    return why_consequence(one.effect, root, one.link)
