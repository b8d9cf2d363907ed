"""The fingerprint of a failure: equal for the same failure of another run, another rank, another day."""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import PurePosixPath

from firstfault.model.diagnosis import Diagnosis, Evidence

NO_FAILURE = "none"
"""The fingerprint of an answer without a failure."""
_FRAME = re.compile(r'File "([^"]+)", line \d+, in (\S+)')
_CHANGING = re.compile(r"0x[0-9a-fA-F]+|‹[^›]*›|(?:/[\w.@+-]+)+|\b[0-9a-f]{7,}\b|\d[\d.,:_]*(?:\s?[KMGT]i?B)?\b")
_LIBRARY = ("site-packages", "dist-packages", "/lib/python")


def fingerprint(diagnosis: Diagnosis) -> str:
    """Sixteen hexadecimal digits from the entry, the messages of the first failure and the code that raised it.

    Numbers, addresses, paths, ranks, hosts and times do not count: they differ between two runs of one fault.
    """
    if diagnosis.verdict == "no_failure":
        return NO_FAILURE
    first = _first_evidence(diagnosis)
    parts = [
        diagnosis.entry or (diagnosis.path[-1] if diagnosis.path else ""),
        *sorted({item.signal or _message(item.text) for item in first}),
        *sorted({place for item in first if (place := _own_code(item.text))}),
    ]
    return blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _first_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    if diagnosis.initiating is None:
        return []
    cited = set(diagnosis.initiating.evidence)
    return [item for item in diagnosis.evidence if item.id in cited]


def _message(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return "" if _FRAME.search(line) else _CHANGING.sub("#", line)


def _own_code(text: str) -> str:
    """`train.py:forward` for a frame outside of libraries."""
    found = _FRAME.search(text)
    if found is None or any(mark in found[1] for mark in _LIBRARY):
        return ""
    return f"{PurePosixPath(found[1]).name}:{found[2]}"
