"""The plan of a launch that was read among the files of a run: the same planners as for `firstfault plan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from firstfault.launch.accelerate_names import LATEST
from firstfault.launch.request import Machine, Request, Version, version_numbers
from firstfault.launch.values import Given, origin
from firstfault.launch.view import Launch, number
from firstfault.model.fact import Setting
from firstfault.model.plan import Origin, Plan

if TYPE_CHECKING:
    from firstfault.launch.flag_table import Arguments

# Rules that are tried in turn where the version is not known: the newest, then releases that took keys which newer ones refuse.
_VERSIONS: tuple[Version, ...] = (LATEST, (1, 12), (1, 6), (0, 27))
_MANY = 8


def plan_of_launch(
    launch: Launch, *, gpus: int | None, content: Mapping[str, object] | None = None, version: str = ""
) -> Plan | None:
    """The plan of the command with `gpus` GPUs on the machine and this accelerate configuration.

    None where the words were cut, the launcher stops, or its number of GPUs decides what starts and is not known.
    """
    if launch.elided:
        return None
    # With a configuration accelerate looks at no number of GPUs.
    counts = (1, _MANY) if gpus is None and launch.name == "accelerate" and not content else (gpus,)
    plans = [_planned(launch, count, content, version) for count in counts]
    first = plans[0]
    if first is None or first.error is not None or first.tool is None:
        return None
    starts = {None if one is None else (one.launcher, one.nproc_per_node, one.error is None) for one in plans}
    if len(starts) > 1:
        return None
    # With no number of GPUs what a process makes of them is not known either.
    return first if len(plans) == 1 else msgspec.structs.replace(first, rank0=None)


def settings_of(row: Origin | None, launch: Launch) -> tuple[Setting, ...]:
    """The settings of the command that decide a value of its plan; the launcher itself for a default."""
    if row is None:
        return ()
    named = [setting for key, setting in _keyed(launch) if key in row.where.split() or key == row.where]
    return tuple(dict.fromkeys(named)) or (launch.launcher,)


def _keyed(launch: Launch) -> Iterator[tuple[str, Setting]]:
    for key, setting in launch.options.items():
        if key.startswith("-"):
            yield key, setting
            yield key.replace("_", "-"), setting
            yield key.replace("_", "-").replace("-", "_").replace("__", "--", 1), setting
        elif key.startswith("srun -"):
            yield key.removeprefix("srun "), setting
    yield from launch.environment.items()
    yield from launch.batch.items()


def _planned(launch: Launch, gpus: int | None, content: Mapping[str, object] | None, version: str) -> Plan | None:
    environment = {
        name: Given(str(setting.value), "variable", name)
        for name, setting in launch.environment.items()
        if name.isidentifier() and setting.value is not None
    }
    request = Request(words=(launch.name,), environment=environment, machine=Machine(gpus=gpus))
    if launch.name == "accelerate":
        return _accelerate(launch, request, content or {}, version)
    from firstfault.launch.plan import plan_known

    if launch.name == "srun":
        environment = {**job_variables(launch), **environment}
    return plan_known(msgspec.structs.replace(request, words=tuple(_words(launch)), environment=environment))


def _accelerate(launch: Launch, request: Request, content: Mapping[str, object], version: str) -> Plan | None:
    """The options as accelerate's own table names them: no command line is made up to be parsed again."""
    from firstfault.launch.accelerate_launch import plan_arguments
    from firstfault.launch.worker import complete

    found = None
    for known in (version_numbers(version),) if version else _VERSIONS:
        arguments = _arguments(launch, known)
        if arguments is None:
            return None
        found = plan_arguments(arguments, request, known, content)
        if found.error is None or "had unknown keys" not in found.error.message:
            break
    return None if found is None else complete(found, request)


def _arguments(launch: Launch, version: Version) -> Arguments | None:
    """The options of the command in the launcher's own table; None if it has one that the table has not."""
    from firstfault.launch.accelerate_flags import options_of
    from firstfault.launch.flag_table import Arguments

    table = options_of(version)
    by_spelling = {spelling: flag for flag in table for spelling in flag.names}
    given = {flag.name: Given(False if flag.kind in ("on", "off") else flag.default, "default", "built in") for flag in table}
    script = launch.options.get("script")
    given["training_script"] = Given(str(script.value) if script else "train.py", "flag", "command line")
    given["training_script_args"] = Given(list(_behind_script(launch)), "flag", "command line")
    named: set[str] = set()
    for key, setting in launch.options.items():
        if not key.startswith("-"):
            continue
        flag = by_spelling.get(key)
        if flag is None:
            return None
        value: object = number(setting) if flag.kind == "int" else str(setting.value)
        if value is None:
            return None
        given[flag.name] = Given(flag.kind == "on" if flag.kind in ("on", "off") else value, "flag", key)
        named.add(flag.name)
    return Arguments(given, named)


def _words(launch: Launch) -> Iterator[str]:
    """The words of the command, each option as it was given."""
    yield launch.name
    for key, setting in launch.options.items():
        if key.startswith("-"):
            yield from _option(key, setting.value)
    if launch.name in ("srun", "mpirun"):
        yield "python"
    script = launch.options.get("script")
    yield str(script.value) if script is not None else "train.py"
    yield from _behind_script(launch)


def _behind_script(launch: Launch) -> Iterator[str]:
    for key, setting in launch.arguments.items():
        yield from _option(f"--{key}", setting.value)


def _option(key: str, value: object) -> Iterator[str]:
    if value is True:
        yield key
        return
    text = "" if value is None else str(value)
    yield from (f"{key}={text}",) if key.startswith("--") else (key, text)


def job_variables(launch: Launch) -> dict[str, Given]:
    """What sbatch sets for the steps of its script."""
    if not launch.batch:
        return {}
    from firstfault.launch.slurm import BATCH_VARIABLES

    return {
        variable: Given(str(setting.value), "file", key)
        for key, setting in launch.batch.items()
        for variable in BATCH_VARIABLES.get(key, ())
    }


def tasks_per_node(launch: Launch) -> tuple[int, str, tuple[Setting, ...]] | None:
    """The tasks that Slurm starts on a node with the rule and the settings; None where only the allocation decides them."""
    own = {key.removeprefix("srun "): setting for key, setting in launch.options.items() if "srun" in (launch.name, key[:4])}
    if not launch.batch and not own:
        return None
    from firstfault.launch.slurm import task_numbers

    options = {key: str(setting.value) for key, setting in own.items() if key.startswith("--")}
    tasks = task_numbers(options, Request(words=(), environment=job_variables(launch)))
    found = tasks.per_node
    if found is None or found.source == "default" or not isinstance(found.value, int) or not found.value:
        return None
    if found.source == "derived" and tasks.nodes.source == "default":
        return None
    return found.value, found.where, settings_of(origin("tasks", found), launch)


def content_of(settings: Mapping[str, Setting]) -> dict[str, object]:
    """A configuration as it was read: nested tables, and lists where the file has lists."""
    content: dict[str, object] = {}
    for key, setting in settings.items():
        table, dot, inner = key.partition(".")
        value: object = setting.value
        if setting.text.partition(":")[2].strip()[:1] == "[":
            value = str(value).split(",") if value else []
        if key == "distributed_type" and value is False:
            value = "NO"
        if dot:
            nested = content.setdefault(table, {})
            if isinstance(nested, dict):
                nested[inner] = value
        elif not (key.endswith("_config") and value in (None, "")):
            content[key] = value
    return content
