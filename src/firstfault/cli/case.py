"""`firstfault case`: a wrong answer becomes a case that the next version must get right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.screen import write
from firstfault.errors import UsageError

_MAX_DIAGNOSIS_BYTES = 32 << 20
_SHOWN = 40


@click.group(short_help=COMMANDS["case"])
def case() -> None:
    """Make labelled cases."""


@case.command(short_help="Make a redacted, labelled case folder.")
@click.argument("inputs", nargs=-1, required=True, metavar="DIAGNOSIS.json|INPUT...")
@click.option("--expected", required=True, metavar="ID", help="The entry that is right, or `none` if nothing failed.")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="The rank that failed first.")
@click.option("--note", default="", metavar="TEXT", help="Why, in a sentence.")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Default: cases/ID, numbered.")
def new(inputs: tuple[str, ...], expected: str, rank: int | None, note: str, output: Path | None) -> int:
    """Write a case folder: input/ with everything masked that identifies, and expected.yaml.

    A saved diagnosis (JSON) stands for the files that it was made of. Nothing is sent.
    """
    from firstfault.knowledge.pack import load_pack
    from firstfault.trial.case_folder import new_case

    entry = None if expected == "none" else expected
    folder = output or _unused(Path("cases"), expected)
    made = new_case(_sources(inputs), load_pack(), folder=folder, expected=entry, rank=rank, note=note)
    lines = [f"written: {made.folder} ({len(made.files)} files, {sum(item.times for item in made.masked)} values masked)"]
    lines += [f"  {item.pseudonym:<14} {item.times:>5} x  {item.rule}" for item in made.masked[:_SHOWN]]
    if len(made.masked) > _SHOWN:
        lines.append(f"  and {len(made.masked) - _SHOWN} more")
    lines += [f"left out: {what}" for what in made.left_out]
    lines += [
        "Masking follows rules and can miss something. Read every file before you give it away:",
        *(f"  {path}" for path in made.files[:_SHOWN]),
        f"Then: firstfault bench cases {made.folder.parent}",
    ]
    write("\n".join(lines) + "\n")
    return 0


def _sources(inputs: Sequence[str]) -> list[str]:
    """The inputs, a saved diagnosis replaced by the files that it names."""
    found: list[str] = []
    for item in inputs:
        for path in _named_by_diagnosis(Path(item)) or (item,):
            if path not in found:
                found.append(path)
    return found


def _named_by_diagnosis(path: Path) -> tuple[str, ...]:
    import msgspec

    from firstfault.model.diagnosis import SCHEMA, Diagnosis

    if path.suffix.lower() != ".json" or not path.is_file() or path.stat().st_size > _MAX_DIAGNOSIS_BYTES:
        return ()
    data = path.read_bytes()
    if SCHEMA.encode() not in data[:200]:
        return ()
    try:
        diagnosis = msgspec.json.decode(data, type=Diagnosis)
    except msgspec.MsgspecError as error:
        raise UsageError(f"not a diagnosis: {error}", where=str(path)) from error
    named = tuple(dict.fromkeys(source.path.partition("#")[0] for source in diagnosis.sources))
    gone = [name for name in named if not Path(name).exists()]
    if gone or not named:
        raise UsageError(
            f"the files of this diagnosis are not here: {', '.join(gone[:3]) or 'it names none'}",
            where=str(path),
            hint="run this where the diagnosis was made, or hand over the logs themselves",
        )
    return named


def _unused(folder: Path, name: str) -> Path:
    path, number = folder / name, 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}"
    return path
