"""What explains what: the rows of the causal table held against faults, with scope, delay and match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from firstfault.engine.classes import Fault, shape_of
from firstfault.engine.clocks import Clocks, Delay, ran_for_s, started
from firstfault.engine.rank_map import RankMap
from firstfault.knowledge.schema import CausalTable, Explanation

UNCHECKED_START_SLACK_S = 30.0
_TOLD_CLASSES = frozenset({"exit_sigterm", "exit_sigkill", "exit_sighup", "keyboard_interrupt", "dataloader_worker_killed"})
_STOPS = frozenset({"scheduler_stop", "launcher_sigterm"})
_TIMEOUTS = frozenset({"collective_timeout", "store_timeout"})
_REPRESENTATIVES = 32


class Link(msgspec.Struct, frozen=True, eq=False):
    """`effect` is explained by `cause` through a row of the table; `delay` is None where clocks cannot be compared."""

    effect: Fault
    cause: Fault
    row: Explanation
    delay: Delay | None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows are held against, apart from the two faults: clocks, ranks, and who the launcher told to stop."""

    clocks: Clocks
    rank_map: RankMap
    told_ranks: frozenset[int] = frozenset()
    """Ranks of this attempt whose process the launcher itself sent a signal."""
    sole_failing: dict[str | None, int] = {}
    """The one rank of a host that has a fault of its own, where there is exactly one."""


class Index:
    """Faults by label, with the strongest and earliest of a label that can stand for all in a scope wider than a rank."""

    def __init__(self, faults: Iterable[Fault], scene: Scene) -> None:
        self._of_rank: dict[tuple[str, int | None], list[Fault]] = {}
        self._of_host: dict[tuple[str, str | None], list[Fault]] = {}
        self._anywhere: dict[str, list[Fault]] = {}
        ordered = sorted(faults, key=lambda f: (-f.tier, -f.weight, f.rank in scene.told_ranks, *_first_seen(f)))
        for fault in ordered:
            for label in fault.labels:
                self._of_rank.setdefault((label, fault.rank), []).append(fault)
                _append(self._of_host.setdefault((label, fault.host), []), fault)
                _append(self._anywhere.setdefault(label, []), fault)

    def of_rank(self, label: str, rank: int | None) -> Sequence[Fault]:
        """Faults of one rank (None: of no known rank)."""
        return self._of_rank.get((label, rank), ())

    def of_host(self, label: str, host: str | None) -> Iterator[Fault]:
        """Faults of one host and those of no known host; of all hosts if it is unknown."""
        if host is None:
            yield from self.anywhere(label)
            return
        yield from self._of_host.get((label, host), ())
        yield from self._of_host.get((label, None), ())

    def anywhere(self, label: str) -> Sequence[Fault]:
        """Faults of all hosts."""
        return self._anywhere.get(label, ())


def _append(kept: list[Fault], fault: Fault) -> None:
    if len(kept) < _REPRESENTATIVES:
        kept.append(fault)


def link_faults(faults: Sequence[Fault], causal: CausalTable, scene: Scene) -> dict[Fault, Link]:
    """For each fault that something explains, the strongest cause.

    The weakest classes are explained first, and nothing is explained by its own consequence: a cycle is cut at the fault
    whose class has the more initiating prior.
    """
    rows: dict[str, list[Explanation]] = {}
    for row in causal.explains:
        if row.scope not in ("rank", "next_attempt"):
            rows.setdefault(row.b, []).append(row)
    index = Index(faults, scene)
    links: dict[Fault, Link] = {}
    for effect in sorted(faults, key=lambda f: (f.tier, f.weight, f.fault_class, *_first_seen(f))):
        found = [link for row in _rows_of(effect, rows) for link in _links(effect, row, index, scene)]
        found.sort(key=lambda link: (-link.cause.tier, -link.cause.weight, *_first_seen(link.cause)))
        for link in found:
            if not _leads_to(link.cause, effect, links):
                links[effect] = link
                break
    return links


def _rows_of(effect: Fault, rows: dict[str, list[Explanation]]) -> Iterator[Explanation]:
    for label in sorted(effect.labels):
        yield from rows.get(label, ())


def _leads_to(fault: Fault, target: Fault, links: dict[Fault, Link]) -> bool:
    while fault is not target:
        link = links.get(fault)
        if link is None:
            return False
        fault = link.cause
    return True


def _links(effect: Fault, row: Explanation, index: Index, scene: Scene) -> Iterator[Link]:
    for cause in _candidates(effect, row, index):
        if cause is effect or not _in_scope(cause, effect, row, scene) or not _matches(cause, effect, row):
            continue
        allowed, delay = _in_time(cause, effect, row, scene)
        if allowed:
            yield Link(effect, cause, row, delay)


def _candidates(effect: Fault, row: Explanation, index: Index) -> Iterator[Fault]:
    if row.a == "launcher_sigterm" or row.scope == "reports":
        yield from index.of_rank(row.a, effect.rank)
        if effect.rank is not None:
            yield from index.of_rank(row.a, None)
        return
    if row.scope in ("host", "gpu"):
        if effect.rank is not None:
            yield from index.of_rank(row.a, effect.rank)
        yield from index.of_host(row.a, effect.host)
    else:
        yield from index.anywhere(row.a)


