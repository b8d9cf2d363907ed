"""The arithmetic of an out-of-memory message: what filled the device, and which tensor was asked for.

Loaded only where a message with numbers started the failure; the sizes of models only where the bundle names one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.fact import Fact
from firstfault.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.fact import FactSet, FactValue
    from firstfault.model.span import SourceSpan

# Context, cuBLAS and NCCL of one process take up to this much; above it, something else is there.
_USUAL_OUTSIDE = 3 << 29
_SHARE = 0.02
_NAMED = 0.005
_SLACK = 0.05

_MEANINGS = {
    "tensors": "Only the run's own tensors are in the way.",
    "other_processes": "Without the other processes the request would have fitted.",
    "job_processes": "Without the other processes of the job the request would have fitted.",
    "fragmentation": "The unused cache would hold the request, but not in one piece.",
}


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """What holds the memory of the device, its largest unexpected part, and the tensor that did not fit."""
    account = _Account(facts)
    if not account.requested or scope.event is None:
        return
    span = scope.event.span
    if account.outside is not None:
        yield _derived("oom.outside_bytes", account.outside, account.origin, span)
    filled = account.filled_by()
    if filled:
        yield _derived("oom.filled_by", filled, account.origin, span)
    said = account.said(filled)
    if said:
        yield _derived("oom.account", said, account.origin, span)
    # Without frames any tensor may be the one; without a size of model or batch none is.
    if ("oom.consumer" in facts or "oom.phase" in facts) and _has_sizes(scope, facts):
        from firstfault.engine.derive.oom_tensor import tensor

        yield from tensor(scope, facts)


def _derived(name: str, value: FactValue, origin: str, span: SourceSpan) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=(span,), basis="derived", rounded=not isinstance(value, str))


def _has_sizes(scope: Scope, facts: FactSet) -> bool:
    known = ("model.vocab_size", "train.seq_len")
    configured = (one.family in ("config", "arguments", "command") for one in scope.settings())
    return any(name in facts for name in known) or facts.value("oom.consumer") == "zero_reduce" or any(configured)


class _Account:
    """Total = tensors + unused cache + the rest of this process + other processes + free, as far as the message tells.

    `outside` is what PyTorch's allocator does not hold: of this process where its own total is printed, else of all processes
    together (`mixed`), as in messages of torch 2.0 and older and of other devices.
    """

    def __init__(self, facts: FactSet) -> None:
        self.requested, self.total, self.free = (_number(facts, f"oom.{name}_bytes") for name in ("requested", "total", "free"))
        self.tensors, self.unused = _number(facts, "oom.allocated_bytes"), _number(facts, "oom.unallocated_bytes")
        self.allowed, self.pools = _number(facts, "oom.allowed_bytes"), _number(facts, "oom.private_pool_bytes")
        own = _number(facts, "oom.process_bytes")
        foreign = _number(facts, "oom.other_process_bytes")
        device = facts.value("oom.device")
        self.device = "device" if not isinstance(device, int) else f"{_word(facts)} {device}"
        self.foreign = foreign or 0
        self.job = 0
        if facts.value("oom.job_processes_on_device") is not None and own is not None and None not in (self.total, self.free):
            self.job = max(0, (self.total or 0) - (self.free or 0) - own - self.foreign)
        self.outside: int | None = None
        self.mixed = own is None
        self.origin = "total - free - reserved"
        if self.tensors is None or self.unused is None or self.total is None:
            return
        held = self.tensors + self.unused
        if own is not None and own >= held:
            self.outside, self.origin = own - held, "this process - reserved"
        elif own is None and self.free is not None:
            self.outside = max(0, self.total - self.free - held)

    def filled_by(self) -> str | None:
        """The largest part that need not be there and without which the request would have fitted, else `tensors`."""
        if self.total is None or self.requested is None or self.tensors is None:
            return None
        if self.allowed and self.allowed < 0.98 * self.total and (self.free or 0) > self.requested:
            return "limit"
        spare = self.free or 0
        parts = {
            "other_processes": self.foreign,
            "job_processes": self.job,
            "fragmentation": self._torn(),
            "outside_pytorch": max(0, (self.outside or 0) - _USUAL_OUTSIDE),
        }
        enough = {
            name: size
            for name, size in parts.items()
            if size > _SHARE * self.total and size + (spare if name != "fragmentation" else 0) > self.requested
        }
        if enough:
            return max(enough, key=lambda name: enough[name])
        return "tensors" if self.tensors + self.requested > 0.5 * self.total else None

    def _torn(self) -> int:
        """The unused cache where it is too large for the usual slack; what lies in pools of CUDA graphs is not free for all."""
        unused = self.unused or 0
        return unused if not self.pools and self.total and unused > _SLACK * self.total else 0

    def said(self, filled: str | None) -> str:
        """One or two sentences: the parts of the device, and what the largest unexpected one means."""
        if self.total is None or self.tensors is None:
            return ""
        pools = f" ({format_size(self.pools)} of it in pools of CUDA graphs)" if self.pools else ""
        parts = [f"{format_size(self.tensors)} tensors of this process{pools}"]
        if self.unused is not None:
            parts.append(f"{format_size(self.unused)} unused cache of PyTorch")
        if self.outside is not None and self.outside > _NAMED * self.total:
            whose = "outside PyTorch (contexts, NCCL, any other process)" if self.mixed else "context and libraries"
            parts.append(f"{format_size(self.outside)} {whose}")
        if self.foreign and not self.mixed:
            parts.append(f"{format_size(self.foreign)} other processes")
        if self.job > _NAMED * self.total:
            parts.append(f"{format_size(self.job)} other processes of this job")
        if self.free is not None:
            parts.append(f"{format_size(self.free)} free")
        where = f"Of {self.device}'s" if self.device != "device" else "Of the device's"
        return " ".join(filter(None, (f"{where} {format_size(self.total)}: {', '.join(parts)}.", self._meaning(filled))))

    def _meaning(self, filled: str | None) -> str:
        if filled == "outside_pytorch":
            usual = f"{format_size(self.outside or 0)} is more than the 0.3 to 1.5 GiB that a CUDA context and NCCL take"
            rest = "other processes or libraries hold" if self.mixed else "another library holds"
            return f"{usual}: {rest} the rest."
        if filled == "limit":
            return f"The device had room; the process may use {format_size(self.allowed or 0)} only."
        return _MEANINGS.get(filled or "", "")


def _number(facts: FactSet, name: str) -> int | None:
    value = facts.value(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _word(facts: FactSet) -> str:
    return "NPU" if facts.value("oom.allocator") == "npu" else "GPU"
