"""Figures of an out-of-memory message: only those of the initiating rank, and what they add up to."""

from __future__ import annotations

from engine.faults import Log, rank_logs
from engine.runs import MAIN, crash, facts_of, pack_of, spec
from firstfault.knowledge.schema import Signal
from firstfault.model.fact import Fact

GIB = 1 << 30
FIGURES = ("total", "free", "allocated", "unallocated", "requested")
PACK = pack_of(
    facts=[spec(f"oom.{name}_bytes", "bytes") for name in FIGURES],
    signals=[
        Signal(
            id="oom",
            event="torch.oom",
            role="initiating",
            fault_class="device_oom",
            literal="out of memory",
            pattern="x",
            holes=dict.fromkeys(FIGURES, "size"),
            facts={f"oom.{name}_bytes": f"{{{name}}}" for name in FIGURES},
        )
    ],
)


def oom(*, rank=None, others=(), own=None, **captures):
    log = crash(MAIN, rank=rank, **captures)
    log.events[-1] = _with_signal(log.events[-1])
    line = log.lines
    for pid, size in others:
        log.note("torch.oom.other_process", pid=pid, bytes=size)
        log.events[-1] = _at(log.events[-1], log.events[0])
    if own is not None:
        log.note("torch.oom.process_total", bytes=own)
        log.events[-1] = _at(log.events[-1], log.events[0])
    log.lines = line
    return log


def _with_signal(event):
    import msgspec

    return msgspec.structs.replace(event, signal="oom")


def _at(event, first):
    import msgspec

    return msgspec.structs.replace(event, span=first.span)


def test_captures_become_facts_and_round():
    facts = facts_of(oom(requested=2 * GIB, total=24 * GIB, free=GIB), pack=PACK)
    assert facts.value("oom.requested_bytes") == 2 * GIB
    assert facts["oom.requested_bytes"].rounded and facts["oom.requested_bytes"].spans


def test_reserved_minus_allocated_where_the_message_has_no_clause():
    facts = facts_of(oom(allocated=16 * GIB, reserved=20 * GIB), pack=PACK)
    assert facts.value("oom.unallocated_bytes") == 4 * GIB
    assert facts.value("oom.reserved_bytes") == 20 * GIB


def test_named_processes_are_other_processes():
    facts = facts_of(oom(others=[(7, 3 * GIB)], own=18 * GIB, total=24 * GIB, free=GIB), pack=PACK)
    assert facts.value("oom.other_process_bytes") == 3 * GIB
    assert facts.value("oom.process_bytes") == 18 * GIB


def test_unnamed_rest_is_another_process_only_if_it_is_large():
    facts = facts_of(oom(own=10 * GIB, total=24 * GIB, free=GIB), pack=PACK)
    assert facts.value("oom.other_process_bytes") == 13 * GIB
    facts = facts_of(oom(own=23 * GIB, total=24 * GIB, free=GIB), pack=PACK)
    assert facts.value("oom.other_process_bytes") == 0


def test_pids_of_the_job_share_the_device():
    log = oom(others=[(41, 3 * GIB), (42, 3 * GIB)], own=2 * GIB, total=24 * GIB, free=GIB)
    log.exit(1, rank=0, pid=41).exit(1, rank=1, pid=42)
    assert facts_of(log, pack=PACK).value("oom.job_processes_on_device") == 3


def test_figures_of_another_rank_never_mix_in():
    first = oom(rank=0, requested=2 * GIB)
    second = oom(rank=1, requested=2 * GIB, total=80 * GIB)
    facts = facts_of(first, second, size=2, pack=PACK)
    if facts.value("oom.total_bytes") is not None:
        assert facts["oom.total_bytes"].spans[0].source == facts["oom.requested_bytes"].spans[0].source


def started(*facts):
    """A report of the launch, as its plan would state it."""
    log = Log("command.txt", kind="command")
    log.facts = [Fact(name=name, value=value, origin="test") for name, value in facts]
    return log


def test_equal_device_index_on_several_ranks():
    plan = started(("launch.processes", 3))
    logs = [oom(rank=rank, device=3) for rank in range(3)]
    assert facts_of(plan, *logs, size=3, pack=PACK).value("oom.same_device_on_ranks") is True
    logs = [oom(rank=rank, device=rank) for rank in range(3)]
    assert facts_of(plan, *logs, size=3, pack=PACK).value("oom.same_device_on_ranks") is False
    logs = [oom(rank=rank, device=0) for rank in range(3)]
    assert facts_of(plan, *logs, size=3, pack=PACK).value("oom.same_device_on_ranks") is None
    plan = started(("launch.processes", 3), ("launch.starter", "torchrun"))
    assert facts_of(plan, *logs, size=3, pack=PACK).value("oom.same_device_on_ranks") is True


def test_no_memory_facts_without_an_out_of_memory_error():
    logs = rank_logs(1)
    logs[0].raises("ValueError: x")
    facts = facts_of(*logs, size=1, pack=PACK)
    assert not [name for name in facts if name.startswith("oom.")]


def test_what_is_reserved_is_the_sum_of_its_two_parts_where_the_message_names_these():
    facts = facts_of(oom(requested=2 * GIB, total=24 * GIB, allocated=18 * GIB, unallocated=GIB), pack=PACK)
    assert facts.value("oom.reserved_bytes") == 19 * GIB
    assert facts["oom.reserved_bytes"].basis == "derived"
    assert facts_of(oom(requested=GIB, allocated=18 * GIB), pack=PACK).value("oom.reserved_bytes") is None
