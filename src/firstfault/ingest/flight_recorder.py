"""Flight-recorder dumps of torch: pickle or JSON, versions 2.0 to 2.10, under any file name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.ingest.dump_head import numbers_of
from firstfault.ingest.flight_record import members_of, record_of
from firstfault.ingest.pickle_limits import MAX_PICKLE_BYTES, UnsafePickleError
from firstfault.model.bundle import Note, Source, SourceReport
from firstfault.model.span import SourceSpan

if TYPE_CHECKING:
    from firstfault.ingest.handed import Handed
    from firstfault.ingest.open import Opened


def read_flight_recorder(handed: Handed, opened: Opened) -> SourceReport:
    """What a dump says of its rank. A dump that cannot be read, or is nobody's, is a note."""
    data = opened.read(MAX_PICKLE_BYTES + 1) or b""
    source = Source(
        id=handed.path,
        path=handed.path,
        kind="flight_recorder",
        place=handed.place,
        size_bytes=len(data),
        ends=opened.whole,
    )
    notes = list(opened.notes)
    try:
        dump = _decoded(data)
    except UnsafePickleError as error:
        notes.append(Note(handed.path, f"flight-recorder dump not read: {error}", fatal=True))
        return SourceReport(source=source, notes=tuple(notes))
    rank = _rank_of(dump, handed, notes)
    if rank is None:
        notes.append(
            Note(handed.path, "flight-recorder dump not used: neither its name nor its groups say which rank wrote it")
        )
        return SourceReport(source=source, notes=tuple(notes))
    place = msgspec.structs.replace(handed.place, rank=rank)
    record, found = record_of(dump, rank, SourceSpan(handed.path, 1, 0), place)
    notes += [Note(handed.path, what) for what in found]
    return SourceReport(
        source=msgspec.structs.replace(source, place=place), records=(record,), ranks=(rank,), notes=tuple(notes)
    )


def _decoded(data: bytes) -> Mapping[str, Any]:
    if data[:1] == b"\x80":
        # Costs a cold start that a run without dumps does not pay.
        import gc

        from firstfault.ingest.safe_pickle import load_plain

        collecting = gc.isenabled()
        # Containers of plain data only grow here: looking for cycles among them takes a third of the time.
        gc.disable()
        try:
            found = load_plain(data)
        finally:
            if collecting:
                gc.enable()
    else:
        if len(data) > MAX_PICKLE_BYTES:
            raise UnsafePickleError(f"is larger than {MAX_PICKLE_BYTES >> 20} MiB")
        try:
            found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise UnsafePickleError(f"is damaged ({error})") from error
    if not isinstance(found, dict):
        raise UnsafePickleError("holds something else than a dump")
    return found


def _rank_of(dump: Mapping[str, Any], handed: Handed, notes: list[Note]) -> int | None:
    """The rank that wrote it: a number of its name that is a member of all its groups, or their only common member."""
    common: set[int] | None = None
    for members in _memberships(dump):
        common = set(members) if common is None else common & set(members)
    named = [] if handed.place.rank is None else [handed.place.rank]
    numbers = [*numbers_of(handed.path), *named]
    if not common:
        return numbers[0] if numbers else None
    fitting = [number for number in numbers if number in common]
    if fitting:
        return fitting[0]
    if len(common) > 1:
        if numbers:
            notes.append(Note(handed.path, f"rank {numbers[0]} of its name is no member of its groups"))
        return None
    only = next(iter(common))
    if numbers:
        notes.append(Note(handed.path, f"is the dump of rank {only} by its groups, not of rank {numbers[0]} by its name"))
    return only


def _memberships(dump: Mapping[str, Any]) -> Iterator[tuple[int, ...]]:
    groups = dump.get("pg_config")
    for group in groups.values() if isinstance(groups, dict) else ():
        members = members_of(group)
        if members:
            yield members
