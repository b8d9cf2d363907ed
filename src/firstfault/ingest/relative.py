"""Names of sources as they may be shown elsewhere: without the folders that all of them share."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SEPARATOR = re.compile(r"[\\/]+")


def relative_names(paths: Sequence[str]) -> list[str]:
    """Each path from the folder on that is the last common one; of a single path its last part. A browser does the same."""
    parts = [[part for part in _SEPARATOR.split(path) if part not in ("", ".", "..")] or ["-"] for path in paths]
    shared = 0
    while all(len(item) > shared + 1 for item in parts) and len({item[shared] for item in parts}) == 1:
        shared += 1
    return ["/".join(item[shared:]) for item in parts]
