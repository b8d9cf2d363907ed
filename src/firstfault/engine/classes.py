"""The class of each fatal event, and how strongly that class starts failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from firstfault.engine.align import EXCEPTION_EVENT, Aligned
from firstfault.engine.attempts import shape_of_text
from firstfault.engine.endings import EXIT_EVENT
from firstfault.knowledge.schema import CausalTable, FaultClass
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Event, Traceback

_WORKER_REPORT = "launcher.worker_failed"
_TIERS = {"context": 0, "collateral": 1, "either": 2, "initiating": 3}
_PREFIXES = lazy_pattern(r"^(?:\s*(?:\[[^\]\s]*\d+\]:?|\d+:|\([^)]*\))\s*)+")
_LAUNCHER_FRAMES = (
    "accelerate/commands/",
    "torch/distributed/run.py",
    "torch/distributed/launch.py",
    "torch/distributed/elastic/agent",
    "deepspeed/launcher/",
)
_ANYWHERE = frozenset({"device_oom", "host_allocation_failed", "cuda_error"})
# Waits that were seen while they lasted, or in counters: no limit need have run out.
_SEEN_WAITING = frozenset({"collective.pending", "hang.waits_in_collective", "hang.waits_for_ranks_behind"})
_PLAIN = FaultClass(id="", prior="context", weight=0, text="")
_ABORTED = FaultClass(id="native_signal", prior="either", weight=3, text="")
"""SIGABRT by an exit code alone: watchdogs and lost peers end a process so, more often than a fault of its own."""
_SIGABRT = (-6, 134)


class Fault(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A fatal event with its class. Two faults are the same only if they are one object.

    `labels` are the names under which rows may mean it: its class and the groups that hold the class. `shape` is what
    the same failure on another rank has in common with it.
    """

    event: Event
    fault_class: str
    prior: Literal["initiating", "either", "collateral"]
    weight: int
    labels: frozenset[str]
    shape: str
    kernel: bool = False

    @property
    def rank(self) -> int | None:
        """The rank it happened on."""
        return self.event.place.rank

    @property
    def host(self) -> str | None:
        """The host it happened on."""
        return self.event.place.host

    @property
    def tier(self) -> int:
        """3 initiating, 2 either, 1 collateral."""
        return _TIERS[self.prior]

    @property
    def strength(self) -> tuple[int, int]:
        """Orders candidates: the prior first, then the weight of the class."""
        return self.tier, self.weight

    @property
    def is_exit(self) -> bool:
        """True if it was read from an exit code or a launcher's line, not from what the rank printed."""
        return self.event.name == EXIT_EVENT


def read_faults(aligned: Aligned, causal: CausalTable) -> list[Fault]:
    """All fatal-looking events of the bundle in the order of the sources; quoted texts and context are left out."""
    classes = {spec.id: spec for spec in causal.classes}
    types = {spec.name: spec.fault_class for spec in causal.exception_types}
    groups = {name: frozenset(members) for name, members in causal.groups.items()}
    kinds = {report.source.id: report.source.kind for report in aligned.bundle.reports}
    ends = {(event.source_id, event.span.line) for event in aligned.events if event.name == EXIT_EVENT}
    reported = any(event.name == _WORKER_REPORT for event in aligned.events)
    faults = []
    for event in aligned.events:
        if event.name.startswith("launcher.") and (event.source_id, event.span.line) in ends:
            # The same line was read as the end of a process, which knows whose.
            continue
        if event.fault_class is None or event.quoted or event.role in ("context", "progress"):
            continue
        kernel = kinds.get(event.source_id) == "kernel"
        fault_class = _classify(event, aligned.traceback_of(event), types, kernel)
        if reported and fault_class == "launcher_exception" and event.name == EXCEPTION_EVENT and not event.signal:
            # Cut above its exception line: the launcher raises after it reported its worker.
            fault_class = "launcher_report"
        spec = _ABORTED if _is_bare_abort(event) else classes.get(fault_class, _PLAIN)
        if spec.prior == "context":
            continue
        labels = frozenset({fault_class, *(name for name, members in groups.items() if fault_class in members)})
        faults.append(
            Fault(
                event=event,
                fault_class=fault_class,
                prior=spec.prior,
                weight=spec.weight,
                labels=labels,
                shape=shape_of(event, aligned.traceback_of(event)),
                kernel=kernel,
            )
        )
    return faults


def _is_bare_abort(event: Event) -> bool:
    return event.name == EXIT_EVENT and event.captures.get("code") in _SIGABRT


def without_unlabelled_copies(faults: Sequence[Fault]) -> list[Fault]:
    """Leave out lines without a rank that a rank printed too: a combined log shows them without their label."""
    labelled = {(f.event.place.attempt, f.fault_class, f.shape) for f in faults if f.rank is not None and not f.is_exit}
    return [f for f in faults if f.rank is not None or (f.event.place.attempt, f.fault_class, f.shape) not in labelled]


def shape_of(event: Event, traceback: Traceback | None) -> str:
    """Exception type, innermost frame and message with numbers removed; for a plain line its text without prefixes."""
    if traceback is None or not traceback.blocks:
        # The number is what two ends of processes differ in.
        code = f"{event.captures.get('code')} " if event.name == EXIT_EVENT else ""
        return code + shape_of_text(_PREFIXES.sub("", event.text))
    root = traceback.root
    # Whichever allocation or call comes next meets an exhausted or broken device: its frame tells nothing.
    anywhere = event.fault_class in _ANYWHERE or not root.frames
    frame = "" if anywhere else f"{root.frames[-1].path}:{root.frames[-1].line}"
    return f"{root.type} {frame} {shape_of_text(root.message)}"


def seen_waiting(event: Event) -> bool:
    """True for a wait that no time-out reports: it was seen in a stack, in a dump or by NCCL's RAS service."""
    return event.name in _SEEN_WAITING


def words_of(event: Event, causal: CausalTable) -> str:
    """What happened, in the words of its class; empty for a class without words."""
    if seen_waiting(event):
        return "waits in a collective"
    return next((spec.says for spec in causal.classes if spec.id == event.fault_class), "")


def _classify(event: Event, traceback: Traceback | None, types: dict[str, str], kernel: bool) -> str:
    fault_class = event.fault_class or ""
    if kernel and fault_class == "native_signal" and event.place.rank is None:
        return "kernel_segfault_line"
    if event.name != EXCEPTION_EVENT and fault_class != "python_exception":
        return fault_class
    if traceback is None or not traceback.blocks:
        return fault_class
    root = traceback.root
    named = types.get(root.type) or types.get(root.type.rpartition(".")[2])
    if named is not None:
        return named
    return "launcher_exception" if _in_launcher(event, traceback) else fault_class


def _in_launcher(event: Event, traceback: Traceback) -> bool:
    """True for an exception whose frames are the launcher's own from the first to the last."""
    frames = traceback.root.frames
    if event.place.rank is not None or event.place.local_rank is not None or not frames:
        return False
    return any(part in frame.path for frame in frames for part in _LAUNCHER_FRAMES)
