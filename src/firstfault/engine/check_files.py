"""Findings of configuration files alone (`plan --check`): each with its file and line."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from firstfault.engine.plan_findings import held_against, said_by
from firstfault.errors import UnreadableInputError
from firstfault.ingest.plan_files import report_of
from firstfault.launch.deepspeed_file import file_facts
from firstfault.launch.plan import plan as make_plan
from firstfault.launch.plan_facts import fact, facts_of_plan
from firstfault.launch.plan_script import Script
from firstfault.model.fact import FactSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.knowledge.schema import Pack
    from firstfault.launch.request import Request
    from firstfault.model.bundle import SourceReport
    from firstfault.model.plan import Plan, PlanFinding

_SCRIPT = "<script>"


def check_files(paths: Sequence[str], request: Request, pack: Pack) -> tuple[PlanFinding, ...]:
    """What is wrong with accelerate and DeepSpeed files, held against each other and against a script among `paths`.

    `request` has the machine, the versions and the reader. UnreadableInputError for a path that is not there or is neither.
    """
    script = next((path for path in paths if path.endswith(".py")), None)
    text = request.read(script) if script else None
    reports = [_report(path, request) for path in paths if path != script]
    found: list[PlanFinding] = []
    world: int | None = None
    for report in reports:
        if report.source.kind == "accelerate_config":
            words = ("accelerate", "launch", "--config_file", report.source.path, script or _SCRIPT)
            asked = msgspec.structs.replace(request, words=words)
            planned = make_plan(asked)
            world = planned.world_size
            facts = facts_of_plan(planned, asked)
            opened = held_against(facts, said_by(planned), partial(_alone, report), pack)
            found += [_placed(one, planned, report) for one in opened]
    framework = Script(script or "", (), text).framework
    for report in reports:
        if report.source.kind == "deepspeed_config":
            found += _of_deepspeed(report, world, framework, pack)
    return tuple(found)


def _alone(report: SourceReport) -> tuple[SourceReport, ...]:
    return (report,)


def _report(path: str, request: Request) -> SourceReport:
    report = report_of(path, request.read(path))
    if report is None:
        raise UnreadableInputError("the file cannot be read", where=path, hint="hand over accelerate and DeepSpeed files")
    return report


def _of_deepspeed(report: SourceReport, world: int | None, framework: str | None, pack: Pack) -> list[PlanFinding]:
    facts = FactSet()
    for known in file_facts(report, world, framework):
        facts.add(known)
    broken = tuple(f"json.decoder.JSONDecodeError: {note.what}" for note in report.notes if note.what.startswith("not JSON"))
    if broken:
        facts.add(fact("plan.error_type", "JSONDecodeError", report.notes[0].where))
        facts.add(fact("plan.error", report.notes[0].what, report.notes[0].where))
    found = held_against(facts, broken, partial(_alone, report), pack)
    return [msgspec.structs.replace(one, where=one.where or report.notes[0].where) if broken else one for one in found]


def _placed(finding: PlanFinding, planned: Plan, report: SourceReport) -> PlanFinding:
    """The finding with its line: the launcher names a key, a value or a line in its message."""
    if ":" in finding.where or planned.error is None:
        return finding
    if report.notes and not report.settings:
        return msgspec.structs.replace(finding, where=report.notes[0].where)
    message = planned.error.message
    for setting in report.settings:
        key = setting.key.rpartition(".")[2]
        named = f"'{key}'" in message or f"`{key}`" in message or f"--{key}`" in message
        if named or (isinstance(setting.value, str) and setting.value and f"'{setting.value}' is not" in message):
            return msgspec.structs.replace(finding, where=str(setting.span))
    odd = next((one for one in report.settings if _is_of_wrong_type(one.key, one.value, one.text)), None)
    return msgspec.structs.replace(finding, where=str(odd.span) if odd else report.source.path)


def _is_of_wrong_type(key: str, value: object, text: str) -> bool:
    """True for a key that accelerate takes for a text, and that YAML reads as something else."""
    if key not in ("mixed_precision", "gpu_ids", "distributed_type", "main_process_ip"):
        return False
    return (value is not None and not isinstance(value, str)) or text.partition(":")[2].strip().startswith("[")
