"""What the stacks of many live processes say of a hang: who waits in a collective, and who stands elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from firstfault.engine.rank_map import RankMap
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import Bundle
from firstfault.model.event import Event, Frame
from firstfault.model.span import SourceSpan
from firstfault.model.stack import ProcessStack

WAIT_EVENT = "hang.waits_in_collective"
ELSEWHERE_EVENT = "hang.stands_elsewhere"
MIN_VOTERS = 3
_SEEN_LIVE = frozenset({"py-spy", "faulthandler", "pystack"})
_INTO_PACKAGES = lazy_pattern(r"^.*/(?:site-packages|dist-packages|lib/python3[.\d]*)/")
# Where a rank stands that waits for its peers: in a collective itself, or where Python meets the GPU that executes one.
_COLLECTIVES = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/_functional_collectives.py",
    "torch/distributed/nn/",
)
_WRAPPERS = frozenset({"wrapper", "inner", "decorate_context"})
_BEHIND_THE_GPU = (
    ("torch/cuda/__init__.py", "synchronize"),
    ("torch/cuda/streams.py", "synchronize"),
    ("torch/autograd/graph.py", "_engine_run_backward"),
    ("torch/autograd/__init__.py", "backward"),
)
_NO_RANK = (
    *("torch/distributed/run.py", "torch/distributed/launcher/", "torch/distributed/elastic/agent/"),
    *("accelerate/commands/", "deepspeed/launcher/", "torch/_inductor/compile_worker/", "multiprocessing/resource_tracker.py"),
)
_DATA_WORKER = "torch/utils/data/_utils/worker.py"

Key = tuple[int | None, str | None, int | None]
"""A rank; where it is unknown, a host and a pid."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where one rank's main thread stands. `call` is its collective, `gpu` where it waits for the device; else both empty.

    `helpers` are the stacks of its data workers.
    """

    stack: ProcessStack
    frames: tuple[Frame, ...]
    call: str = ""
    gpu: str = ""
    helpers: tuple[ProcessStack, ...] = ()

    @property
    def site(self) -> tuple[str, int, str]:
        """The innermost line of the script or of a library that led there: path, line, function."""
        own = [frame for frame in self.frames if not _is_torch(frame)]
        frame = own[-1] if own else self.frames[-1]
        return package_path(frame.path), frame.line, frame.function


class StackVote(msgspec.Struct, frozen=True, kw_only=True):
    """`waiting` and `elsewhere` by process. Nobody stands elsewhere if the stacks do not decide.

    `call` is the collective in which most wait; `differs` is true if those elsewhere wait as well, but in another call.
    """

    waiting: Mapping[Key, Standing]
    elsewhere: Mapping[Key, Standing]
    call: str = ""
    differs: bool = False
    moved: bool = False

    @property
    def seen(self) -> int:
        """How many processes' stacks were read."""
        return len(self.waiting) + len(self.elsewhere)


class OddSite(msgspec.Struct, frozen=True, kw_only=True):
    """The one rank whose pending call was made at another line than that of all others, as the watchdogs print it."""

    rank: int
    says: str
    spans: tuple[SourceSpan, ...]


def package_path(path: str) -> str:
    """A frame's path from its package on, as py-spy prints it."""
    return _INTO_PACKAGES.sub("", path.replace("\\", "/"))


def vote_of_stacks(bundle: Bundle, ranks: RankMap, attempt: int | None = None) -> StackVote:
    """Compare where the main threads of all ranks stand, each by its latest stack."""
    series = _series(bundle, ranks, attempt)
    latest = {key: standings[-1] for key, standings in series.items()}
    if _has_moved(series):
        return StackVote(waiting=latest, elsewhere={}, moved=True)
    calls = {key: standing.call for key, standing in latest.items() if standing.call}
    if calls:
        return _by_call(latest, calls)
    gpu = {key: standing for key, standing in latest.items() if standing.gpu}
    if len(gpu) >= MIN_VOTERS - 1 and 0 < len(latest) - len(gpu) < len(gpu):
        # All that is seen of a stream of NCCL kernels is who waits for the device.
        return StackVote(waiting=gpu, elsewhere={k: s for k, s in latest.items() if k not in gpu})
    return StackVote(waiting=latest, elsewhere={})


