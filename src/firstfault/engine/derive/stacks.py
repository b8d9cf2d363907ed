"""What was asked of the processes while they hung: the rank that did not arrive, that it lived, and what it was doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.engine.derive.activity_table import activity_of_frames
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.derive.scope import Scope
    from firstfault.engine.stack_votes import StackVote, Standing
    from firstfault.model.event import Frame
    from firstfault.model.fact import FactSet, FactValue
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "hang.stack_outlier",
    "hang.ras_behind",
    "hang.alive",
    "collective.suspect_kind",
    "collective.suspect_alive",
    "collective.suspect_activity",
    "collective.op_differs",
    "collective.minority_rank",
    "collective.in_generate",
)
_LIBRARIES = (
    *("threading.py", "selectors.py", "queue.py", "socket.py", "ssl.py", "subprocess.py", "multiprocessing/", "asyncio/"),
    *("torch/", "datasets/", "transformers/", "pyarrow/", "h5py/", "webdataset/", "fsspec/", "wandb/", "triton/", "mlflow/"),
)
_INSTALLED = "/site-packages/"


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the stacks, where the main threads of several ranks were seen, and of the answers of RAS."""
    reports = scope.aligned.bundle.reports
    if any(report.stacks for report in reports):
        yield from _of_stacks(scope)
    if any(report.ras for report in reports):
        yield from _of_ras(scope)


def _of_ras(scope: Scope) -> Iterator[Fact]:
    """Two answers of RAS compared; one alone says nothing, unless a process no longer answers."""
    from firstfault.engine.ras_votes import vote_of_ras

    vote = vote_of_ras(scope.aligned.bundle, scope.aligned.rank_map)
    if vote is None:
        return
    if vote.mismatch:
        yield _fact("hang.alive", True, "NCCL's RAS service answers, and finds a difference", vote.spans)
    if not (vote.settled or vote.dead):
        return
    if vote.dead:
        yield _fact("collective.suspect_kind", "crashed", vote.says, vote.spans)
        return
    yield _fact("hang.ras_behind", bool(vote.op), vote.says if vote.op else "no rank stays behind in two answers", vote.spans)
    if vote.op:
        yield _fact("collective.suspect_kind", "behind", vote.says, vote.spans)
        yield _fact("collective.suspect_alive", True, "its RAS thread answers", vote.spans)


def _of_stacks(scope: Scope) -> Iterator[Fact]:
    from firstfault.engine.stack_votes import odd_call_site, vote_of_stacks

    vote = vote_of_stacks(scope.aligned.bundle, scope.aligned.rank_map, scope.attempt)
    if not vote.elsewhere:
        suspect = vote.waiting.get((scope.attribution.rank, None, None)) if scope.attribution.suspects else None
        if suspect is not None and not suspect.call:
            # Others show that they wait for it: its own stack says what it does instead.
            yield from _activity(suspect)
        site = odd_call_site(scope.aligned.bundle, scope.aligned.rank_map, scope.attempt)
        if site is not None:
            yield _fact("collective.suspect_kind", "divergent", site.says, site.spans)
            yield _fact("collective.minority_rank", site.rank, site.says, site.spans)
        if vote.seen > 1:
            spans = tuple(standing.frames[-1].span for standing in vote.waiting.values())[:4]
            yield _fact("hang.stack_outlier", False, _nobody(vote), spans)
        return
    odd = next(iter(vote.elsewhere.values()))
    span = odd.frames[-1].span
    where = _place(odd)
    waiting = next(iter(vote.waiting.values()))
    yield _fact("hang.stack_outlier", True, f"{where} stands elsewhere than the {len(vote.waiting)} that wait", (span,))
    yield _fact("collective.suspect_alive", True, "its stack was taken while it lived", (span,))
    if vote.differs:
        origin = f"{where} waits in {odd.call}, all others in {vote.call}"
        yield _fact("collective.op_differs", True, origin, (span, waiting.frames[-1].span))
        yield _fact("collective.suspect_kind", "divergent", origin, (span,))
        return
    origin = f"{where} had not entered {vote.call or 'what the others wait for'}: it stands in {odd.frames[-1].function}"
    yield _fact("collective.suspect_kind", "never_entered", origin, (span,))
    yield from _activity(odd)
    generating = next((frame for frame in waiting.frames if _generates(frame)), None)
    yield _fact("collective.in_generate", generating is not None, "the stack of a rank that waits", (waiting.frames[-1].span,))


def _activity(odd: Standing) -> Iterator[Fact]:
    own = activity_of_frames(_as_installed(odd.frames))
    for helper in odd.helpers:
        if own == "read" and helper.main is not None:
            span = helper.main.frames[-1].span
            origin = f"its data worker stands in {helper.main.frames[-1].function}"
            yield _fact("collective.suspect_activity", own, origin, (odd.frames[-1].span, span))
            return
    path, line, function = odd.site
    yield _fact(
        "collective.suspect_activity", own or "own_code", f"its stack: {function} ({path}:{line})", (odd.frames[-1].span,)
    )


def _as_installed(frames: Sequence[Frame]) -> list[Frame]:
    """py-spy prints paths from the package on: what is known to be a library is written like one."""
    return [replace(frame, path=_INSTALLED + frame.path) if frame.path.startswith(_LIBRARIES) else frame for frame in frames]


def _generates(frame: Frame) -> bool:
    from firstfault.engine.stack_votes import package_path

    return frame.function.rpartition(".")[2] == "generate" or package_path(frame.path).startswith("transformers/generation/")


def _nobody(vote: StackVote) -> str:
    if vote.moved:
        return "the processes stood somewhere else in their second stack: they make progress"
    call = f" in {vote.call}" if vote.call else ""
    return f"no one of the {vote.seen} processes stands out{call}"


def _place(standing: Standing) -> str:
    place = standing.stack.place
    return f"rank {place.rank}" if place.rank is not None else f"process {place.pid}" if place.pid else "one process"


def _fact(name: str, value: FactValue, origin: str, spans: tuple[SourceSpan, ...]) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=spans, basis="derived")
