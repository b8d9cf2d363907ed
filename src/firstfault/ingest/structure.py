"""What the structure readers find in one source: one row a kind says which of them look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.model.bundle import Note, SourceKind
from firstfault.model.event import ProcessExit, Traceback
from firstfault.model.fact import Fact, Setting
from firstfault.model.ras import RasQuery
from firstfault.model.stack import ProcessStack

# The readers are imported where they are used: most sources need two or three of them.


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """Tracebacks, process ends, settings, facts, stacks and answers of RAS of one source."""

    tracebacks: tuple[Traceback, ...] = ()
    exits: tuple[ProcessExit, ...] = ()
    settings: tuple[Setting, ...] = ()
    facts: tuple[Fact, ...] = ()
    stacks: tuple[ProcessStack, ...] = ()
    ras: tuple[RasQuery, ...] = ()
    notes: tuple[Note, ...] = ()


class _Reader(NamedTuple):
    """A reader, and words of which one, in any case, stands wherever it finds something; without words it always looks."""

    read: Callable[[Sequence[Line], Context], Structure]
    words: tuple[str, ...] = ()


def read_structure(stretches: Sequence[Sequence[Line]], text: str, ctx: Context) -> Structure:
    """Everything the readers of the source's kind find. A stretch is a run of lines without a gap; `text` is the whole of a
    small source.
    """
    kind = ctx.source.kind
    if kind == "accelerate_config":
        return _config(text, ctx)
    if kind == "deepspeed_config":
        return _deepspeed(text, ctx)
    if kind == "arguments":
        return _arguments(text, ctx)
    if kind == "python":
        return _script(text, [line for lines in stretches for line in lines], ctx)
    found = [part for lines in stretches for part in _looked_for(lines, ctx)]
    if kind == "unknown" and text:
        found.append(_run_config(text, ctx))
    return _joined(found)


def _looked_for(lines: Sequence[Line], ctx: Context) -> Iterable[Structure]:
    readers = _READERS.get(ctx.source.kind, ())
    text = "\n".join(line.text for line in lines).casefold() if any(reader.words for reader in readers) else ""
    for reader in readers:
        if not reader.words or any(word in text for word in reader.words):
            yield reader.read(lines, ctx)


def _joined(parts: Iterable[Structure]) -> Structure:
    found = list(parts)
    return Structure(
        tracebacks=tuple(item for part in found for item in part.tracebacks),
        exits=tuple(item for part in found for item in part.exits),
        settings=tuple(item for part in found for item in part.settings),
        facts=tuple(item for part in found for item in part.facts),
        stacks=tuple(item for part in found for item in part.stacks),
        ras=tuple(item for part in found for item in part.ras),
        notes=tuple(item for part in found for item in part.notes),
    )


def _config(text: str, ctx: Context) -> Structure:
    from firstfault.ingest.configs import read_accelerate

    settings, notes = read_accelerate(text, ctx)
    return Structure(settings=settings, notes=notes)


def _deepspeed(text: str, ctx: Context) -> Structure:
    from firstfault.ingest.configs import read_deepspeed

    settings, notes = read_deepspeed(text, ctx)
    return Structure(settings=settings, notes=notes)


def _arguments(text: str, ctx: Context) -> Structure:
    from firstfault.ingest.configs import read_arguments

    settings, notes = read_arguments(text, ctx)
    return Structure(settings=settings, notes=notes)


def _run_config(text: str, ctx: Context) -> Structure:
    from firstfault.ingest.configs import read_run_config

    return Structure(settings=read_run_config(text, ctx))


def _script(text: str, lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.script import read_script

    facts, settings, notes = read_script(text, lines, ctx)
    return Structure(facts=facts, settings=settings, notes=notes)


def _tracebacks(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.traceback import read_tracebacks

    return Structure(tracebacks=read_tracebacks(lines, ctx))


def _failure_blocks(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.elastic import read_failure_blocks

    return Structure(exits=read_failure_blocks(lines, ctx))


def _exits(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.exits import read_exits

    return Structure(exits=read_exits(lines, ctx))


def _dumps(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.dumps import read_dumps

    return Structure(settings=read_dumps(lines, ctx))


def _command(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.command import read_command

    return Structure(settings=read_command(lines, ctx))


def _environment(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.environment import read_environment

    return Structure(settings=read_environment(lines, ctx))


def _memory_series(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.memory_series import read_memory_series

    return Structure(facts=read_memory_series(lines, ctx))


def _process_tables(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.process_table import read_process_tables

    return Structure(facts=read_process_tables(lines, ctx))


def _printed(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.printed import read_printed

    return Structure(settings=read_printed(lines, ctx))


def _limits(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.limits import read_limits

    return Structure(settings=read_limits(lines, ctx))


def _batch_shapes(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.batch_shapes import read_batch_shapes

    return Structure(settings=read_batch_shapes(lines, ctx))


def _stacks(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.stacks import read_stacks

    return Structure(stacks=read_stacks(lines, ctx))


def _ras(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.ras import read_ras

    return Structure(ras=read_ras(lines, ctx))


def _vitals(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.vitals import read_vitals

    facts, notes = read_vitals(lines, ctx)
    return Structure(facts=facts, notes=notes)


def _kernel(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.kernel import read_kernel

    exits, facts = read_kernel(lines, ctx)
    return Structure(exits=exits, facts=facts)


def _scheduler(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.scheduler import read_scheduler

    exits, facts = read_scheduler(lines, ctx)
    return Structure(exits=exits, facts=facts)


def _kubernetes(lines: Sequence[Line], ctx: Context) -> Structure:
    from firstfault.ingest.kubernetes import read_kubernetes

    exits, facts = read_kubernetes(lines, ctx)
    return Structure(exits=exits, facts=facts)


_FAILURE_BLOCKS = _Reader(_failure_blocks, ("exitcode",))
_EXITS = _Reader(
    _exits,
    (
        *("exit", "signal", "via sig", "subprocess", "return code", "died with", "srun: error", "terminated", "finished with"),
        *("non-zero status", "echo $?", "killed", "segmentation fault", "aborted", "bus error", "illegal instruction"),
        *("floating point exception", "hangup", "interrupt", "out of memory"),
    ),
)
_KERNEL = _Reader(
    _kernel,
    (
        *("oom-kill:", "ut of memory: kill", "segfault at", "general protection", "invalid opcode", "nvrm: xid"),
        *("kb, limit", "pcie bus error", "aer: ", "hardware error", "edac mc", "hardware memory corruption"),
    ),
)
_SCHEDULER = _Reader(
    _scheduler,
    (
        *("slurmstepd", "srun: error", "oom-kill", "oom_kill", "tres=", "reqmem=", "completed", "failed", "timeout"),
        *("preempted", "node_fail", "cancelled", "out_of_me", "boot_fail", "deadline"),
        # Kubernetes
        *("name:", "status", "containerid:", "exit code:", "exitcode", "last seen", '"involvedobject"'),
    ),
)
_VALUES = _Reader(
    _printed,
    (
        *("mixed precision type:", "device_count", "setting cuda_visible_devices=", "world_size", "world size", "_nodes "),
        *("saving fsdp", "saving deepspeed", "train batch size", "batch size per device", "accumulation steps ="),
    ),
)
_TRACEBACKS, _DUMPS, _COMMAND, _ENVIRONMENT = (_Reader(read) for read in (_tracebacks, _dumps, _command, _environment))
_LIMITS = _Reader(_limits, ("locked memory", "locked-in-memory", "ulimit ", "slowdown", "power cap"))
_BATCH_SHAPES = _Reader(_batch_shapes, ("vocab_size", "input_ids", "total_size"))
_SIZES = (_LIMITS, _BATCH_SHAPES)
_STACKS = _Reader(
    _stacks,
    ("(most recent call first)", " (idle)", " (active", "traceback for thread ", "stack trace of the failed collective:"),
)
_RAS = _Reader(_ras, ("comms     nodes", "communicators_count"))
_MEMORY = (_Reader(_memory_series, ("rss", "resident", "mem", "allocated")), _Reader(_process_tables, ("ppid",)))
_PRINTED = (
    _TRACEBACKS,
    _FAILURE_BLOCKS,
    _EXITS,
    _KERNEL,
    _SCHEDULER,
    _DUMPS,
    _COMMAND,
    _ENVIRONMENT,
    _VALUES,
    *_MEMORY,
    *_SIZES,
    _STACKS,
    _RAS,
)
_READERS: dict[SourceKind, tuple[_Reader, ...]] = {
    "log": _PRINTED,
    "unknown": _PRINTED,
    "command": (_COMMAND,),
    "environment": (_ENVIRONMENT, _DUMPS, _LIMITS),
    "nvidia_smi": (_ENVIRONMENT, _LIMITS),
    "vitals": (_Reader(_vitals),),
    "kernel": (_KERNEL,),
    "slurm": (_SCHEDULER,),
    "kubernetes": (_Reader(_kubernetes),),
}