def odd_call_site(bundle: Bundle, ranks: RankMap, attempt: int | None = None) -> OddSite | None:
    """Whose stuck collective was called elsewhere; None if all agree, or if two or more differ."""
    sites: dict[int, Standing] = {}
    for stack in _placed(bundle, ranks):
        place, main = stack.place, stack.main
        if stack.tool == "watchdog" and main is not None and place.rank is not None and (attempt in (None, place.attempt)):
            sites.setdefault(place.rank, _standing(stack, main.frames, ()))
    counted = Counter(standing.site for standing in sites.values())
    if len(sites) < MIN_VOTERS or len(counted) != 2 or counted.most_common()[-1][1] != 1:
        return None
    common, rare = (site for site, _ in counted.most_common())
    rank = next(rank for rank, standing in sites.items() if standing.site == rare)
    other = next(standing for standing in sites.values() if standing.site == common)
    says = f"rank {rank} called it in {rare[2]} ({rare[0]}:{rare[1]}), all others in {common[2]} ({common[0]}:{common[1]})"
    return OddSite(rank=rank, says=says, spans=(sites[rank].frames[-1].span, other.frames[-1].span))


def waiting_sites(bundle: Bundle, ranks: RankMap) -> Iterator[tuple[int | None, str, SourceSpan]]:
    """The rank, the line of the script and its place for each process that waits, by its live stack or its watchdog's."""
    vote = vote_of_stacks(bundle, ranks)
    waiting = [standing for standing in vote.waiting.values() if vote.elsewhere]
    for stack in _placed(bundle, ranks) if not waiting else ():
        if stack.tool == "watchdog" and stack.main is not None:
            waiting.append(_standing(stack, stack.main.frames, ()))
    for standing in waiting:
        path, line, function = standing.site
        span = next(frame.span for frame in standing.frames if package_path(frame.path) == path and frame.line == line)
        yield standing.stack.place.rank, f"{path.rpartition('/')[2]}:{line} in {function}", span


def wait_events(bundle: Bundle, ranks: RankMap) -> Iterator[Event]:
    """A wait for each process that stands in a collective, where another one is seen to stand elsewhere; and that one."""
    vote = vote_of_stacks(bundle, ranks)
    if not vote.elsewhere:
        return
    for standing in vote.waiting.values():
        yield _event(standing, WAIT_EVENT, f"waits in {standing.call or standing.gpu}", waits=True)
    for standing in vote.elsewhere.values():
        does = f"waits in {standing.call}" if standing.call else f"stands in {standing.frames[-1].function}"
        yield _event(standing, ELSEWHERE_EVENT, does, waits=False)


def _event(standing: Standing, name: str, does: str, *, waits: bool) -> Event:
    path, line, function = standing.site
    return Event(
        name=name,
        signal="",
        role="collateral" if waits else "context",
        fault_class="collective_timeout" if waits else None,
        span=standing.frames[-1].span,
        text=f"{does} called by {function} ({path}:{line})" if standing.frames[-1].line != line else f"{does} ({path}:{line})",
        place=standing.stack.place,
        source_id=standing.stack.source_id,
    )


def _by_call(latest: Mapping[Key, Standing], calls: Mapping[Key, str]) -> StackVote:
    # Who waits for the device may have entered a collective on it: neither a suspect nor a witness of another one.
    outside = {key: standing for key, standing in latest.items() if not standing.call and not standing.gpu}
    waiting = {key: standing for key, standing in latest.items() if key not in outside}
    counted = Counter(calls.values()).most_common(2)
    if outside:
        fits = len(outside) < len(waiting) or len(latest) == MIN_VOTERS - 1
        return StackVote(waiting=waiting, elsewhere=outside if fits else {}, call=counted[0][0])
    if len(counted) == 2 and len(calls) >= MIN_VOTERS and counted[0][1] > counted[1][1]:
        odd = {key: latest[key] for key, call in calls.items() if call != counted[0][0]}
        if len(odd) == 1:
            rest = {key: standing for key, standing in latest.items() if key not in odd}
            return StackVote(waiting=rest, elsewhere=odd, call=counted[0][0], differs=True)
    return StackVote(waiting=waiting, elsewhere={}, call=counted[0][0] if len(counted) == 1 else "")


