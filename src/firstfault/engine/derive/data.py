"""What is said about the data: the table an index missed, the decoder that refused, the batch that did not fit, the odd source.

Facts of the exception are definite as soon as its line is known, `none` included: that it is none of these excludes the causes
that rest on it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.engine.derive.frames import is_library, library_path
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import ExceptionBlock, Frame
    from firstfault.model.fact import FactSet
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "data.complaint",
    "data.ragged_field",
    "data.index_kind",
    "data.decoder",
    "data.worker_signal",
    "cuda.assert_index",
    "num.data_outlier",
)

_SITES = frozenset({"dataset", "collate", "dataloader", "batch_prepare"})
_LOOPS = frozenset({"train", "evaluation"})
_DEVICE_CLASSES = frozenset({"device_assert", "cuda_error"})
_COMPLAINTS = {
    "data.unequal_lengths": "unequal_lengths",
    "data.empty_sequence": "empty",
    "torch.batchnorm_one_value": "one_row",
}
_ROW_ASSERTION = "cuda.assertion.index_select"
_OTHER_ASSERTION = "cuda.assertion.other"
_POSITIONS_WARNING = "tokenizer.too_long"
_LOSS_BY_SOURCE = "train.loss_by_source"
_NAMED_LOSS = lazy_pattern(r"([A-Za-z_][\w./-]{0,80})[ =:]{1,3}([0-9]+(?:\.[0-9]+)?)(?![\w.])")
_OUTLIER_RATIO = 3
_WORKER_KILLED = "dataloader.worker_killed"
# As strsignal(3) of glibc names them.
_SIGNALS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Illegal instruction": 4,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "Segmentation fault": 11,
    "Terminated": 15,
}
_DECODERS = {
    "UnidentifiedImageError": "image",
    "JSONDecodeError": "json",
    "zlib.error": "compressed",
    "BadZipFile": "compressed",
    "BadGzipFile": "compressed",
    "LZMAError": "compressed",
    "tarfile.ReadError": "compressed",
    "ZstdError": "compressed",
    "ArrowInvalid": "arrow",
    "UnicodeDecodeError": "text",
}
# Exceptions of a type that says nothing, with a text of the decoder (Pillow, gzip).
_DECODER_TEXTS = (
    ("image file is truncated", "image"),
    ("broken data stream when reading image file", "image"),
    ("JSON parse error: ", "json"),
    ("Compressed file ended before the end-of-stream marker", "compressed"),
)
_EMBEDDING = ("torch/nn/modules/sparse.py", "torch/nn/functional.py")
_TABLES = (
    ("position", lazy_pattern(r"position|wpe|pos_e|pos_ids", re.IGNORECASE)),
    ("other", lazy_pattern(r"token_type|segment", re.IGNORECASE)),
    ("token", lazy_pattern(r"tok|word|wte|vocab|input_?ids|(?<![a-z_])ids(?![a-z_])", re.IGNORECASE)),
)
_FIELD = lazy_pattern(r"\[\s*[\"']([A-Za-z_][A-Za-z0-9_]{0,60})[\"']\s*\]", needs="[")
_FIRST_ITEM = lazy_pattern(r"\[0\]")
_OUT_OF_BOUNDS = lazy_pattern(r"index -?[0-9]+ is out of bounds for (?:dimension|axis)", needs=" is out of bounds for ")
_TABLE_MESSAGE = "index out of range in self"


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the exception line, its frames and the events in its message; then what else the rank printed."""
    yield from _worker_signal(scope)
    yield from _outlier(scope)
    yield from _assert_index(scope, facts)
    block = scope.block
    site = _text(facts.value("exc.site"))
    complaint = _complaint(scope, facts, site)
    if complaint is not None:
        spans = _spans(scope)
        yield Fact(name="data.complaint", value=complaint, origin="the exception's message", spans=spans, basis="derived")
        if complaint == "unequal_lengths":
            yield from _ragged_field(scope.frames)
    if block is None or not block.type or scope.attribution.fault_class in _DEVICE_CLASSES:
        return
    kind = _index_kind(block, scope.frames, site)
    yield Fact(name="data.index_kind", value=kind, origin="message and frames", spans=(block.span,), basis="derived")
    decoder = _decoder(block, site, facts)
    if decoder is not None:
        yield Fact(name="data.decoder", value=decoder, origin=f"{block.type}", spans=(block.span,), basis="derived")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _spans(scope: Scope) -> tuple[SourceSpan, ...]:
    return (scope.event.span,) if scope.event is not None else ()


def _worker_signal(scope: Scope) -> Iterator[Fact]:
    for event in (*scope.on_the_line, *scope.events()):
        number = _SIGNALS.get(str(event.captures.get("signal", "")).strip())
        if event.name == _WORKER_KILLED and number is not None and (scope.on_rank(event) or event is scope.event):
            yield Fact(name="data.worker_signal", value=number, origin="the loader's report", spans=(event.span,))
            return


