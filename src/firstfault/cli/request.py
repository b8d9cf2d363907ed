"""The request of a plan, made of the words that were typed, this shell's variables and this machine's files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from firstfault.errors import UsageError

if TYPE_CHECKING:
    from firstfault.launch.request import Machine, Request
    from firstfault.launch.values import Given

MAX_FILE_BYTES = 1 << 20
_SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".txt")
_KNOWN = "python, accelerate launch, torchrun, deepspeed, srun and mpirun are known, and what only runs one of these."
_HINT = "Give the command itself: firstfault plan -- COMMAND..."


def request_of(command: tuple[str, ...], machine: Machine, versions: dict[str, str]) -> Request:
    """The request of the words, or of the one script that they name; UsageError for a script without a launch.

    One word that is no file and has spaces is a whole command in quotes.
    """
    only = command[0] if len(command) == 1 else ""
    text = read_file(only) if only else None
    if text is not None:
        return request_of_text(text, only, machine, versions)
    if len(only.split()) > 1:
        return request_of_text(only, "", machine, versions)
    if only.endswith(_SCRIPTS):
        raise UsageError(f"{only} cannot be read", hint=_HINT)
    return _request(command, _variables(), machine, versions, ())


def request_of_text(text: str, name: str, machine: Machine, versions: dict[str, str]) -> Request:
    """The request of the launch in a script `name`, or in one line of shell (`name` empty); UsageError without one."""
    from msgspec.structs import replace

    from firstfault.ingest.command import without_prompts
    from firstfault.launch.script import launch_of, read_script

    text = without_prompts(text)
    found = launch_of(read_script(text, name=name, environment=_variables(), read=read_file))
    if found is None:
        part = f"the first {MAX_FILE_BYTES >> 20} MiB of " if len(text) >= MAX_FILE_BYTES else ""
        what = f"no launch command is seen in {part}{name}" if name else f"no launch that is known here: {text.strip()[:200]}"
        raise UsageError(what, hint=_HINT if name else _behind(text))
    notes: tuple[str, ...] = found.notes
    if name or found.wrappers:
        passed = f"behind {', '.join(found.wrappers)}" if found.wrappers else ""
        notes = (f"the command {', '.join(filter(None, (f'of {found.where}' if name else '', passed)))}", *notes)
    return replace(_request(found.words, dict(found.environment), machine, versions, notes), script=name)


def _behind(text: str) -> str:
    """What to do: plan what an unknown program may run, or give a launcher that is known."""
    from shlex import join

    from firstfault.ingest.shell import split_commands
    from firstfault.launch.wrappers import is_launcher

    for command in split_commands(text)[:20]:
        at = next((place for place in range(1, len(command.words)) if is_launcher(command.words[place:])), None)
        if at is not None:
            return f"If {command.words[0]} runs what stands behind it: firstfault plan -- {join(command.words[at:])}"
    return _KNOWN


def read_file(path: str) -> str | None:
    """The text of a file, cut at `MAX_FILE_BYTES`; None where there is none that can be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def _variables() -> dict[str, Given]:
    from firstfault.launch.values import Given

    return {name: Given(value, "variable", name) for name, value in os.environ.items()}


def _request(
    words: tuple[str, ...],
    environment: dict[str, Given],
    machine: Machine,
    versions: dict[str, str],
    notes: tuple[str, ...],
) -> Request:
    from firstfault.launch.request import Request

    return Request(
        words=words,
        environment=environment,
        machine=machine,
        versions=versions,
        read=read_file,
        home=os.path.expanduser("~"),  # noqa: PTH111 - pathlib costs a fifth of the cold start
        directory=os.getcwd(),  # noqa: PTH109
        notes=notes,
    )
