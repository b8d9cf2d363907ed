"""Golden files: what the user sees, reviewed as a diff. `UPDATE_GOLDEN=1 pytest` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check(name: str, text: str | bytes) -> None:
    """Compares `text` exactly with `tests/golden/<name>`."""
    path = FOLDER / name
    data = text if isinstance(text, bytes) else text.encode()
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_bytes(data)
    assert path.is_file(), f"{path} is missing: run with UPDATE_GOLDEN=1 and read the result"
    assert data.decode() == path.read_bytes().decode()
