"""The two sides of a comparison, from what was typed: a command, a script that holds one, or the files of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from firstfault.errors import UnreadableInputError, UsageError

if TYPE_CHECKING:
    from firstfault.cli.screen import Screen
    from firstfault.engine.compare.side import Side
    from firstfault.knowledge.schema import Pack
    from firstfault.launch.request import Machine
    from firstfault.model.comparison import Comparison

MAX_GPUS = 1_024
# Files that show how a run is started, and nothing of how it went.
_COMMAND_KINDS = frozenset({"command"})


def compare_inputs(
    a: Sequence[str],
    b: Sequence[str],
    *,
    fails: str | None = None,
    gpus: str | None = None,
    versions: str | None = None,
) -> Comparison:
    """The comparison of two inputs, each one command or the files of one run.

    UnreadableInputError for a side of which nothing can be read, UsageError for one that starts no training.
    """
    from firstfault.cli.survey import installed_versions, survey_machine
    from firstfault.engine.compare.comparison import compare
    from firstfault.knowledge.pack import load_pack

    begin = time.perf_counter()
    pack = load_pack()
    counts = _counts(gpus)
    known = installed_versions(("python",), None, versions)
    machines = [survey_machine(count) for count in counts]
    left = _side(a, machines[0], known, pack, fails=None if fails is None else fails == "a")
    right = _side(b, machines[1], known, pack, fails=None if fails is None else fails == "b")
    return compare(left, right, pack, elapsed_s=time.perf_counter() - begin)


def show_difference(
    other: str, command: Sequence[str], gpus: int | None, versions: str | None, form: str, screen: Screen
) -> int:
    """Writes what `other` (A) and `command` (B) start differently; 0 if they start the same, 1 if not, 3 if that is not known.

    UsageError for words that start no training.
    """
    from shlex import join

    from firstfault.cli.screen import write
    from firstfault.render.comparison import render_difference
    from firstfault.render.json import to_json

    typed = command[0] if len(command) == 1 else join(command)
    made = compare_inputs([other], [typed], gpus=None if gpus is None else str(gpus), versions=versions)
    text = render_difference(made, width=screen.width, color=screen.color, ascii=screen.ascii)
    write(to_json(made) if form == "json" else text)
    return 3 if made.missing else 1 if made.differences else 0


def _counts(text: str | None) -> tuple[int | None, int | None]:
    """The numbers of GPUs of A and of B."""
    if text is None:
        return None, None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(part.isdecimal() and len(part) < 5 and int(part) <= MAX_GPUS for part in parts):
        raise UsageError(f"--gpus takes N, or N,M for A and B, each at most {MAX_GPUS}, and not {text}")
    return int(parts[0]), int(parts[-1])


def _side(inputs: Sequence[str], machine: Machine, versions: dict[str, str], pack: Pack, *, fails: bool | None) -> Side:
    from firstfault.cli.request import read_file, request_of_text
    from firstfault.engine.compare.side import side_of_command, side_of_run
    from firstfault.ingest.bundle import gather
    from firstfault.ingest.curve import curve_of

    name = inputs[0] if len(inputs) == 1 else f"{inputs[0]} and {len(inputs) - 1} more"
    if len(inputs) == 1 and not os.access(name, os.F_OK):
        if not _is_command(name):
            raise UnreadableInputError(
                "is no file, no folder and no command", where=name, hint="Quote a command of several words."
            )
        return side_of_command(name, request_of_text(name, "", machine, versions), pack, fails=fails)
    bundle = gather(inputs, pack)
    kinds = {report.source.kind for report in bundle.reports}
    text = read_file(name) if len(inputs) == 1 and kinds <= _COMMAND_KINDS else None
    if text is not None:
        return side_of_command(name, request_of_text(text, name, machine, versions), pack, fails=fails)
    return side_of_run(name, bundle, curve_of(bundle), pack, fails=fails)


def _is_command(text: str) -> bool:
    """True for words that a shell would run, false for a path that does not exist."""
    return " " in text.strip() or "=" in text