def _in_scope(cause: Fault, effect: Fault, row: Explanation, scene: Scene) -> bool:
    # A rank that the launcher stopped because of an earlier failure left because of that failure.
    if row.scope != "gpu" and cause.rank in scene.told_ranks and cause.fault_class in _TOLD_CLASSES:
        return False
    if row.a == row.b == "nccl_error" and _same_complaint(cause, effect):
        return False
    if row.scope in ("group", "job"):
        return True
    if row.scope == "reports":
        return cause.rank is not None and cause.rank == effect.rank
    if not _may_share_host(cause, effect):
        return False
    if row.a == "launcher_sigterm":
        return _was_told(cause, effect, row, scene)
    if row.scope == "gpu" or cause.fault_class == "host_oom_kill":
        return _same_rank_or_only_one(cause, effect, scene)
    return True


def _same_complaint(a: Fault, b: Fault) -> bool:
    # A log that begins too late or ends too soon holds a part of what another rank printed in full.
    if a.event.traceback is None or b.event.traceback is None:
        return shape_of(a.event, None) == shape_of(b.event, None)
    return a.shape.startswith(b.shape) or b.shape.startswith(a.shape)


def _may_share_host(cause: Fault, effect: Fault) -> bool:
    return cause.host is None or effect.host is None or cause.host == effect.host


def _was_told(cause: Fault, effect: Fault, row: Explanation, scene: Scene) -> bool:
    if effect.fault_class == "exit_sigkill" and not _kills(cause):
        # Without its line about the SIGKILL, the launcher's patience shows: it kills who is there half a minute after SIGTERM.
        delay = scene.clocks.delay(cause.event.place, effect.event.place)
        if delay is None or cause.rank is None or row.b != effect.fault_class:
            return False
    return cause.rank == effect.rank if cause.rank is not None else effect.fault_class in _TOLD_CLASSES


def _kills(line: Fault) -> bool:
    captures = line.event.captures
    return captures.get("code") == -9 or "KILL" in str(captures.get("signal", "")) or captures.get("reporter") == "deepspeed"


def _same_rank_or_only_one(cause: Fault, effect: Fault, scene: Scene) -> bool:
    if cause.rank is not None and effect.rank is not None:
        return cause.rank == effect.rank
    known = effect.rank if effect.rank is not None else cause.rank
    pids = {fault.event.captures.get("pid") or fault.event.place.pid for fault in (cause, effect)}
    if cause.kernel and None not in pids and len(pids) > 1 and effect.is_exit:
        return False
    if known is None:
        return True
    host = cause.host or effect.host
    return scene.sole_failing.get(host, known if host is None else None) == known


def _matches(cause: Fault, effect: Fault, row: Explanation) -> bool:
    if "path" not in row.match:
        return True
    a, b = cause.event.captures.get("path"), effect.event.captures.get("path")
    return a is None or b is None or a == b


def _in_time(cause: Fault, effect: Fault, row: Explanation, scene: Scene) -> tuple[bool, Delay | None]:
    delay = scene.clocks.delay(cause.event.place, effect.event.place)
    if row.scope == "reports":
        return True, None
    if delay is None:
        return _in_order(cause, effect), None
    late = row.max_delay_s
    if late is not None and row.after_timeout:
        waited = ran_for_s(effect.event)
        late = None if waited is None else late + waited
    # The grace that a row allows runs from SIGTERM; the line about SIGKILL stands at its end.
    early = 0.0 if row.a == "launcher_sigterm" and _kills(cause) else row.min_delay_s
    if effect.fault_class in _TIMEOUTS and ran_for_s(effect.event) is not None:
        # Only the rank that failed before the wait began is the one that was waited for.
        begun = scene.clocks.delay(cause.event.place, started(effect.event))
        if begun is not None and begun.seconds < -UNCHECKED_START_SLACK_S - begun.error_s:
            return False, delay
    fits = (early is None or delay.seconds >= early - delay.error_s) and (late is None or delay.seconds <= late + delay.error_s)
    return fits, delay


def _in_order(cause: Fault, effect: Fault) -> bool:
    """Without clocks, the order in one source decides whether an own failure follows a stop from outside.

    A launcher that stops its ranks does so because of a failure: an exception of unknown time is then never its consequence.
    """
    if effect.fault_class == "step_teardown" and cause.fault_class in _TOLD_CLASSES:
        # What a step's end stopped is named below it; a task that was killed before stands above.
        return cause.event.source_id != effect.event.source_id or cause.event.span.offset <= effect.event.span.offset
    if cause.fault_class not in _STOPS or effect.fault_class in _TOLD_CLASSES or effect.tier < 2:
        return True
    if cause.fault_class == "launcher_sigterm" and not effect.is_exit:
        return False
    return cause.event.source_id != effect.event.source_id or cause.event.span.offset <= effect.event.span.offset


def _first_seen(fault: Fault) -> tuple[float, int, str]:
    clock = fault.event.place.time
    return clock.seconds if clock is not None else float("inf"), fault.event.span.offset, fault.event.span.source
