"""Hosts and their slots: the hostfile of DeepSpeed, and its `--include` and `--exclude`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from firstfault.launch.stop import stop

MAX_HOSTS = 10_000
MAX_SLOTS = 1_024

Slots = dict[str, list[int]]

_ENTRY = re.compile(r"^(\S{1,253})\s+slots=(\d{1,6})")


def read_hostfile(text: str) -> dict[str, int]:
    """Slots by host, in the order of the file; raises `Stop` with the text of DeepSpeed's own error."""
    found: dict[str, int] = {}
    for raw in text.splitlines()[:MAX_HOSTS]:
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        entry = _ENTRY.search(line)
        if entry is None:
            raise stop("ValueError", f"Hostfile contains a bad entry: {line}, unable to proceed with launching")
        if entry[1] in found:
            message = f"Hostfile contains multiple entries for {entry[1]}, unable to proceed with launching"
            raise stop("ValueError", message)
        found[entry[1]] = int(entry[2])
    if not found:
        raise stop("ValueError", "Hostfile is empty or not formatted correctly, unable to proceed with launching.")
    return found


def filter_hosts(pool: Mapping[str, int], include: str, exclude: str) -> Slots:
    """The slots that are used of each host. A slot named by `--include` is taken to exist, as DeepSpeed does."""
    named = _parse(include)
    active = {host: named.get(host, list(range(min(slots, MAX_SLOTS)))) for host, slots in pool.items()}
    if include and exclude:
        raise stop("ValueError", "include_str and exclude_str are mutually exclusive.")
    if not include and not exclude:
        return active
    chosen: Slots = {} if include else {host: list(slots) for host, slots in active.items()}
    for host, slots in _parse(include or exclude).items():
        if host not in active:
            raise stop("ValueError", f"Hostname '{host}' not found in hostfile")
        for slot in slots:
            if slot not in active[host]:
                raise stop("ValueError", f"No slot '{slot}' specified on host '{host}'")
        if include:
            chosen[host] = slots or active[host]
        else:
            chosen[host] = [slot for slot in chosen[host] if slot not in slots] if slots else []
    return {host: list(dict.fromkeys(chosen[host])) for host in active if chosen.get(host)}


def _parse(text: str) -> Slots:
    """`worker-0@worker-1:0,2`: no slots stand for all of a host's."""
    found: dict[str, set[int]] = {}
    for part in text.split("@")[:MAX_HOSTS]:
        pieces = part.split(":")
        if len(pieces) > 2:
            raise stop("ValueError", "too many values to unpack (expected 2)")
        slots = found.setdefault(pieces[0], set())
        try:
            slots.update(int(slot) for slot in pieces[1].split(",")[:MAX_SLOTS]) if len(pieces) == 2 else None
        except ValueError as error:
            raise stop("ValueError", str(error)) from error
    return {host: sorted(slots) for host, slots in found.items()}
