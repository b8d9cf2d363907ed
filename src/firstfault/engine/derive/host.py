"""What went into host memory: a page-locked buffer, or the whole model because ZeRO-3 was not told in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Event
    from firstfault.model.fact import FactSet

PRODUCES = ("oom.allocator", "script.zero_config_late")

_STATUS_ONLY = "torch.cuda.out_of_memory_status"
_PIN_THREAD = "dataloader.pin_thread"
_PINNING = ("pin_memory", "cudaHostAlloc", "cudaHostRegister")
_INNERMOST = 4
_GROUP_SET_UP = "deepspeed.init_distributed"
_PARTITIONED = "deepspeed.zero_init_done"
_LOADED = frozenset({"transformers.weights_loaded", "transformers.shards_loaded"})


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the allocation that failed and of the order in which a model was loaded."""
    yield from _pinned(scope)
    yield from _order_of_loading(scope)


def _pinned(scope: Scope) -> Iterator[Fact]:
    """CUDA refuses page-locked host memory with the words it has for device memory: who asked tells them apart."""
    event = scope.event
    if event is None or event.signal != _STATUS_ONLY:
        return
    for frame in reversed(scope.frames[-_INNERMOST:]):
        if frame.function == "pin_memory" or any(name in frame.code for name in _PINNING):
            yield Fact(name="oom.allocator", value="pinned", origin=f"frame {frame.function}", spans=(frame.span,))
            return
    for other in scope.on_the_line:
        if other.signal == _PIN_THREAD:
            yield Fact(name="oom.allocator", value="pinned", origin="the thread that pins batches", spans=(other.span,))
            return


def _order_of_loading(scope: Scope) -> Iterator[Fact]:
    """Partitioning while loading needs the process group: weights that are complete before it exists were loaded whole."""
    by_source: dict[str, dict[str, Event]] = {}
    for event in scope.events():
        kind = "loaded" if event.signal in _LOADED else event.signal
        if kind in ("loaded", _GROUP_SET_UP, _PARTITIONED):
            first = by_source.setdefault(event.source_id, {})
            if kind not in first or event.span.offset < first[kind].span.offset:
                first[kind] = event
    name = "script.zero_config_late"
    for first in by_source.values():
        if _PARTITIONED in first:
            span = first[_PARTITIONED].span
            yield Fact(name=name, value=False, origin="zero.Init partitioned the model", spans=(span,), basis="derived")
            return
    for first in by_source.values():
        loaded, group = first.get("loaded"), first.get(_GROUP_SET_UP)
        if loaded is not None and group is not None and loaded.span.offset < group.span.offset:
            origin = "weights were loaded before DeepSpeed set up its process group"
            yield Fact(name=name, value=True, origin=origin, spans=(loaded.span, group.span), basis="derived")
            return
