"""A small pack for tests of the ingest room: a few signals, and the classes they use."""

from __future__ import annotations

from firstfault.knowledge.schema import CausalTable, ExceptionType, FaultClass, Pack, Signal

OOM = Signal(
    id="torch.oom",
    event="torch.oom",
    role="initiating",
    fault_class="device_oom",
    literal="CUDA out of memory. Tried",
    pattern=r"CUDA out of memory\. Tried to allocate (?P<requested>[0-9.]+ [KMG]iB)",
    holes={"requested": "size"},
    facts={"oom.requested_bytes": "{requested}", "oom.allocator": "cuda"},
)
PEER = Signal(
    id="peer.gloo",
    event="peer.gloo",
    role="collateral",
    fault_class="peer_lost",
    literal="Connection closed by peer",
    pattern="Connection closed by peer",
)
NOTE = Signal(
    id="note.version",
    event="note.version",
    role="context",
    fault_class=None,
    literal="torch version",
    pattern=r"torch version (?P<version>\S+)",
    holes={"version": "word"},
    facts={"run.torch": "{version}"},
)
STEP = Signal(
    id="progress.step",
    event="train.progress",
    role="progress",
    fault_class=None,
    literal=" step ",
    pattern=r" step (?P<step>\d+)/(?P<total>\d+)",
    holes={"step": "int", "total": "int"},
)
DONE = Signal(
    id="run.finished", event="run.finished", role="context", fault_class=None, literal="training done", pattern="training done"
)

PACK = Pack(
    signals=(OOM, PEER, NOTE, STEP, DONE),
    facts={},
    causal=CausalTable(
        classes=(
            FaultClass(id="device_oom", prior="initiating", weight=5, text="out of memory"),
            FaultClass(id="python_exception", prior="initiating", weight=3, text="an exception"),
            FaultClass(id="peer_lost", prior="collateral", weight=0, text="a peer is gone"),
            FaultClass(id="launcher_report", prior="collateral", weight=0, text="the launcher's report"),
        ),
        explains=(),
        exception_types=(
            ExceptionType(name="ChildFailedError", fault_class="launcher_report"),
            ExceptionType(name="ConnectionResetError", fault_class="peer_lost"),
        ),
    ),
    entries={},
)
