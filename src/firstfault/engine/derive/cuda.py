"""The Xids of the GPU that failed, launches that block, and what failed inside a compiler: facts of several lines together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.derive.scope import Scope
    from firstfault.ingest.kernel import Xid
    from firstfault.model.event import Event
    from firstfault.model.fact import FactSet

PRODUCES = ("gpu.xid", "gpu.xid_first", "gpu.xid_kind", "cuda.blocking", "compile.inner")

_XID_EVENT = "gpu.xid_line"
_COMMUNICATOR = "nccl.communicator"
_COMPILE_FAILED = "compile.failed"
_LIMIT_HIT = "compile.recompile_limit_hit"
_COMPILE_CLASS = "compile_error"


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """The Xids of the initiating rank's GPU, whether kernels were launched one by one, and the compiler's own failure."""
    yield from _xids(scope)
    yield from _blocking(scope)
    yield from _compiler(scope)


def _xids(scope: Scope) -> Iterator[Fact]:
    reports = [event for event in scope.events() if event.name == _XID_EVENT and scope.on_host(event)]
    gpu = _gpu_of_the_fault(scope, reports)
    own = [event for event in reports if _gpu(event) == gpu]
    if gpu is not None and own:
        from firstfault.ingest.kernel import xid_facts

        yield from xid_facts([_xid(event) for event in own])


def _gpu_of_the_fault(scope: Scope, reports: Sequence[Event]) -> tuple[str | None, str] | None:
    """Host and bus: those of the initiating Xid, else of the rank's process, else of its communicator, else the only ones."""
    if scope.event is None:
        return None
    if scope.event.name == _XID_EVENT:
        return _gpu(scope.event)
    gpus = {_gpu(event) for event in reports}
    if len(gpus) == 1:
        return gpus.pop()
    named = {_gpu(event) for event in reports if event.captures.get("pid") in _pids(scope)}
    buses = _buses_of_the_rank(scope)
    named = named or {gpu for gpu in gpus if gpu[1][5:] in buses}
    return named.pop() if len(named) == 1 else None


def _gpu(event: Event) -> tuple[str | None, str]:
    from firstfault.ingest.kernel import bus_of

    return event.place.host, bus_of(str(event.captures.get("bus", "")))


def _xid(event: Event) -> Xid:
    time = event.place.time.seconds if event.place.time else None
    from firstfault.ingest.kernel import Xid

    return Xid(_gpu(event)[1], int(event.captures.get("xid", 0)), time, event.span)


def _pids(scope: Scope) -> set[object]:
    pids: set[object] = {scope.event.place.pid} if scope.event else set()
    if scope.rank is not None:
        pids |= {exit_.place.pid for exit_ in scope.aligned.exits if exit_.place.rank == scope.rank}
    return pids - {None}


def _buses_of_the_rank(scope: Scope) -> set[str]:
    """`5d:00` of NCCL's `busId 5d000`, which packs bus, device and function into one hexadecimal number."""
    buses = set()
    for event in scope.aligned.events:
        if event.name == _COMMUNICATOR and scope.rank is not None and event.captures.get("rank") == scope.rank:
            packed = int(str(event.captures.get("bus", "0")), 16)
            buses.add(f"{packed >> 12 & 0xFF:02x}:{packed >> 4 & 0xFF:02x}")
    return buses


def _blocking(scope: Scope) -> Iterator[Fact]:
    for setting in scope.settings():
        if setting.family == "environment" and setting.key == "CUDA_LAUNCH_BLOCKING":
            value = str(setting.value).strip() not in ("", "0", "None", "False")
            yield Fact(name="cuda.blocking", value=value, origin="CUDA_LAUNCH_BLOCKING", spans=(setting.span,))
            return


def _compiler(scope: Scope) -> Iterator[Fact]:
    """A limit that was hit, however it is reported; else the compiler itself, if no inner error has a name of its own."""
    event = scope.event
    if event is None or scope.class_of(event) != _COMPILE_CLASS:
        return
    on_rank = [other for other in scope.events() if scope.on_rank(other)]
    # torch reports the limit as an unsupported construct first, and as the limit in the next exception of the chain.
    limit = next((other for other in on_rank if other.name == _LIMIT_HIT), None)
    if limit is not None:
        yield Fact(name="compile.inner", value="recompile_limit", origin="the recompile limit", spans=(limit.span,))
        return
    names_inner = {signal.id for signal in scope.pack.signals if "compile.inner" in signal.facts}
    if any(other.signal in names_inner for other in (*scope.on_the_line, *on_rank)):
        return
    failed = next((other for other in on_rank if other.name == _COMPILE_FAILED), None)
    block = scope.block
    # "backend='inductor' raised:" is only the envelope; the letter stands in the next lines.
    if failed is not None and block is not None and not block.message.rstrip().endswith("raised:"):
        yield Fact(
            name="compile.inner",
            value="inductor",
            origin="the compiler's own error",
            spans=(failed.span,),
            basis="derived",
        )
