"""What a run prints step by step: the loss of each step or epoch, and how long a step takes."""

from __future__ import annotations

from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from statistics import median

import msgspec

from firstfault.errors import FirstfaultError
from firstfault.ingest.handed import Handed
from firstfault.ingest.open import open_handed
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import Bundle
from firstfault.model.span import SourceSpan

MAX_BYTES = 16 << 20
"""Read of each log; a curve that differs does so long before."""
MAX_POINTS = 200_000
_CHUNK_BYTES = 256 << 10
MAX_LINE_CHARS = 4_096
_LOG_KINDS = frozenset({"log", "unknown", "slurm"})

_NUMBER = r"(?:\d{1,9}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?|nan|NaN|inf)"
_LOSS = lazy_pattern(r"(?<![\w])(?:train[_/ ]?|lm )?loss['\"]?\s*[:= ]\s*(?P<value>" + _NUMBER + r")\b", needs="loss")
_STEP = lazy_pattern(r"(?i)\b(?:global[_ ]?)?(?:step|iter(?:ation)?)['\"]?\s*[:=# ]?\s*(?P<step>\d{1,9})\b")
_EPOCH = lazy_pattern(r"'epoch':\s*(?P<epoch>\d{1,6}(?:\.\d{1,9})?)", needs="'epoch'")
_SECONDS = lazy_pattern(r"(?P<value>\d{1,6}(?:\.\d{1,6})?) ?s/(?:it|step)\b|(?P<rate>\d{1,6}(?:\.\d{1,6})?) ?(?:it|steps?)/s\b")
_STEP_TIME = lazy_pattern(
    r"(?i)\b(?:step|iter(?:ation)?)[_ ]time(?:[_ ]?\(?m?s\)?)?['\"]?\s*[:= ]\s*"
    r"(?P<value>\d{1,9}(?:\.\d{1,6})?)(?P<unit> ?ms\b)?"
)


class Point(msgspec.Struct, frozen=True):
    """A loss and where it is printed."""

    value: float
    span: SourceSpan


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Losses by step (`step 10`) or epoch (`epoch 0.5`), and the middle one of the printed seconds a step."""

    losses: dict[str, Point] = {}
    step_s: float | None = None
    step_span: SourceSpan | None = None


def curve_of(bundle: Bundle) -> Curve:
    """The curve of the logs of a bundle that are files, the first rank that prints a step standing for all."""
    losses: dict[str, Point] = {}
    seconds: list[float] = []
    spans: list[SourceSpan] = []
    paths = dict.fromkeys(report.source.path for report in bundle.reports if report.source.kind in _LOG_KINDS)
    for path in paths:
        for number, offset, line in _lines(path):
            span = SourceSpan(path, number, offset)
            _take_loss(line, span, losses)
            found = _step_s(line)
            if found is not None and len(seconds) < MAX_POINTS:
                seconds.append(found)
                spans.append(span)
    step_s = median(seconds) if len(seconds) > 1 else None
    return Curve(losses=losses, step_s=step_s, step_span=spans[-1] if step_s is not None else None)


def _lines(path: str) -> Iterable[tuple[int, int, str]]:
    """Number, byte offset and text of the lines of a file; none of one that cannot be opened again."""
    location = Path(path)
    if not location.is_file():
        return
    offset = 0
    try:
        handed = Handed(path=path, location=location, size_bytes=location.stat().st_size)
        with BufferedReader(open_handed(handed), _CHUNK_BYTES) as file:
            for number, raw in enumerate(file, 1):
                # A progress bar overwrites its own line.
                for part in raw.split(b"\r")[-8:]:
                    if b"loss" in part or b"/s" in part or b"s/" in part or b"time" in part:
                        yield number, offset, part[:MAX_LINE_CHARS].decode("utf-8", "replace")
                offset += len(raw)
                if offset > MAX_BYTES:
                    return
    except (OSError, EOFError, ValueError, FirstfaultError):
        return


def _take_loss(line: str, span: SourceSpan, losses: dict[str, Point]) -> None:
    # What the Trainer prints at its end is the mean of all steps.
    loss = _LOSS.search(line) if "loss" in line and "train_runtime" not in line else None
    if loss is None or len(losses) >= MAX_POINTS:
        return
    step, epoch = _STEP.search(line), _EPOCH.search(line)
    key = f"step {int(step['step'])}" if step else f"epoch {float(epoch['epoch']):g}" if epoch else ""
    if key:
        losses.setdefault(key, Point(float(loss["value"]), span))


def _step_s(line: str) -> float | None:
    """Seconds of one step as the line prints them."""
    found = _SECONDS.search(line)
    if found is not None:
        if found["value"] is not None:
            return float(found["value"])
        rate = float(found["rate"])
        return 1 / rate if rate else None
    timed = _STEP_TIME.search(line) if "time" in line else None
    if timed is None:
        return None
    return float(timed["value"]) / (1000 if timed["unit"] or "ms" in timed[0].lower() else 1)
