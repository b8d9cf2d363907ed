"""What the frames of the initiating exception say: the part of the run, the activity that allocated, the code that asked.

Two questions hide in "phase". `fault.stage` is the outer loop (training, evaluation, saving): the outermost frame that says it
wins. `oom.phase` is the innermost activity that allocated: an evaluation runs a forward pass too. Frames decide; the number of
the step decides nothing. Where the inner side of the traceback was cut, phase and consumer stay unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.derive import frame_table as table
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.derive.frame_table import Row
    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Frame
    from firstfault.model.fact import FactSet

PRODUCES = (
    "fault.stage",
    "exc.calls_more",
    "exc.root_type",
    "exc.site",
    "exc.key_is_field",
    "oom.phase",
    "oom.consumer",
)
_MEMORY_CLASSES = frozenset({"device_oom", "host_allocation_failed"})
_IMPORT_TYPES = frozenset({"ImportError", "ModuleNotFoundError"})
_INTEGER = lazy_pattern(r"-?[0-9]+\Z")


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the traceback of the initiating event; nothing without one."""
    block = scope.block
    if block is None:
        return
    if block.type:
        yield Fact(name="exc.root_type", value=_last_part(block.type), origin="the exception raised first", spans=(block.span,))
    yield Fact(name="exc.calls_more", value=scope.whole, origin="the traceback's header and frames", spans=(block.span,))
    yield from _stage(scope.frames)
    yield from _site(scope)
    if scope.attribution.fault_class in _MEMORY_CLASSES and scope.inner_side_whole:
        yield from _allocation(scope.frames)


def library_path(path: str) -> str:
    """The part of a path that is the same on every machine: from `site-packages` on."""
    forward = path.replace("\\", "/")
    for marker in ("/site-packages/", "/dist-packages/"):
        if marker in forward:
            return forward.rsplit(marker, 1)[1]
    return forward


def is_library(path: str) -> bool:
    """True for a frame of an installed package or of Python itself, not of the user's own code."""
    forward = path.replace("\\", "/")
    return "/site-packages/" in forward or "/dist-packages/" in forward or "/lib/python3" in forward or forward.startswith("<")


def _matches(row: Row, frame: Frame) -> bool:
    if row.code not in frame.code or not _is_one_of(frame.function, row.function):
        return False
    path = f"/{library_path(frame.path)}"
    return not row.path or any(_stands_in(part, path) for part in row.path.split("|"))


def _stands_in(part: str, path: str) -> bool:
    return _is_like(path, f"*/{part}*") if "*" in part else f"/{part}" in path


def _is_like(text: str, pattern: str) -> bool:
    """True if `text` is the pieces of `pattern` in order, with any characters, empty ones too, where `*` stands."""
    # Half a hundred patterns, each held against a few short names: searching costs less than compiling expressions.
    first, *middle, last = pattern.split("*")
    if not text.startswith(first):
        return False
    position = len(first)
    for piece in middle:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return text.endswith(last) and position + len(last) <= len(text)


def _is_one_of(function: str, names: str) -> bool:
    if not names:
        return True
    return any(_is_like(function, name) if "*" in name else function == name for name in names.split("|"))


def _any(rows: Sequence[Row], frame: Frame) -> bool:
    return any(_matches(row, frame) for row in rows)


def _stage(frames: Sequence[Frame]) -> Iterator[Fact]:
    for frame in frames:
        for row in table.STAGE:
            if _matches(row, frame):
                yield Fact(name="fault.stage", value=row.means, origin=f"frame {frame.function}", spans=(frame.span,))
                return


def _site(scope: Scope) -> Iterator[Fact]:
    block = scope.block
    if block is None:
        return
    found = _found_site(scope)
    if found is None:
        return
    site, frame = found
    spans = (frame.span,) if frame else (block.span,)
    yield Fact(name="exc.site", value=site, origin=f"frame {frame.function}" if frame else "the exception's type", spans=spans)
    if _last_part(block.type) == "KeyError":
        key = block.message.strip()
        is_field = site in {"dataset", "collate", "batch_prepare"} and not _INTEGER.match(key)
        yield Fact(name="exc.key_is_field", value=is_field, origin=f"KeyError in {site}", spans=spans, basis="derived")


