"""How large a batch is: tokens of a sample, the failing batch against earlier ones, and its logits against the request."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.fact import FactSet
    from firstfault.model.span import SourceSpan

PRODUCES = ("model.vocab_size", "oom.batch_length_ratio", "oom.logits_match", "train.seq_len")

# Of a larger source only parts are read: the largest batch may stand in between.
_WHOLE_BYTES = 1 << 20
_LENGTHS = ("max_seq_length", "max_seq_len", "block_size", "seq_length", "sequence_len", "cutoff_len", "max_length")
_WIDTHS = (2, 4)
_ALIKE = 0.005
_APART = 0.02
# As many devices may hand their logits to one.
_MOST_DEVICES = 16


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the batch of the failing rank, from the shapes that it printed and the arguments of the run."""
    shapes = printed_shapes(scope)
    for fact in (_vocabulary(scope), _length(scope, shapes), _ratio(scope, shapes)):
        if fact is not None:
            facts.add(fact)
            yield fact
    match = _logits(facts, shapes)
    if match is not None:
        yield match


_Shape = tuple[tuple[int, ...], "SourceSpan"]


def printed_shapes(scope: Scope) -> dict[str, _Shape]:
    """First, last and largest earlier shape that the failing rank printed above the initiating event."""
    event = scope.event
    report = scope.reports.get(event.source_id) if event else None
    if event is None or report is None or report.source.size_bytes > _WHOLE_BYTES:
        return {}
    suffix = "" if event.place.rank is None or report.source.place.rank is not None else f".{event.place.rank}"
    found: dict[str, _Shape] = {}
    for setting in report.settings:
        name = setting.key.removeprefix("input_ids.")
        if setting.family != "printed" or name == setting.key:
            continue
        name = name.removesuffix(suffix) if suffix else name.partition(".")[0]
        if name in found:
            return {}
        found[name] = (tuple(int(part) for part in str(setting.value).split("x")), setting.span)
    last = found.get("last")
    return found if last is not None and last[1].offset < event.span.offset else {}


def _vocabulary(scope: Scope) -> Fact | None:
    found = [one for one in scope.settings() if (one.family, one.key) == ("printed", "vocab_size")]
    if len({one.value for one in found}) != 1 or not isinstance(found[0].value, int):
        return None
    return Fact(name="model.vocab_size", value=found[0].value, origin="vocab_size", spans=(found[0].span,))


def _length(scope: Scope, shapes: dict[str, _Shape]) -> Fact | None:
    """The printed shape first; an argument is the most that a sample may have."""
    name = "train.seq_len"
    if "last" in shapes:
        shape, span = shapes["last"]
        return Fact(name=name, value=shape[1], origin="shape of the last batch", spans=(span,))
    found = {one.value: one for one in scope.settings() if one.family in ("arguments", "config") and one.key in _LENGTHS}
    if len(found) != 1:
        return None
    value, setting = next(iter(found.items()))
    length = _positive(value)
    return None if length is None else Fact(name=name, value=length, origin=setting.key, spans=(setting.span,))


def _positive(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 9 and int(text) else None


def _ratio(scope: Scope, shapes: dict[str, _Shape]) -> Fact | None:
    """Tokens of the last batch over those of the largest before.

    The last shape is that of the failing batch only where a shape is printed before its step is done: then the first stands
    above all progress lines, and the last below all of them.
    """
    event = scope.event
    if event is None or scope.attribution.fault_class != "device_oom" or len(shapes) != 3 or len(scope.aligned.attempts) > 1:
        return None
    steps = [one for one in scope.reports[event.source_id].progress if one.rank in (None, event.place.rank)]
    begins = [one.first_span.offset for one in steps if one.first_span is not None]
    ends = [one.last_span.offset for one in steps if one.last_span is not None]
    (_, first), (largest, shown), (last, span) = shapes["first"], shapes["largest_before"], shapes["last"]
    if not begins or not ends or first.offset > min(begins) or span.offset < max(ends):
        return None
    ratio = round(prod(last) / max(1, prod(largest)), 3)
    origin = "shape of the last batch against the largest before"
    return Fact(name="oom.batch_length_ratio", value=ratio, origin=origin, spans=(span, shown), basis="derived")


def _logits(facts: FactSet, shapes: dict[str, _Shape]) -> Fact | None:
    """Whether the request is as large as the logits of the batch, in two or four bytes each; labels may be one token shorter.

    A length that is only a limit can show that it is, never that it is not.
    """
    request, rows, length, words = (
        facts.get(name) for name in ("oom.requested_bytes", "train.micro_batch", "train.seq_len", "model.vocab_size")
    )
    if request is None or length is None or words is None:
        return None
    spans = (*request.spans, *length.spans, *words.spans)
    batch = shapes["last"][0][0] if "last" in shapes else (rows.value if rows is not None else None)
    numbers = (request.value, batch, length.value, words.value)
    if not all(isinstance(one, int) for one in numbers):
        return None
    asked, count, tokens, vocabulary = (int(str(one)) for one in numbers)
    sizes = [count * used * vocabulary * width for used in (tokens, tokens - 1) for width in _WIDTHS if used > 0]
    origin = f"{count} x {tokens} x {vocabulary} x 2 or 4 bytes"
    name = "oom.logits_match"
    if any(abs(asked - size) <= _ALIKE * size for size in sizes):
        told = "told" in {request.basis, length.basis, words.basis}
        return Fact(name=name, value=True, origin=origin, spans=spans, basis="told" if told else "derived")
    outside = asked < (1 - _APART) * min(sizes) or asked > (1 + _APART) * _MOST_DEVICES * max(sizes)
    return Fact(name=name, value=False, origin=origin, spans=spans, basis="derived") if outside and "last" in shapes else None
