"""The plain sentences of attribution: why this rank, and why another one's error is only a consequence."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.engine.causes import Link
from firstfault.engine.classes import Fault, seen_waiting
from firstfault.units import format_duration

_DID = {
    "argument_rejected": "refused its arguments",
    "checkpoint_error": "could not read a checkpoint",
    "collective_mismatch": "ran another call or model than the others",
    "collective_timeout": "timed out",
    "compile_error": "failed to compile",
    "cuda_error": "met a CUDA error",
    "dataloader_worker_killed": "lost a DataLoader worker",
    "device_assert": "met a device-side assertion",
    "device_oom": "ran out of GPU memory",
    "exit_sighup": "was hung up (SIGHUP)",
    "exit_sigkill": "was killed (SIGKILL)",
    "exit_sigterm": "was ended (SIGTERM)",
    "exit_zero_early": "left with exit code 0",
    "gpu_xid": "lost its GPU",
    "host_allocation_failed": "could not allocate host memory",
    "host_oom_kill": "was killed by the kernel's OOM killer",
    "import_error": "could not import a module",
    "hub_error": "could not reach the hub",
    "keyboard_interrupt": "was interrupted",
    "launcher_sigterm": "was stopped by the launcher",
    "machine_check": "ran on a machine with a hardware error",
    "native_signal": "crashed in native code",
    "nccl_abort_note": "was aborted by its watchdog",
    "nccl_error": "met an NCCL error",
    "non_finite": "met a value that is not finite",
    "peer_lost": "lost a peer",
    "process_exit": "ended with an error code",
    "python_exception": "raised an exception",
    "rendezvous_error": "could not join the process group",
    "shm_error": "ran out of shared memory",
    "storage_errno": "met a storage error",
    "tracker_error": "lost its experiment tracker",
    "watchdog_stuck": "hung until its watchdog gave up",
}
MAX_LISTED = 8
_JOB = {
    "scheduler_stop": "the scheduler stopped the job",
    "host_oom_kill": "the kernel's OOM killer ended a process",
    "gpu_xid": "a GPU failed",
    "machine_check": "the machine reported a hardware error",
    "keyboard_interrupt": "the run was interrupted by hand",
    "launcher_exception": "the launcher failed before a worker started",
    "exit_sigkill": "a process was killed (SIGKILL)",
    "exit_sigterm": "the launcher itself was told to stop (SIGTERM)",
}


def listed(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 1 and 3`, `ranks 0, 1, 2 and 5 more`; empty for none."""
    if len(ranks) < 2:
        return "".join(f"rank {rank}" for rank in ranks)
    shown = [str(rank) for rank in ranks[:MAX_LISTED]]
    left = len(ranks) - len(shown)
    last = f"{left} more" if left else shown.pop()
    return f"ranks {', '.join(shown)} and {last}"


def subject(fault: Fault) -> str:
    """`rank 2 ran out of GPU memory`: who did what."""
    if fault.fault_class in ("scheduler_stop", "keyboard_interrupt", "launcher_exception"):
        return _JOB[fault.fault_class]
    if fault.rank is None:
        return _JOB.get(fault.fault_class, "a process " + _DID.get(fault.fault_class, "failed"))
    if seen_waiting(fault.event):
        return f"rank {fault.rank} waited"
    return f"rank {fault.rank} " + _DID.get(fault.fault_class, "failed")


def why_consequence(fault: Fault, root: Fault, link: Link | None = None) -> str:
    """Why `fault` is only a consequence of `root`, in one sentence; `link` is the row that explains it, if one does."""
    effect = fault.fault_class
    before = "" if link is None else _earlier(link, root)
    stopped = link is not None and link.cause.fault_class == "launcher_sigterm"
    if root.fault_class == "scheduler_stop":
        return "the scheduler stopped the job" + before
    if effect in ("peer_lost", "store_timeout", "nccl_error"):
        return f"{subject(root)}{before}, which closed its connections"
    if effect in ("collective_timeout", "watchdog_stuck", "nccl_abort_note"):
        return f"it waited in a collective that cannot complete: {subject(root)}{before}"
    if stopped and effect == "exit_sigkill":
        return f"the launcher killed this process, which had not ended on SIGTERM, after {subject(root)}"
    if stopped or effect in ("exit_sigterm", "launcher_sigterm", "keyboard_interrupt"):
        return f"the launcher stopped this process after {subject(root)}"
    if effect in ("launcher_report", "step_teardown", "elastic_node_lost", "process_exit"):
        return f"it only reports the end: {subject(root)}"
    if effect.startswith("gpu_xid") or effect == "kernel_segfault_line":
        return f"the kernel's view of one and the same fault: {subject(root)}"
    return f"{subject(root)}{before}"


def why_follower(head: Fault, root: Fault) -> str:
    """Why a later error of the same rank is only an echo of its first one."""
    who = "the process" if head.rank is None else f"rank {head.rank}"
    if head is root or head.rank == root.rank:
        return f"it follows the first error of {who}"
    return f"it follows the first error of {who}, and that came after {subject(root)}"


def _earlier(link: Link, root: Fault) -> str:
    if link.delay is None or link.cause.event.span != root.event.span or link.delay.seconds <= link.delay.error_s:
        return ""
    return f" {format_duration(link.delay.seconds)} earlier"
