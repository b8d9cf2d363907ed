"""Which GPUs a process sees: the list of CUDA_VISIBLE_DEVICES as CUDA and torch read it."""

from __future__ import annotations

from firstfault.launch.expansion import holds_unknown
from firstfault.lazy_pattern import lazy_pattern

MAX_DEVICES = 1_024

_NUMBER = lazy_pattern(r"[+-]?[0-9]{1,9}")


def visible_devices(text: str | None, gpus: int | None) -> tuple[str, ...] | None:
    """The ids of the GPUs that are visible with this value of the variable on a machine of `gpus`; None if that is unknown.

    As torch reads it (torch/cuda/__init__.py `_parse_visible_devices`): the list ends at the first entry that is no GPU of
    the machine, a doubled entry voids it, digits count up to the first other character. Without a count every id is
    taken to exist. Of MIG instances CUDA enumerates one.
    """
    if gpus == 0:
        return ()
    if text is None:
        return None if gpus is None else tuple(str(index) for index in range(min(gpus, MAX_DEVICES)))
    if text == "*" or holds_unknown(text):
        return None
    entries = text.split(",", MAX_DEVICES)[:MAX_DEVICES]
    if text.startswith(("GPU-", "MIG-")):
        return _by_name(entries, text[:4], gpus)
    return _by_number(entries, gpus)


def _by_name(entries: list[str], prefix: str, gpus: int | None) -> tuple[str, ...]:
    found: list[str] = []
    for entry in entries:
        if entry in found:
            return ()
        if not entry.startswith(prefix) or (gpus is not None and len(found) >= gpus):
            break
        found.append(entry)
    return tuple(found[:1] if prefix == "MIG-" else found)


def _by_number(entries: list[str], gpus: int | None) -> tuple[str, ...]:
    """Ordinals; a repetition counts even behind an id that the machine does not have, since torch reads the list first."""
    listed: list[int] = []
    for entry in entries:
        number = _NUMBER.match(entry.strip())
        index = int(number[0]) if number else -1
        if index in listed:
            return ()
        if index < 0:
            break
        listed.append(index)
    found: list[str] = []
    for index in listed:
        if gpus is not None and index >= gpus:
            break
        found.append(str(index))
    return tuple(found)
