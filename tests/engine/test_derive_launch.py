"""Facts of the machine reach the investigation together with those of the launch."""

from __future__ import annotations

import msgspec

from engine.faults import world
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
