"""`firstfault bench`: how good the answers are on labelled investigations."""

from __future__ import annotations

from pathlib import Path

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.screen import write


@click.group(short_help=COMMANDS["bench"])
def bench() -> None:
    """Hold the answers against labels."""


@bench.command(short_help="Diagnose labelled cases and print the scoreboard.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--confusion", is_flag=True, help="Also list which entries were taken for which.")
@click.option("--only", metavar="PREFIX", default="", help="Only cases whose name begins so.")
def cases(folder: Path, confusion: bool, only: str) -> int:
    """Diagnose every case below DIR and print the scoreboard.

    A case is a folder with input/ and expected.yaml. Exit code 1 if an established answer is wrong.
    """
    from firstfault.engine.investigate import investigate
    from firstfault.ingest.bundle import gather
    from firstfault.knowledge.pack import load_pack
    from firstfault.trial.judgement import judge
    from firstfault.trial.label import read_cases
    from firstfault.trial.scoreboard import scoreboard

    pack = load_pack()
    chosen = [case for case in read_cases(folder) if case.name.startswith(only)]
    judgements = [judge(case, investigate(gather([case.input], pack), pack)) for case in chosen]
    write(scoreboard(judgements, confusion=confusion))
    return 1 if any(judgement.false_established for judgement in judgements) else 0
