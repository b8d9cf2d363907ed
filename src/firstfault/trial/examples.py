"""The failed runs that come with firstfault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firstfault.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "_examples", _PACKAGE.parents[1] / "examples")


def find_examples() -> tuple[Path, dict[str, dict[str, Any]]]:
    """The folder of the examples, and what its index says of each."""
    import tomllib

    for folder in _PLACES:
        index = folder / "index.toml"
        if index.is_file():
            return folder, tomllib.loads(index.read_text(encoding="utf-8"))
    raise UsageError("this installation has no examples", hint="Reinstall firstfault.")
