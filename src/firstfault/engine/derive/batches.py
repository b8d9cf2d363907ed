"""Whether the ranks do the same work: as many batches, batches of the same content, and all of the weights or a shard each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.fact import FactSet, Setting

PRODUCES = ("data.batches_differ", "data.batch_content_differs", "run.weights_replicated")

MAX_RANKS = 4096
_STEP = lazy_pattern(r"(?i)\b(?:global_?)?step[ =:#]{1,3}(\d{1,9})\b")
_FIELD = lazy_pattern(r"(?<![\w.])([A-Za-z_]{3,40})=(\d{1,12})(?![\w.])")
# Counts of what a batch holds; other numbers may be 0 on one rank for any reason.
_CONTENT = lazy_pattern(
    r"(?i)^(?:n_|num_)?(?:image|video|audio|frame|patch|pixel|speech|clip|box|boxe|object|point|node|edge|label|target|answer"
    r"|token|sample|row|example|sequence|expert_token)s?$"
)
_SHARDED = frozenset({"fsdp1", "fsdp2", "zero3"})
_REPLICATED = frozenset({"ddp", "zero0", "zero1", "zero2"})
_FSDP_SAVE = "accelerate.fsdp_save"


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts that compare the ranks' batches, and whether each holds all weights."""
    for fact in (_number(scope), _content(scope), _replicated(scope, facts)):
        if fact is not None:
            yield fact


def _number(scope: Scope) -> Fact | None:
    """A rank that had left with code 0 after fewer steps than any other had less to do."""
    left = [fault for fault in scope.faults.values() if fault.fault_class == "exit_zero_early" and fault.rank is not None]
    if len(left) != 1 or left[0].rank is None:
        return None
    steps = {
        sample.rank: sample
        for sample in scope.aligned.progress
        if sample.rank is not None and sample.last_step is not None and sample.attempt in (None, scope.attempt)
    }
    own = steps.pop(left[0].rank, None)
    if own is None or own.last_step is None or not steps:
        return None
    least = min(steps.values(), key=lambda sample: sample.last_step or 0)
    if least.last_step is None or own.last_step >= least.last_step:
        return None
    origin = f"rank {own.rank} left after step {own.last_step}, rank {least.rank} reached {least.last_step}"
    spans = tuple(span for span in (own.last_span, least.last_span) if span is not None)
    return Fact(name="data.batches_differ", value=True, origin=origin, spans=spans, basis="derived")


def _content(scope: Scope) -> Fact | None:
    """A count that is 0 on one rank and above 0 on all others at the same step, the last that every rank printed."""
    lines = dict(_last_batches(scope))
    if len(lines) < 2 or len({step for step, _, _ in lines.values()}) != 1:
        return None
    shared = set.intersection(*(set(fields) for _, fields, _ in lines.values()))
    for name in sorted(shared):
        without = [rank for rank, (_, fields, _) in lines.items() if fields[name] == 0]
        if len(without) == 1:
            rank = without[0]
            step, _, span = lines[rank]
            other = next(line[2] for number, line in sorted(lines.items()) if number != rank)
            origin = f"step {step}: {name}=0 on rank {rank} alone"
            return Fact(name="data.batch_content_differs", value=True, origin=origin, spans=(span, other), basis="derived")
    return None


def _last_batches(scope: Scope) -> Iterator[tuple[int, tuple[int, dict[str, int], SourceSpan]]]:
    ranks = scope.aligned.rank_map
    for report in scope.aligned.bundle.reports[:MAX_RANKS]:
        source = ranks.source_place(report)
        for end in report.ends:
            place = ranks.complete(replace(end.place, rank=source.rank if end.place.rank is None else end.place.rank))
            if place.rank is None or not scope.in_attempt(place):
                continue
            for line in reversed(end.work):
                step = _STEP.search(line.text)
                fields = {name: int(value) for name, value in _FIELD.findall(line.text) if _CONTENT.match(name)}
                if step and fields:
                    yield place.rank, (int(step[1]), fields, SourceSpan(report.source.path, line.line, line.offset))
                    break


def _replicated(scope: Scope, facts: FactSet) -> Fact | None:
    strategy = facts.get("run.strategy")
    named = set(strategy.value) if strategy is not None and isinstance(strategy.value, tuple) else set()
    unsharded = _setting(scope, "fsdp_config.fsdp_sharding_strategy")
    if unsharded is not None and str(unsharded.value) in ("NO_SHARD", "3"):
        return _weights(True, "FSDP that shards nothing", unsharded.span)
    if strategy is not None and named:
        if named <= _SHARDED:
            return _weights(False, "the strategy shards them", *strategy.spans)
        if named <= _REPLICATED:
            return _weights(True, "the strategy gives each rank all of them", *strategy.spans)
    stage = _setting(scope, "zero_optimization.stage")
    if stage is not None and str(stage.value) in ("0", "1", "2", "3"):
        return _weights(str(stage.value) != "3", f"ZeRO stage {stage.value}", stage.span)
    saved = next((event for event in scope.events() if event.name == _FSDP_SAVE), None)
    return None if saved is None else _weights(False, "the run saves an FSDP model", saved.span)


def _setting(scope: Scope, key: str) -> Setting | None:
    """The one value of a key in the configurations; None where they disagree."""
    found = [setting for setting in scope.settings() if setting.key == key]
    return found[0] if len({str(setting.value) for setting in found}) == 1 else None


def _weights(value: bool, origin: str, *spans: SourceSpan) -> Fact:
    return Fact(name="run.weights_replicated", value=value, origin=origin, spans=spans[:2], basis="derived")
