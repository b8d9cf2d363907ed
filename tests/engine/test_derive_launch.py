"""Facts of the machine reach the investigation together with those of the launch."""

from __future__ import annotations

import msgspec

from engine.faults import Log, world
from engine.runs import MAIN, crash, pack_of
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import derive
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan


def test_listings_of_the_machine_count():
    bundle = world(1, crash(MAIN))
    span = SourceSpan("env.txt", 2, 30)
    limit = Setting(family="environment", key="limit.locked_memory", value=64, span=span, text="max locked memory")
    report = msgspec.structs.replace(bundle.reports[-1], settings=(limit,))
    found = align(msgspec.structs.replace(bundle, reports=(*bundle.reports[:-1], report)))
    facts = derive(found, attribute(found, pack_of().causal), pack_of())
    assert facts.value("host.memlock_limited") is True
    assert facts["host.memlock_limited"].spans == (span,)


def test_ranks_of_one_world_are_no_dataparallel():
    logs = [Log(f"rank-{rank}.log", rank=rank).steps(5) for rank in range(2)]
    logs[1].raises("torch.OutOfMemoryError: CUDA out of memory", fault_class="device_oom")
    found = align(world(2, *logs))
    facts = derive(found, attribute(found, pack_of().causal), pack_of())
    assert facts.value("trainer.uses_dataparallel") is False
    alone = align(
        world(1, Log("run.log").steps(5).raises("torch.OutOfMemoryError: CUDA out of memory", fault_class="device_oom"))
    )
    assert derive(alone, attribute(alone, pack_of().causal), pack_of()).value("trainer.uses_dataparallel") is None
