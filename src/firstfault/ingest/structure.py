"""What the structure readers find in one source: one row a kind says which of them look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.model.bundle import Note, SourceKind
from firstfault.model.event import ProcessExit, Traceback
from firstfault.model.fact import Fact, Setting

# The readers are imported where they are used: most sources need two or three of them.


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """Tracebacks, process ends, settings and facts of one source."""

    tracebacks: tuple[Traceback, ...] = ()
    exits: tuple[ProcessExit, ...] = ()
    settings: tuple[Setting, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[Note, ...] = ()


_Reader = Callable[[Sequence[Line], Context], Structure]


def read_structure(stretches: Sequence[Sequence[Line]], text: str, ctx: Context) -> Structure:
    """Everything the readers of the source's kind find. A stretch is a run of lines without a gap; `text` is the whole of a
    small source.
    """
    kind = ctx.source.kind
    if kind == "accelerate_config":
        return _config(text, ctx)
    if kind == "deepspeed_config":
        return _deepspeed(text, ctx)
    readers = _READERS.get(kind, ())
    return _joined(reader(lines, ctx) for lines in stretches for reader in readers)


def _joined(parts: Iterable[Structure]) -> Structure:
    found = list(parts)
    return Structure(
        tracebacks=tuple(item for part in found for item in part.tracebacks),
        exits=tuple(item for part in found for item in part.exits),
        settings=tuple(item for part in found for item in part.settings),
        facts=tuple(item for part in found for item in part.facts),
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


_PRINTED: tuple[_Reader, ...] = (_tracebacks, _failure_blocks, _exits, _kernel, _scheduler, _dumps, _command, _environment)
_READERS: dict[SourceKind, tuple[_Reader, ...]] = {
    "log": _PRINTED,
    "unknown": _PRINTED,
    "command": (_command,),
    "environment": (_environment, _dumps),
    "nvidia_smi": (_environment,),
    "vitals": (_vitals,),
    "kernel": (_kernel,),
    "slurm": (_scheduler,),
    "kubernetes": (_kubernetes,),
}
