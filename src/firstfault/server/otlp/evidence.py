"""What is kept of a run as a capsule: each stream is a source, its last line stands behind its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.ingest.capsule import Capsule, CapsuleLine, CapsuleSource
from firstfault.server.records import Run, StreamLine, StreamState


def capsule_of(run: Run, states: Iterable[StreamState], lines: Iterable[StreamLine]) -> Capsule:
    """The capsule of a run; it is redacted already."""
    by_stream: dict[str, list[StreamLine]] = {}
    for line in lines:
        by_stream.setdefault(line.stream, []).append(line)
    sources = tuple(_source(run, state, by_stream.get(state.name, [])) for state in states)
    return Capsule(sources=sources, notes=("only evidence and the last line of each stream were kept",))


def _source(run: Run, state: StreamState, lines: Sequence[StreamLine]) -> CapsuleSource:
    kept = [CapsuleLine(line.number, line.offset, line.text) for line in lines]
    if not kept or kept[-1].number < state.lines:
        # Where the last line begins is not kept; its length in bytes is that of its text at most.
        start = max(state.size_bytes - len(state.last_text.encode()) - 1, kept[-1].offset + 1 if kept else 0)
        kept.append(CapsuleLine(state.lines, start, state.last_text))
    stretches: list[list[CapsuleLine]] = []
    for line in kept:
        if stretches and line.number == stretches[-1][-1].number + 1:
            stretches[-1].append(line)
        else:
            stretches.append([line])
    return CapsuleSource(
        path=f"{run.name}/{state.name}",
        bytes=state.size_bytes,
        lines=state.lines,
        ended=True,
        whole=len(kept) == state.lines,
        stretches=tuple(tuple(stretch) for stretch in stretches),
    )
