"""The bundled failed runs that a visitor can try."""

from __future__ import annotations

from litestar.exceptions import NotFoundException

from firstfault.ingest.discover import discover
from firstfault.ingest.excerpt import is_text
from firstfault.ingest.relative import relative_names
from firstfault.trial.examples import find_examples


def sample_titles() -> list[tuple[str, str]]:
    """Name and title of each, in the order of the index."""
    _, index = find_examples()
    return [(name, str(about.get("title", name))) for name, about in index.items()]


def sample_files(name: str) -> list[tuple[str, bytes]]:
    """Path and content of a sample's text files; NotFoundException if there is no such sample."""
    folder, index = find_examples()
    if name not in index:
        raise NotFoundException(f"there is no sample {name}")
    handed, _ = discover([folder / name])
    names = relative_names([item.path for item in handed])
    read = [(path, item.location.read_bytes()) for path, item in zip(names, handed, strict=True) if item.location]
    return [(path, data) for path, data in read if is_text(data[: 64 << 10])]
