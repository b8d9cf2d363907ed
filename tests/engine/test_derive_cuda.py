"""The GPU whose Xids count, blocking launches, and the compiler's own failure."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import Log, aligned, causal
from engine.runs import crash, entry, frame, pack_of, spec
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import cuda
from firstfault.engine.derive.scope import Scope
from firstfault.knowledge.schema import Signal
from firstfault.model.fact import FactSet, Setting
from firstfault.model.span import SourceSpan

FAILED = "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"


def derived(*logs, size=None, signals=(), settings=()):
    found = aligned(size, *logs)
    if settings:
        reports = (msgspec.structs.replace(found.bundle.reports[0], settings=tuple(settings)), *found.bundle.reports[1:])
        found = msgspec.structs.replace(found, bundle=msgspec.structs.replace(found.bundle, reports=reports))
    pack = pack_of(entry("a", ["gpu.xid == 1"]), facts=[spec("gpu.xid", "int list")], signals=signals)
    scope = Scope(found, attribute(found, causal()), pack)
    return {fact.name: fact.value for fact in cuda.derive(scope, FactSet())}


def kernel(*xids, host=None):
    """A kernel log; each of `xids` is bus, number and pid."""
    log = Log(f"dmesg-{host}.txt", kind="kernel", host=host)
    for bus, number, pid in xids:
        fault_class = {79: "gpu_xid", 119: "gpu_xid", 13: "gpu_xid_application", 31: "gpu_xid_application"}.get(number)
        captures = {"bus": bus, "xid": str(number)} | ({"pid": pid} if pid else {})
        log.fault(fault_class, f"Xid {number}", name="gpu.xid_line", at=1000 + log.lines, kind="boot", **captures)
    return log


def test_the_only_gpu_is_the_one_that_failed():
    log = kernel(("PCI:0000:98:00", 45, None), ("PCI:0000:98:00", 79, None), ("PCI:0000:98:00", 154, None))
    assert derived(log) == {"gpu.xid": (45, 79, 154), "gpu.xid_first": 79, "gpu.xid_kind": "hardware"}


def test_the_initiating_xid_names_its_gpu_among_several():
    log = kernel(("PCI:0000:2b:00", 45, None), ("PCI:0000:98:00", 79, None), ("0000:2b:00", 43, None))
    assert derived(log)["gpu.xid"] == (79,)


def test_the_process_of_the_rank_names_its_gpu():
    run = Log("run.log").fault("cuda_error", rank=1).exit(1, rank=1, pid=702)
    log = kernel(("PCI:0000:2b:00", 31, 702), ("PCI:0000:98:00", 13, 55))
    assert derived(run, log, size=2)["gpu.xid_first"] == 31


def test_the_communicator_of_the_rank_names_its_gpu():
    run = Log("rank-1.log", rank=1).note("nccl.communicator", bus="2b000").fault("cuda_error")
    run.events[0] = msgspec.structs.replace(run.events[0], captures={"rank": 1, "bus": "2b000"})
    log = kernel(("PCI:0000:2b:00", 31, None), ("PCI:0000:98:00", 13, None))
    assert derived(run, log, size=2)["gpu.xid"] == (31,)


def test_several_gpus_and_nothing_that_names_one_say_nothing():
    run = Log("run.log").fault("cuda_error", rank=1)
    log = kernel(("PCI:0000:2b:00", 31, None), ("PCI:0000:98:00", 13, None))
    assert "gpu.xid" not in derived(run, log, size=2)


@pytest.mark.parametrize(("value", "blocking"), [("1", True), (1, True), ("0", False)])
def test_blocking_launches(value, blocking):
    log = Log("run.log").fault("cuda_error")
    setting = Setting(
        family="environment", key="CUDA_LAUNCH_BLOCKING", value=value, span=SourceSpan("run.log", 1, 0), text="export"
    )
    assert derived(log, settings=[setting])["cuda.blocking"] is blocking


def compiler_crash(message, name="compile.failed"):
    main = frame("train.py", "main", "model(x)")
    return crash(main, error=message, fault_class="compile_error", name=name)


def test_a_compiler_that_names_an_inner_error_failed_itself():
    log = compiler_crash(f"{FAILED}\nAssertionError: unexpected stride")
    assert derived(log) == {"compile.inner": "inductor"}


def test_the_envelope_alone_says_nothing():
    assert derived(compiler_crash(FAILED)) == {}


def test_an_inner_error_with_a_name_of_its_own_is_left_to_its_signal():
    log = compiler_crash(f"{FAILED}\nRuntimeError: Failed to find C compiler").fault("compile_error", name="no_compiler")
    named = Signal(
        id="compile_error",
        event="no_compiler",
        role="initiating",
        fault_class="compile_error",
        literal="Failed to find C",
        pattern="Failed to find C",
        facts={"compile.inner": "no_compiler"},
    )
    assert derived(log, signals=[named]) == {}


def test_a_limit_that_was_hit_is_no_unsupported_construct():
    log = compiler_crash("torch._dynamo.exc.Unsupported: Dynamo recompile limit exceeded", name="compile.dynamo_error")
    log.fault("compile_error", name="compile.recompile_limit_hit")
    assert derived(log) == {"compile.inner": "recompile_limit"}
