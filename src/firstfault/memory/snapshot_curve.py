"""The curve of a snapshot: bytes by call site over time, for the sites that hold most."""

from __future__ import annotations

from firstfault.ingest.memory_snapshot_frames import Stacks
from firstfault.ingest.memory_snapshot_replay import Replay
from firstfault.ingest.memory_snapshot_timeline import Point
from firstfault.model.memory_report import Curve

MAX_LAYERS = 10
STEADY_LAYERS = 6


def curve_of(replay: Replay, reserved_before: int | None, stacks: Stacks) -> Curve:
    """At most 2,000 points; the layers are the sites that hold most, over all or at the peak, the steadiest at the bottom."""
    points = replay.timeline.points
    if not points:
        return Curve()
    by_point = [_sites(point, replay) for point in points]
    most: dict[int, int] = {}
    for sites in by_point:
        for site, size in sites.items():
            most[site] = max(most.get(site, 0), size)
    area: dict[int, int] = {}
    for sites in by_point:
        for site, size in sites.items():
            area[site] = area.get(site, 0) + size
    peak = by_point[max(range(len(points)), key=lambda index: points[index].total)]
    # Those that hold most all the time, then those that make the peak.
    ranked = [*sorted(area, key=lambda site: -area[site])[:STEADY_LAYERS], *sorted(peak, key=lambda site: -peak[site])]
    chosen = [site for site in dict.fromkeys(ranked) if most[site] > 0][:MAX_LAYERS]
    chosen.sort(key=lambda site: (-min(sites.get(site, 0) for sites in by_point[len(by_point) // 4 :]), -most[site]))
    base = sum(replay.base.values())
    timed = all(point.time_us for point in points)
    return Curve(
        events=tuple(point.event for point in points),
        after_s=tuple((point.time_us - replay.first_us) / 1e6 for point in points) if timed else None,
        total_bytes=tuple(point.total + base for point in points),
        high_bytes=tuple(point.high + base for point in points),
        reserved_bytes=() if reserved_before is None else tuple(point.reserved + reserved_before for point in points),
        sites=tuple(stacks.sites[site] for site in chosen),
        layers=tuple(tuple(max(0, sites.get(site, 0)) for sites in by_point) for site in chosen),
    )


def _sites(point: Point, replay: Replay) -> dict[int, int]:
    sites = dict(replay.base)
    for site, size in zip(point.sites, point.sizes, strict=True):
        sites[site] = sites.get(site, 0) + size
    return sites