def _found_site(scope: Scope) -> tuple[str, Frame | None] | None:
    block = scope.block
    if block is not None and _last_part(block.type) in _IMPORT_TYPES:
        return "import", None
    for frame in reversed(scope.frames):
        for row in table.SITE:
            if _matches(row, frame):
                return row.means, frame
    # Only a traceback of which nothing is missing shows that no library was involved.
    return ("user", scope.frames[-1]) if scope.whole else None


def _allocation(all_frames: Sequence[Frame]) -> Iterator[Fact]:
    frames = _without_closure(all_frames)
    engine = next((index for index, frame in enumerate(frames) if _any(table.AUTOGRAD_ENGINE, frame)), None)
    phase, phase_frame = _phase(frames)
    if engine is not None:
        phase, phase_frame = "backward", frames[engine]
    if phase is not None and phase_frame is not None:
        yield Fact(name="oom.phase", value=phase, origin=f"frame {phase_frame.function}", spans=(phase_frame.span,))
    consumer, frame = _consumer(frames, phase, engine)
    if consumer is not None:
        yield Fact(name="oom.consumer", value=consumer, origin=f"frame {frame.function}", spans=(frame.span,))


def _without_closure(frames: Sequence[Frame]) -> Sequence[Frame]:
    # Lightning runs forward and backward inside optimizer.step: what stands below the closure is no optimizer work.
    step = None
    for index, frame in enumerate(frames):
        if _matches(table.OPTIMIZER_STEP, frame):
            step = index
        elif step is not None and _matches(table.CLOSURE, frame):
            return frames[index:]
    return frames


def _phase(frames: Sequence[Frame]) -> tuple[str | None, Frame | None]:
    forward = _forward_above(frames)
    for index in range(len(frames) - 1, -1, -1):
        frame = frames[index]
        if _matches(table.MOVE, frame) and not forward[index]:
            return "load", frame
        if _any(table.TRANSPARENT, frame):
            continue
        for row in table.PHASE:
            if _matches(row, frame):
                return row.means, frame
        if frame.function == "forward" and forward[index]:
            return "forward", frame
    # A module was called, and everything below its call is code of the model.
    for index in range(len(frames) - 1, -1, -1):
        if forward[index] or _matches(table.FORWARD_CALL, frames[index]):
            return "forward", frames[-1]
    return None, None


def _forward_above(frames: Sequence[Frame]) -> list[bool]:
    above, result = False, []
    for frame in frames:
        result.append(above)
        above = above or _matches(table.FORWARD_CALL, frame)
    return result


def _consumer(frames: Sequence[Frame], phase: str | None, engine: int | None) -> tuple[str | None, Frame]:
    innermost = frames[-1]
    forward = _forward_above(frames)
    for index in range(len(frames) - 1, -1, -1):
        frame = frames[index]
        for row in table.CONSUMER:
            if _matches(row, frame):
                return _in_context(row.means, frames), frame
        if _matches(table.MOVE, frame) and not forward[index]:
            return table.MOVE_CONSUMER, frame
    if engine is not None and any(_matches(table.CHECKPOINT_RECOMPUTE, frame) for frame in frames[engine:]):
        return "recompute", innermost
    if phase == "forward":
        return "activation", innermost
    return (None if phase is None else "other"), innermost


def _in_context(means: str, frames: Sequence[Frame]) -> str:
    if means != "gather":
        return means
    evaluated = any(row.means == "evaluation" and _matches(row, frame) for frame in frames for row in table.STAGE)
    return "eval_gather" if evaluated else "other"


def _last_part(name: str) -> str:
    return name.rsplit(".", 1)[-1]
