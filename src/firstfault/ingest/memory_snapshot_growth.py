"""Call sites of a snapshot that keep more and more, from the least that each held in every stretch of the trace."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from firstfault.ingest.memory_series import rises
from firstfault.ingest.memory_snapshot_frames import BEFORE, Stacks
from firstfault.model.memory_report import Growth

MAX_GROWING = 8
WARM_UP_SHARE = 0.2
"""The first part of a trace, where weights and optimizer state come into being, counts for no growth."""


def growth_of(lows: Sequence[array[int]], steps: int, stacks: Stacks) -> tuple[Growth, ...]:
    """The sites whose least use rises steadily, the fastest first; a step's share where the steps were counted."""
    late = lows[int(len(lows) * WARM_UP_SHARE) :]
    if len(late) < 2:
        return ()
    passed = steps * (len(late) - 1) / len(lows)
    found = []
    for site in range(len(late[-1])):
        values = [low[site] if site < len(low) else 0 for low in late]
        if site == BEFORE or values[-1] <= values[0] or not rises(values):
            continue
        rise = values[-1] - values[0]
        found.append(
            Growth(
                site=stacks.sites[site],
                first_bytes=values[0],
                last_bytes=values[-1],
                per_step_bytes=round(rise / passed) if passed >= 2 else None,
            )
        )
    found.sort(key=lambda growth: growth.first_bytes - growth.last_bytes)
    return tuple(found[:MAX_GROWING])
