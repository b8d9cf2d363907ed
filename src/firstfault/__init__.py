"""Finds the first fault of a failed training run: which rank failed first, why, the exact change, and how to verify it.

    import firstfault

    diagnosis = firstfault.diagnose("logs/")
    print(diagnosis.verdict, diagnosis.title, diagnosis.cause)

Everything stays on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from firstfault.version import __version__

if TYPE_CHECKING:
    from firstfault.errors import FirstfaultError, KnowledgeError, UnreadableInputError, UsageError
    from firstfault.model.diagnosis import (
        Alternative,
        Collateral,
        Diagnosis,
        Evidence,
        Fix,
        Initiating,
        Missing,
        OtherFinding,
        Reason,
        SourceSummary,
        TimelineEntry,
        Verification,
    )

__all__ = [
    "Alternative",
    "Collateral",
    "Diagnosis",
    "Evidence",
    "FirstfaultError",
    "Fix",
    "Initiating",
    "KnowledgeError",
    "Missing",
    "OtherFinding",
    "Reason",
    "SourceSummary",
    "TimelineEntry",
    "UnreadableInputError",
    "UsageError",
    "Verification",
    "__version__",
    "diagnose",
]

# Loaded when first asked for: `firstfault --version` needs none of it.
_ERRORS = frozenset({"FirstfaultError", "KnowledgeError", "UnreadableInputError", "UsageError"})
_LAZY = frozenset(__all__) - {"__version__", "diagnose"}
_NO_FACTS: dict[str, str] = {}


def diagnose(
    inputs: str | bytes | PathLike[str] | Sequence[str | PathLike[str]], *, facts: Mapping[str, str] = _NO_FACTS
) -> Diagnosis:
    """What failed first in `inputs`, why, and what to do about it.

    `inputs` are files and folders, or one text: a string of more than one line, or bytes, are the log (or the whole post)
    itself. `facts` answer missing facts, as `--fact NAME=VALUE` does. UnreadableInputError if nothing could be read,
    UsageError for a wrong fact.
    """
    from firstfault.engine.investigate import investigate
    from firstfault.ingest.bundle import gather, gather_text
    from firstfault.knowledge.pack import load_pack

    pack = load_pack()
    if isinstance(inputs, bytes) or (isinstance(inputs, str) and "\n" in inputs):
        return investigate(gather_text(inputs, pack=pack), pack, facts)
    paths = [inputs] if isinstance(inputs, str | PathLike) else list(inputs)
    return investigate(gather([fspath(path) for path in paths], pack), pack, facts)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module("firstfault.errors" if name in _ERRORS else "firstfault.model.diagnosis"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
