"""The pack: all knowledge in one value, compiled from the data files or decoded from the bytes of an installation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firstfault.errors import KnowledgeError
from firstfault.knowledge.schema import Entry, EntryBody, Pack, Signal

if TYPE_CHECKING:
    from firstfault.knowledge.problems import Problems

PACKED = Path(__file__).with_name("pack.msgpack")
SOURCES = Path(__file__).resolve().parents[3]
REDACTION_FILE = "redaction.toml"
NOT_SIGNALS = frozenset({REDACTION_FILE})


@lru_cache(maxsize=1)
def load_pack() -> Pack:
    """All knowledge: the packed file of an installation, or the data files of the source tree (kept compiled in `build/`)."""
    if PACKED.is_file():
        return decode_pack(PACKED.read_bytes())
    if not (SOURCES / "encyclopedia").is_dir():
        raise KnowledgeError("the knowledge pack is missing", where=str(PACKED), hint="reinstall firstfault")
    return _load_cached(SOURCES)


def compile_pack(root: Path) -> Pack:
    """The pack of the data files below `root`; one KnowledgeError lists every error with its file and line."""
    # The readers are needed for compiling only: an installation decodes.
    from firstfault.knowledge.causal import read_causal
    from firstfault.knowledge.entry import read_entry
    from firstfault.knowledge.fact_list import read_facts
    from firstfault.knowledge.problems import Problems
    from firstfault.knowledge.redaction import read_rules
    from firstfault.knowledge.signal import read_signals

    problems = Problems()
    signals: list[Signal] = []
    entries: dict[str, Entry] = {}
    bodies: dict[str, msgspec.Raw] = {}
    for path in _signal_files(root):
        signals += read_signals(_text(path, problems), f"signals/{path.name}", problems)
    for duplicate in _duplicates([signal.id for signal in signals]):
        for signal in signals:
            if signal.id == duplicate:
                problems.add(signal.source, f"the signal id `{duplicate}` is used twice")
    masks = root / "signals" / REDACTION_FILE
    rules = read_rules(_text(masks, problems), f"signals/{REDACTION_FILE}", problems) if masks.is_file() else ()
    folder = root / "encyclopedia"
    causal = read_causal(_text(folder / "explains.toml", problems), "encyclopedia/explains.toml", problems)
    classes = [fault_class.id for fault_class in causal.classes]
    facts = read_facts(_text(folder / "facts.toml", problems), "encyclopedia/facts.toml", problems, classes)
    for path in _entry_files(root):
        file = f"encyclopedia/{path.parent.name}/{path.name}"
        entry, body = read_entry(_text(path, problems), file, problems)
        if entry.id in entries:
            problems.add(f"{file}:1", f"the entry id `{entry.id}` exists already in {entries[entry.id].source}")
        entries[entry.id] = entry
        bodies[entry.id] = msgspec.Raw(msgspec.msgpack.encode(body))
    for entry in entries.values():
        if _stands_below_itself(entry, entries):
            problems.add(f"{entry.source}:1", f"`refines` of `{entry.id}` leads in a circle")
    problems.raise_if_any()
    redaction = msgspec.Raw(msgspec.msgpack.encode(rules))
    return Pack(signals=tuple(signals), facts=facts, causal=causal, entries=entries, bodies=bodies, redaction=redaction)


def body(pack: Pack, entry_id: str) -> EntryBody:
    """What a person reads of an entry, and its tests."""
    return msgspec.msgpack.decode(pack.bodies[entry_id], type=EntryBody)


def encode_pack(pack: Pack) -> bytes:
    """The pack as bytes; equal data files give equal bytes."""
    return msgspec.msgpack.encode(pack)


def decode_pack(data: bytes) -> Pack:
    """The pack that `encode_pack` wrote."""
    try:
        return msgspec.msgpack.decode(data, type=Pack)
    except msgspec.MsgspecError as error:
        raise KnowledgeError(f"the knowledge pack is damaged: {error}", hint="reinstall firstfault") from error


def _text(path: Path, problems: Problems) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problems.add(str(path), f"cannot be read: {error}")
        return ""


def _signal_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "signals").glob("*.toml") if path.name not in NOT_SIGNALS)


def _entry_files(root: Path) -> list[Path]:
    return sorted((root / "encyclopedia").glob("*/*.md"))


def _duplicates(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _stands_below_itself(entry: Entry, entries: dict[str, Entry]) -> bool:
    parent, steps = entry.refines, 0
    while parent and parent in entries and steps <= len(entries):
        if parent == entry.id:
            return True
        parent, steps = entries[parent].refines, steps + 1
    return False


def _load_cached(root: Path) -> Pack:
    cache = root / "build" / f"pack-{_fingerprint(root)}.msgpack"
    try:
        return decode_pack(cache.read_bytes())
    except (OSError, KnowledgeError):
        pack = compile_pack(root)
    # A tree that cannot be written to works as well, only slower.
    try:
        cache.parent.mkdir(exist_ok=True)
        for old in cache.parent.glob("pack-*.msgpack"):
            old.unlink(missing_ok=True)
        partial = cache.with_suffix(f".{os.getpid()}")
        partial.write_bytes(encode_pack(pack))
        partial.replace(cache)
    except OSError:
        pass
    return pack


def _fingerprint(root: Path) -> str:
    """Changes with any data file and with the code that compiles them."""
    from importlib.util import source_hash

    state = "\n".join(f"{path.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}" for path, stat in _inputs(root))
    return source_hash(state.encode()).hex()


def _inputs(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    data = [root / "encyclopedia" / name for name in ("facts.toml", "explains.toml")]
    data.append(root / "signals" / REDACTION_FILE)
    code = sorted((root / "src" / "firstfault" / "knowledge").glob("*.py"))
    for path in (*_signal_files(root), *data, *_entry_files(root), *code):
        if path.is_file():
            yield path, path.stat()
