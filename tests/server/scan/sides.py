"""What the engine's scanner and capsule say of folders: what the browser's must say too."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from firstfault.errors import UnreadableInputError
from firstfault.ingest.capsule import encode, gather_capsule
from firstfault.ingest.discover import discover
from firstfault.ingest.excerpt import is_text
from firstfault.ingest.open import open_handed
from firstfault.ingest.relative import relative_names
from firstfault.knowledge.pack import load_pack
from firstfault.scan.scanner import Scanner

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "src" / "firstfault" / "server" / "web" / "static" / "js"
FOLDERS = [
    *sorted(path / "input" for path in (ROOT / "cases").iterdir() if (path / "input").is_dir()),
    *sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir()),
]
PACK = load_pack()
EXACT = 2**53 - 1


class Side(NamedTuple):
    """Path, signal, line, offset and captures of each event, the capsule's bytes, the files by the path they are sent as."""

    events: list[list[Any]]
    capsule: bytes
    files: list[tuple[str, Path]]


def python_side(folder: Path, scanner: Scanner) -> Side | None:
    """None if nothing in the folder may be sent."""
    handed, _ = discover([folder])
    names = relative_names([item.path for item in handed])
    try:
        capsule = encode(gather_capsule([folder], PACK))
    except UnreadableInputError:
        return None
    events: list[list[Any]] = []
    for name, item in zip(names, handed, strict=True):
        with open_handed(item) as opened:
            if opened.head and is_text(opened.head):
                hits = scanner.scan(opened).hits  # type: ignore[arg-type]
                events += [[name, hit.signal.id, hit.line, hit.offset, plain(hit.captures)] for hit in hits]
    files = [(name, item.location.resolve()) for name, item in zip(names, handed, strict=True) if item.location]
    return Side(events, capsule, files)


def plain(captures: dict[str, Any]) -> dict[str, Any]:
    """Captures as JSON has them: numbers that a double cannot hold, or that are none, are written out."""
    return {name: _plain(value) for name, value in captures.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, int) and abs(value) > EXACT else value
