"""`firstfault plan`: what a launch command will really start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.gpu_count import GpuCount
from firstfault.cli.look import look_options
from firstfault.cli.screen import Color, Screen, find_screen, write

if TYPE_CHECKING:
    from firstfault.launch.expect import Wish
    from firstfault.launch.request import Machine, Request
    from firstfault.model.plan import Plan


@click.command(short_help=COMMANDS["plan"], context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] --")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND... | FILE", required=True)
@click.option("--gpus", type=GpuCount(), metavar="N|FILE", help="GPUs, or what nvidia-smi printed; else nvidia-smi is asked.")
@click.option("--versions", metavar="NAME=VERSION,...", help="Such as accelerate=1.15.0,torch=2.13.0.")
@click.option("--python", metavar="INTERPRETER", help="The interpreter of the run, asked for its versions.")
@click.option("--expect", metavar="TEXT", help='What must come out, such as "4 processes on 1 GPU each, DDP, batch 32".')
@click.option("--diff", metavar="COMMAND", help="Another command in quotes: only what the two start differently.")
@click.option("--check", is_flag=True, help="Check accelerate and DeepSpeed files, and the script if it is named.")
@click.option("--patch", is_flag=True, help="Print the changes that end the findings, for git apply.")
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", help="Default: terminal.")
@look_options
def plan(
    command: tuple[str, ...],
    gpus: int | None,
    versions: str | None,
    python: str | None,
    expect: str | None,
    diff: str | None,
    check: bool,
    patch: bool,
    form: str,
    width: int | None,
    color: Color,
    ascii_only: bool,
) -> int:
    """Say what COMMAND starts: processes, devices, environment, and where each value comes from. Nothing is started.

    FILE is a shell or batch script instead. Exit code 1: the command stops with an error, has findings, or is not what
    --expect says; 3: a fact is missing.
    """
    from firstfault.cli.request import request_of
    from firstfault.cli.survey import installed_versions, survey_machine

    if diff is not None:
        from firstfault.cli.sides import show_difference

        return show_difference(
            diff, command, gpus, versions, form, find_screen(width=width, color=color, ascii_only=ascii_only)
        )
    machine, known = survey_machine(gpus), installed_versions(command, python, versions)
    wishes = _expected(expect)
    made = _check(command, machine, known) if check else _plan(request_of(command, machine, known))
    if patch:
        from firstfault.render.patch import patch_of

        # The fixes of a finding are one of each.
        first = (next((fix for fix in finding.fix if fix.applies), None) for finding in made.findings)
        write(patch_of(fix for fix in first if fix is not None))
    elif form == "json":
        from firstfault.render.json import to_json

        write(to_json(made))
    else:
        write(_text(made, find_screen(width=width, color=color, ascii_only=ascii_only), check=check))
    if not wishes:
        return exit_code(made)
    from firstfault.launch.expect import differences

    unmet = differences(made, wishes)
    for one in unmet:
        click.echo(f"expected {one.name} {one.wanted}: {'not known' if one.found is None else f'it is {one.found}'}", err=True)
    return 1 if any(one.found is not None for one in unmet) else 3 if unmet else 0


def _expected(text: str | None) -> tuple[Wish, ...]:
    if text is None:
        return ()
    from firstfault.launch.expect import read_expectation

    return read_expectation(text)


def _text(made: Plan, screen: Screen, *, check: bool) -> str:
    if check:
        from firstfault.render.plan_findings import render_check as render
    else:
        from firstfault.render.plan import render_plan as render
    return render(made, width=screen.width, color=screen.color, ascii=screen.ascii)


def _plan(request: Request) -> Plan:
    """The plan of the request with its findings."""
    from firstfault.engine.plan_findings import with_findings
    from firstfault.knowledge.pack import load_pack
    from firstfault.launch.plan import plan as make_plan

    return with_findings(make_plan(request), request, load_pack())


def _check(paths: tuple[str, ...], machine: Machine, versions: dict[str, str]) -> Plan:
    """A plan of nothing, with what is wrong with the files."""
    from firstfault.cli.request import read_file
    from firstfault.engine.check_files import check_files
    from firstfault.knowledge.pack import load_pack
    from firstfault.launch.request import Request
    from firstfault.model.plan import Plan

    request = Request(words=(), machine=machine, versions=versions, read=read_file)
    return Plan(tool="files", gpus=machine.gpus, versions=versions, findings=check_files(paths, request, load_pack()))


def exit_code(plan: Plan) -> int:
    """1 where the command stops or goes wrong, 3 where a fact is missing, else 0."""
    stops = plan.error is not None and plan.error.code != 0
    if stops or plan.findings or (plan.rank0 is not None and plan.rank0.error is not None):
        return 1
    return 3 if plan.unknown or plan.tool is None else 0
