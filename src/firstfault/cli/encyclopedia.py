"""`firstfault encyclopedia`: lint, new and build, for those who write entries."""

from __future__ import annotations

from pathlib import Path

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.group import all_options
from firstfault.cli.screen import write
from firstfault.errors import UsageError

_root_option = click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder that holds encyclopedia/ and signals/; found upwards from here if not given.",
)


@click.group(short_help=COMMANDS["encyclopedia"])
def encyclopedia() -> None:
    """Check, extend and compile the encyclopedia of a source tree."""


@encyclopedia.command(short_help="Check signals, facts and entries.")
@_root_option
def lint(root: Path | None) -> int:
    """Say everything that is wrong in signals, facts and entries, with file and line; exit code 1 if there is an error."""
    from firstfault.knowledge.lint import lint as lint_pack
    from firstfault.knowledge.pack import compile_pack

    pack = compile_pack(_find_root(root))
    issues = lint_pack(pack, all_options())
    for issue in issues:
        write(f"{issue}\n")
    errors = sum(issue.severity == "error" for issue in issues)
    write(
        f"{len(pack.entries)} entries, {len(pack.signals)} signals, {len(pack.facts)} facts: "
        f"{errors} errors, {len(issues) - errors} warnings\n"
    )
    return 1 if errors else 0


@encyclopedia.command(short_help="Write the skeleton of a new entry.")
@click.argument("entry_id", metavar="ID")
@click.option("--title", required=True, help="What is wrong, in one line.")
@click.option("--category", required=True, help="The folder below encyclopedia/: memory, launch, communication ...")
@click.option("--refines", help="The id of the parent in the tree; a root of its own if not given.")
@_root_option
def new(entry_id: str, title: str, category: str, refines: str | None, root: Path | None) -> int:
    """Write the skeleton of a new entry."""
    from firstfault.knowledge.scaffold import new_entry

    path = new_entry(_find_root(root), entry_id, category, refines, title)
    write(f"{path}\nnext: fill it in, then firstfault encyclopedia lint\n")
    return 0


@encyclopedia.command(short_help="Compile the pack that a wheel carries.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE", help="The pack.")
@_root_option
def build(output: Path, root: Path | None) -> int:
    """Compile signals, facts and entries into one pack, as the wheel carries it."""
    from firstfault.knowledge.pack import compile_pack, encode_pack

    pack = compile_pack(_find_root(root))
    write(encode_pack(pack), output)
    write(f"{output}: {len(pack.entries)} entries, {len(pack.signals)} signals, {len(pack.facts)} facts\n")
    return 0


def _find_root(root: Path | None) -> Path:
    here = Path.cwd()
    candidates = [root] if root else [here, *here.parents]
    for candidate in candidates:
        if (candidate / "encyclopedia").is_dir() and (candidate / "signals").is_dir():
            return candidate
    raise UsageError(
        "no encyclopedia here", where=str(root or here), hint="Run it in a source tree of firstfault, or give --root."
    )
