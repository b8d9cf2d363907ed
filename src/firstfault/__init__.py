"""Finds the first fault of a failed training run: which rank failed first, why, the exact change, and how to verify it.

    import firstfault

    diagnosis = firstfault.diagnose("logs/")
    print(diagnosis.verdict, diagnosis.title, diagnosis.cause)

Everything stays on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from firstfault.version import __version__

if TYPE_CHECKING:
    from firstfault.errors import FirstfaultError, KnowledgeError, UnreadableInputError, UsageError
    from firstfault.model.comparison import Comparison, Difference, Explanation
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
    from firstfault.model.plan import Plan

__all__ = [
    "Alternative",
    "Collateral",
    "Comparison",
    "Diagnosis",
    "Difference",
    "Evidence",
    "Explanation",
    "FirstfaultError",
    "Fix",
    "Initiating",
    "KnowledgeError",
    "Missing",
    "OtherFinding",
    "Plan",
    "Reason",
    "SourceSummary",
    "TimelineEntry",
    "UnreadableInputError",
    "UsageError",
    "Verification",
    "__version__",
    "compare",
    "diagnose",
    "plan",
]

# Loaded when first asked for: `firstfault --version` needs none of it.
_ERRORS = frozenset({"FirstfaultError", "KnowledgeError", "UnreadableInputError", "UsageError"})
_COMPARISON = frozenset({"Comparison", "Difference", "Explanation"})
_LAZY = frozenset(__all__) - {"__version__", "compare", "diagnose", "plan"}
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


def plan(command: str | Sequence[str], *, gpus: int | None = None, versions: Mapping[str, str] = _NO_FACTS) -> Plan:
    """What a launch command will really start on this machine, with its findings; nothing is started.

    `command` is a line of shell, the path of a script that holds the launch, or the words. `gpus` counts the GPUs (else
    nvidia-smi is asked); `versions` are those of packages by name (else the environment of the command is looked at).
    UsageError for a line or script that starts no training.
    """
    from firstfault.cli.request import read_file, request_of, request_of_text
    from firstfault.cli.survey import installed_versions, survey_machine
    from firstfault.engine.plan_findings import with_findings
    from firstfault.knowledge.pack import load_pack
    from firstfault.launch.plan import plan as make_plan

    machine = survey_machine(gpus)
    words = (command,) if isinstance(command, str) else tuple(command)
    known = dict(versions) or installed_versions(words if len(words) > 1 else ("python",), None, None)
    is_line = isinstance(command, str) and read_file(command) is None
    request = request_of_text(words[0], "", machine, known) if is_line else request_of(words, machine, known)
    return with_findings(make_plan(request), request, load_pack())


def compare(
    a: str | PathLike[str] | Sequence[str | PathLike[str]],
    b: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    gpus: int | tuple[int, int] | None = None,
    versions: Mapping[str, str] = _NO_FACTS,
    fails: Literal["a", "b"] | None = None,
) -> Comparison:
    """What differs between `a` and `b`, and which difference explains that one of them fails.

    Each is a launch command (a line of shell), a script that holds one, a log, a folder, or several files. `gpus` counts
    those of the machine, or of the machines of both; `fails` says which one fails where that cannot be read.
    UnreadableInputError for a side of which nothing can be read, UsageError for one that starts no training.
    """
    from firstfault.cli.sides import compare_inputs

    sides = [[fspath(side)] if isinstance(side, str | PathLike) else [fspath(part) for part in side] for side in (a, b)]
    counts = None if gpus is None else ",".join(map(str, gpus if isinstance(gpus, tuple) else (gpus,)))
    known = ",".join(f"{name}={version}" for name, version in versions.items()) or None
    return compare_inputs(sides[0], sides[1], fails=fails, gpus=counts, versions=known)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "errors" if name in _ERRORS else "model.comparison" if name in _COMPARISON else "model.diagnosis"
    value = getattr(import_module(f"firstfault.{'model.plan' if name == 'Plan' else home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