def _series(bundle: Bundle, ranks: RankMap, attempt: int | None) -> dict[Key, list[Standing]]:
    stacks = [stack for stack in _placed(bundle, ranks) if attempt is None or stack.place.attempt in (None, attempt)]
    helpers: dict[int, list[ProcessStack]] = {}
    for stack in stacks:
        if stack.parent_pid is not None:
            helpers.setdefault(stack.parent_pid, []).append(stack)
    found: dict[Key, list[Standing]] = {}
    for number, stack in enumerate(stacks):
        main = stack.main
        if main is None or stack.parent_pid is not None or stack.crashed or stack.tool not in _SEEN_LIVE:
            continue
        if any(_is_helper(frame) for frame in main.frames):
            continue
        place = stack.place
        unknown = place.rank is None and place.pid is None
        # Without a rank and a pid each stack is a process of its own.
        key = (place.rank, None, None) if place.rank is not None else (None, place.host, -1 - number if unknown else place.pid)
        own = tuple(helpers.get(place.pid, ())) if place.pid is not None else ()
        found.setdefault(key, []).append(_standing(stack, main.frames, own))
    return found


def _placed(bundle: Bundle, ranks: RankMap) -> Iterator[ProcessStack]:
    for report in bundle.reports:
        source = ranks.source_place(report)
        for stack in report.stacks:
            place = stack.place
            if place.rank is None and place.local_rank is None:
                place = replace(place, rank=source.rank, local_rank=source.local_rank)
            if place.attempt is None:
                place = replace(place, attempt=source.attempt)
            yield replace(stack, place=ranks.complete(replace(place, host=place.host or source.host)))


def _standing(stack: ProcessStack, frames: tuple[Frame, ...], helpers: tuple[ProcessStack, ...]) -> Standing:
    waits = {(package_path(frame.path), frame.function.rpartition(".")[2]) for frame in frames}
    gpu = next((function for path, function in _BEHIND_THE_GPU if (path, function) in waits), "")
    call = _call(frames)
    if not call and gpu:
        # Hooks of the backward pass call collectives on a thread of autograd.
        call = next((found for thread in stack.threads if (found := _call(thread.frames))), "")
    return Standing(stack=stack, frames=frames, call=call, gpu=gpu, helpers=helpers)


def _call(frames: Iterable[Frame]) -> str:
    """The innermost function of torch.distributed among the frames."""
    names = [frame.function.rpartition(".")[2] for frame in frames if package_path(frame.path).startswith(_COLLECTIVES)]
    return next((name for name in reversed(names) if name not in _WRAPPERS), "")


def _is_helper(frame: Frame) -> bool:
    path = package_path(frame.path)
    return path.startswith(_NO_RANK) or path == _DATA_WORKER


def _is_torch(frame: Frame) -> bool:
    path = package_path(frame.path)
    return path.startswith(("torch/", "<frozen"))


def _has_moved(series: Mapping[Key, list[Standing]]) -> bool:
    """True if most of the processes that were looked at twice stood somewhere else the second time: they make progress."""
    twice = [standings for standings in series.values() if len(standings) > 1]
    moved = [s for s in twice if _where(s[-1].frames) != _where(s[0].frames)]
    return bool(twice) and 2 * len(moved) > len(twice)


def _where(frames: Iterable[Frame]) -> tuple[tuple[str, int, str], ...]:
    # py-spy names the class of a method, faulthandler does not; both print the innermost line of each frame.
    return tuple((package_path(frame.path), frame.line, frame.function.rpartition(".")[2]) for frame in frames)
