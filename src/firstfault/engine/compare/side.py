"""One side of a comparison: a command with its plan, or a run with its diagnosis, its settings and its curve."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from firstfault.engine.compare.secret import without_secrets
from firstfault.engine.handed_over import shows_run
from firstfault.engine.investigate import Examined, examine
from firstfault.engine.lookup import Known
from firstfault.engine.plan_findings import PlanKnown, said_by, with_findings
from firstfault.ingest.command import read_command
from firstfault.ingest.context import Context
from firstfault.ingest.curve import Curve
from firstfault.ingest.lines import Line
from firstfault.ingest.plan_files import files_of
from firstfault.knowledge.schema import Pack
from firstfault.launch.plan import plan as make_plan
from firstfault.launch.plan_facts import facts_of_plan
from firstfault.launch.request import Machine, Request
from firstfault.launch.script import launch_of, read_script
from firstfault.launch.values import Given
from firstfault.launch.view import Launch, basename, launches
from firstfault.model.bundle import Bundle, Source
from firstfault.model.comparison import Ending, Subject
from firstfault.model.fact import FactSet, Setting
from firstfault.model.plan import Plan

_PLANNED_PACKAGES = ("accelerate", "torch", "transformers", "deepspeed")


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one side. `known` answers the conditions of entries, `facts` are its facts.

    `examined` is the diagnosis of a run and the way to it. `settings` were read in its files; `environment` are the variables
    of a command. `kinds` are those of the sources.
    """

    subject: Subject
    known: Known | PlanKnown
    examined: Examined | None = None
    facts: FactSet
    plan: Plan | None = None
    settings: tuple[Setting, ...] = ()
    environment: dict[str, Given] | None = None
    kinds: frozenset[str] = frozenset()
    bundle: Bundle = Bundle(reports=())
    curve: Curve = Curve()
    notes: tuple[str, ...] = ()


def side_of_command(name: str, request: Request, pack: Pack, *, fails: bool | None = None) -> Side:
    """The side of a command, from its plan; `fails` is what the reader says of it, None if nothing."""
    plan = with_findings(make_plan(request), request, pack)
    facts = facts_of_plan(plan, request)
    reports = files_of(plan, request.read)
    first = plan.findings[0] if plan.findings else None
    stop = plan.error or (plan.rank0.error if plan.rank0 else None)
    ending: Ending = "stops" if stop else "goes_wrong" if first else "not_seen"
    subject = Subject(
        name=without_secrets(name),
        kind="command",
        ending=ending if stop else _told(ending, fails),
        told=fails is not None and not stop,
        entry=first.entry if first else None,
        title=first.title if first else "",
        verdict=first.verdict if first else None,
        cause=f"{stop.type}: {stop.message}" if stop else first.text if first else "",
        command=without_secrets(" ".join(plan.command)),
        files=len(reports),
        lines=sum(report.source.lines for report in reports),
    )
    return Side(
        subject=subject,
        known=PlanKnown(facts, said_by(plan), pack),
        facts=facts,
        plan=plan,
        settings=(*_typed(plan), *(setting for report in reports for setting in report.settings)),
        environment=dict(request.environment),
        kinds=frozenset(report.source.kind for report in reports),
        bundle=Bundle(reports=reports),
        notes=tuple(plan.notes),
    )


def _typed(plan: Plan) -> tuple[Setting, ...]:
    """The script and its arguments; the launcher's own options stand in the plan."""
    text = shlex.join(plan.command)
    line = Line(text=text, raw=text, offset=0, number=1)
    read = read_command([line], Context(source=Source(id="", path="", kind="command")))
    return tuple(setting for setting in read if setting.family == "arguments" or setting.key == "script")


def side_of_run(name: str, bundle: Bundle, curve: Curve, pack: Pack, *, fails: bool | None = None) -> Side:
    """The side of a run, from its diagnosis; `fails` is what the reader says of it, where the run does not show it."""
    examined = examine(bundle, pack)
    diagnosis = examined.diagnosis
    settings = tuple(setting for report in bundle.reports for setting in report.settings)
    command = examined.known.facts.value("launch.command")
    shown = _ending(examined, printed=shows_run(bundle))
    subject = Subject(
        name=name,
        kind="run",
        ending=shown if shown == "fails" else _told(shown, fails),
        told=fails is not None and shown == "not_seen",
        entry=diagnosis.entry,
        title=diagnosis.title,
        verdict=diagnosis.verdict,
        cause=diagnosis.cause,
        command=without_secrets(str(command)) if command else "",
        files=len({report.source.path for report in bundle.reports}),
        lines=sum(report.source.lines for report in bundle.reports),
    )
    return Side(
        subject=subject,
        known=examined.known,
        examined=examined,
        facts=examined.known.facts,
        plan=_plan_of(bundle, settings),
        settings=settings,
        kinds=frozenset(report.source.kind for report in bundle.reports),
        bundle=bundle,
        curve=curve,
        notes=diagnosis.notes,
    )


def _told(ending: Ending, fails: bool | None) -> Ending:
    return ending if fails is None else "fails" if fails else "ends_well"


def _ending(examined: Examined, *, printed: bool) -> Ending:
    """How the run ends; without anything that it `printed`, only how it is started can be wrong."""
    diagnosis = examined.diagnosis
    sure = diagnosis.verdict in ("established", "likely")
    if not printed:
        return "goes_wrong" if sure else "not_seen"
    if diagnosis.verdict == "no_failure":
        return "ends_well"
    return "fails" if sure or diagnosis.initiating is not None or diagnosis.entry is not None else "not_seen"


def _plan_of(bundle: Bundle, settings: Sequence[Setting]) -> Plan | None:
    """The plan of the one command of a run, if everything that it reads was handed over too."""
    found = launches(settings, None)
    if len(found) != 1 or found[0].elided:
        return None
    request = _request(found[0], bundle, settings)
    if request is None:
        return None
    plan = make_plan(request)
    file = next((origin for origin in plan.origins if origin.name == "config_file"), None)
    unread = plan.tool == "accelerate" and (file is None or file.value is None)
    return None if unread or plan.error is not None or plan.tool is None else plan


def _request(launch: Launch, bundle: Bundle, settings: Sequence[Setting]) -> Request | None:
    texts = {basename(report.source.path): report.text for report in bundle.reports if report.text is not None}
    environment = {
        key: Given(str(setting.value), "variable", str(setting.span))
        for key, setting in launch.environment.items()
        if setting.value is not None
    }

    def read(path: str) -> str | None:
        return texts.get(basename(path))

    found = launch_of(read_script(launch.launcher.text, name="", environment=environment, read=read))
    if found is None:
        return None
    packages = {setting.key: str(setting.value) for setting in settings if setting.family == "package"}
    counts = {setting.value for setting in settings if (setting.family, setting.key) == ("environment", "gpu.count")}
    count = counts.pop() if len(counts) == 1 else None
    return Request(
        words=found.words,
        environment=dict(found.environment),
        machine=Machine(gpus=count if isinstance(count, int) else None),
        versions={name: packages[name] for name in _PLANNED_PACKAGES if name in packages},
        read=read,
    )