def _complaint(scope: Scope, facts: FactSet, site: str | None) -> str | None:
    found = next((_COMPLAINTS[event.name] for event in scope.on_the_line if event.name in _COMPLAINTS), None)
    block = scope.block
    if found == "unequal_lengths":
        return found if site in _SITES or site is None else "none"
    if found == "empty":
        # An empty list may be anything; the sampler's text is only about data.
        if site in _SITES or facts.value("fault.stage") in _LOOPS or any("samples" in e.captures for e in scope.on_the_line):
            return found
        return None if site is None else "none"
    if found is not None:
        return found
    if block is None or not block.type:
        return None
    return "empty" if site in _SITES and _proves_empty(block, scope.frames) else "none"


def _proves_empty(block: ExceptionBlock, frames: Sequence[Frame]) -> bool:
    """True if the raising line shows that a sequence has no item: its item 0 is missing, or its length is a divisor of zero."""
    code = frames[-1].code if frames else ""
    if block.type == "IndexError" and block.message.startswith("list index out of range"):
        return bool(_FIRST_ITEM.search(code))
    return block.type == "ZeroDivisionError" and "len(" in code


def _ragged_field(frames: Sequence[Frame]) -> Iterator[Fact]:
    for frame in reversed(frames):
        if is_library(frame.path):
            continue
        fields = set(_FIELD.findall(frame.code))
        if len(fields) == 1:
            origin = f"the line of {frame.function}"
            yield Fact(name="data.ragged_field", value=fields.pop(), origin=origin, spans=(frame.span,), basis="derived")
        return


def _index_kind(block: ExceptionBlock, frames: Sequence[Frame], site: str | None) -> str:
    out_of_bounds = _OUT_OF_BOUNDS.search(block.message) is not None
    if block.type.rpartition(".")[2] != "IndexError" and not out_of_bounds:
        return "none"
    if site in _SITES:
        return "sample" if site == "dataset" else "none"
    for index, frame in enumerate(frames):
        if library_path(frame.path) in _EMBEDDING and (frame.function == "embedding" or "sparse" in frame.path):
            return _table(frames[:index])
    if site == "loss":
        return "label"
    return "unknown" if out_of_bounds or _TABLE_MESSAGE in block.message else "none"


def _table(callers: Sequence[Frame]) -> str:
    """Which embedding was asked, by the words of the line that calls it."""
    for frame in reversed(callers):
        if library_path(frame.path).startswith(("torch/", "accelerate/", "peft/")):
            continue
        return next((kind for kind, words in _TABLES if words.search(frame.code)), "unknown")
    return "unknown"


def _decoder(block: ExceptionBlock, site: str | None, facts: FactSet) -> str | None:
    decoder = next((kind for text, kind in _DECODER_TEXTS if text in block.message), None)
    decoder = decoder or _DECODERS.get(block.type) or _DECODERS.get(block.type.rpartition(".")[2])
    if decoder is None:
        return "none"
    steps = facts.value("run.steps_done")
    # Code of the script reads settings before the first step, and data once steps are being done.
    if decoder == "image" or site in _SITES or (site == "user" and isinstance(steps, int) and steps > 0):
        return decoder
    return None if site in {None, "user"} else "none"


def _outlier(scope: Scope) -> Iterator[Fact]:
    reports = [event for event in scope.events() if event.name == _LOSS_BY_SOURCE and scope.on_rank(event)]
    if not reports:
        return
    last = reports[-1]
    losses = sorted(float(value) for _, value in _NAMED_LOSS.findall(str(last.captures.get("losses", ""))))
    if len(losses) > 1:
        value = losses[-1] > _OUTLIER_RATIO * losses[-2]
        origin = "loss of each source"
        yield Fact(name="num.data_outlier", value=value, origin=origin, spans=(last.span,), basis="derived")


def _assert_index(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    for event in scope.events():
        if not scope.on_rank(event):
            continue
        kind = None
        if event.signal == _ROW_ASSERTION:
            kind = _rows_of(scope, facts)
        elif event.signal == _OTHER_ASSERTION and re.search(r"index|idx", str(event.captures.get("condition", ""))):
            kind = "other"
        if kind is not None:
            yield Fact(
                name="cuda.assert_index", value=kind, origin="the kernel's assertion", spans=(event.span,), basis="derived"
            )
            return


def _rows_of(scope: Scope, facts: FactSet) -> str:
    """Which table a lookup of rows on the device missed: the frames tell if kernels ran one by one, else the usual one."""
    if facts.value("cuda.blocking") is True:
        for index, frame in enumerate(scope.frames):
            if library_path(frame.path) in _EMBEDDING:
                return _table(scope.frames[:index])
    warned = any(event.name == _POSITIONS_WARNING and scope.on_rank(event) for event in scope.events())
    return "unknown" if warned else "token"
