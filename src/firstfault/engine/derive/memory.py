"""What the figures of an out-of-memory message add up to: who else holds memory on the device, and whose device it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Event
    from firstfault.model.fact import FactSet
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "oom.process_bytes",
    "oom.reserved_bytes",
    "oom.unallocated_bytes",
    "oom.other_process_bytes",
    "oom.job_processes_on_device",
    "oom.same_device_on_ranks",
)
_OTHER_PROCESS = "torch.oom.other_process"
_PROCESS_TOTAL = "torch.oom.process_total"
# Total, free and process figures leave a rest for the driver itself; less than this share of the device shows nobody else.
_DRIVER_SHARE = 0.02
_SHOW_ALL_DEVICES = frozenset({"torchrun", "accelerate", "deepspeed"})


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Differences of the figures in the message of the initiating event, and the devices that the ranks name."""
    event = scope.event
    if event is None or scope.attribution.fault_class != "device_oom":
        return
    line = scope.on_the_line
    for other in line:
        if other.name == _PROCESS_TOTAL and isinstance(other.captures.get("bytes"), int):
            yield _read("oom.process_bytes", other.captures["bytes"], other.span)
    reserved = event.captures.get("reserved")
    if isinstance(reserved, int):
        yield _read("oom.reserved_bytes", reserved, event.span)
        allocated = facts.value("oom.allocated_bytes")
        if isinstance(allocated, int) and reserved >= allocated:
            yield _difference("oom.unallocated_bytes", reserved - allocated, "reserved - allocated", event.span)
    else:
        yield from _reserved(facts, event.span)
    yield from _processes_on_device(scope, line)
    yield from _other_processes(scope, facts, line)
    yield from _same_device(scope, facts, event.place.host)


def _reserved(facts: FactSet, span: SourceSpan) -> Iterator[Fact]:
    """From torch 2.1 on the message names the two parts of what is reserved, not the whole."""
    parts = [facts.value(f"oom.{name}_bytes") for name in ("allocated", "unallocated")]
    whole = sum(part for part in parts if isinstance(part, int))
    if "oom.reserved_bytes" not in facts and all(isinstance(part, int) for part in parts):
        yield _difference("oom.reserved_bytes", whole, "allocated + reserved but unallocated", span)


def _read(name: str, value: object, span: SourceSpan) -> Fact:
    return Fact(name=name, value=int(str(value)), origin="the out-of-memory message", spans=(span,), rounded=True)


def _difference(name: str, value: int, origin: str, span: SourceSpan) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=(span,), basis="derived", rounded=True)


def _processes(line: Sequence[Event]) -> dict[int, int]:
    return {
        int(event.captures["pid"]): int(event.captures["bytes"])
        for event in line
        if event.name == _OTHER_PROCESS and {"pid", "bytes"} <= event.captures.keys()
    }


def _processes_on_device(scope: Scope, line: Sequence[Event]) -> Iterator[Fact]:
    processes, job = _processes(line), _job_pids(scope)
    if scope.event is not None and processes and job:
        inside = [pid for pid in processes if pid in job]
        if inside:
            # "this process" is one more where the message has its own clause for it.
            own = any(event.name == _PROCESS_TOTAL for event in line)
            yield Fact(
                name="oom.job_processes_on_device",
                value=len(inside) + (1 if own else 0),
                origin="pids of the message that belong to the job",
                spans=(scope.event.span,),
                basis="derived",
            )


def _other_processes(scope: Scope, facts: FactSet, line: Sequence[Event]) -> Iterator[Fact]:
    if scope.event is None:
        return
    span, processes, job = scope.event.span, _processes(line), _job_pids(scope)
    own = next((event.captures.get("bytes") for event in line if event.name == _PROCESS_TOTAL), None)
    if processes and own is not None:
        foreign = sum(size for pid, size in processes.items() if pid not in job)
        yield _difference("oom.other_process_bytes", foreign, "other processes named by the message", span)
        return
    total, free = facts.value("oom.total_bytes"), facts.value("oom.free_bytes")
    if isinstance(total, int) and isinstance(free, int) and isinstance(own, int):
        rest = max(0, total - free - own)
        value = rest if rest > _DRIVER_SHARE * total else 0
        yield _difference("oom.other_process_bytes", value, "capacity - free - this process", span)


def _job_pids(scope: Scope) -> frozenset[int]:
    pids = {exit_.place.pid for exit_ in scope.aligned.exits} | {event.place.pid for event in scope.aligned.events}
    return frozenset(pid for pid in pids if pid is not None)


def _same_device(scope: Scope, facts: FactSet, host: str | None) -> Iterator[Fact]:
    recovered = set(map(id, scope.attribution.recovered))
    devices: dict[object, tuple[int, SourceSpan]] = {}
    for event in scope.aligned.events:
        device = event.captures.get("device")
        if (
            scope.class_of(event) == "device_oom"
            and isinstance(device, int)
            and event.traceback is not None
            and not event.quoted
            and id(event) not in recovered
            and event.place.host == host
            and scope.in_attempt(event.place)
        ):
            # A process dies of one such error: without rank labels, each traceback is a process of its own.
            key = event.place.rank if event.place.rank is not None else (event.source_id, event.traceback)
            devices.setdefault(key, (device, event.span))
    processes = facts.value("launch.processes")
    several = all(isinstance(key, int) for key in devices) or (isinstance(processes, int) and processes > 1)
    if len(devices) < 2 or not several:
        return
    indices = {device for device, _ in devices.values()}
    spans = tuple(span for _, span in devices.values())[:3]
    # With one visible device a rank every index is 0; these launchers show all devices to every rank.
    all_visible = facts.value("launch.starter") in _SHOW_ALL_DEVICES and facts.value("launch.visible_gpus") != 1
    if len(indices) == 1 and (indices != {0} or all_visible):
        yield Fact(
            name="oom.same_device_on_ranks", value=True, origin="device index of each rank", spans=spans, basis="derived"
        )
    elif len(indices) == len(devices):
        yield Fact(
            name="oom.same_device_on_ranks", value=False, origin="device index of each rank", spans=spans, basis="derived"
        )
