"""The plan of `accelerate launch`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from firstfault.launch.accelerate_config import Config, TooLarge, build
from firstfault.launch.accelerate_flags import options_of
from firstfault.launch.accelerate_names import LATEST
from firstfault.launch.accelerate_settle import Settled, Unknown, settle_options
from firstfault.launch.accelerate_start import Start, fill_start, launcher_name
from firstfault.launch.flag_table import Arguments
from firstfault.launch.request import Request, Version, program_name
from firstfault.launch.stop import Stop
from firstfault.launch.unknown_words import plan_in_doubt
from firstfault.model.plan import Plan, PlannedError, UnknownFact

_SEVERAL = "accelerate <command> [<args>] launch"
_ALONE = "Accelerate launch command"
_MODULES = {"accelerate.commands.launch": (), "accelerate.commands.accelerate_cli": ("launch",)}
_OTHERS = {
    "config": "it asks questions, or writes defaults, and saves the configuration that `accelerate launch` reads",
    "env": "it prints versions and the default configuration",
    "estimate-memory": "it computes sizes of a model of the Hub",
    "merge-weights": "it joins the shards of an FSDP checkpoint",
    "to-fsdp2": "it rewrites a configuration for FSDP2",
    "tpu-config": "it runs commands on the hosts of a TPU",
}
_TEST_SCRIPT = "accelerate/test_utils/scripts/test_script.py"
GPU_COUNT = UnknownFact(
    fact="gpus",
    why="without --num_processes and a configuration file accelerate starts one process per visible GPU",
    command="nvidia-smi -L",
)


def plan_accelerate(request: Request) -> Plan:
    """The plan of the command, `rank0` and `processes` left to `worker.complete`."""
    other = _other_command(request.words)
    if other == "test":
        return _test(request)
    if other is not None:
        note = f"accelerate {other} starts no process: {_OTHERS[other]}"
        return Plan(tool="accelerate", command=request.words, gpus=request.machine.gpus, nproc_per_node=0, notes=(note,))
    if len(request.words) < 2 and program_name(request.words[0]) == "accelerate":
        error = PlannedError(type="SystemExit", message="accelerate is given no command: it prints its usage", code=1)
        return Plan(tool="accelerate", command=request.words, gpus=request.machine.gpus, error=error)
    version = request.version("accelerate") or LATEST
    own = len(request.words) - len(_own_words(request.words)[0])
    doubtful = plan_in_doubt(request, own, lambda option: _tried(option, version), plan_accelerate)
    if doubtful is not None:
        return doubtful
    try:
        arguments = read_arguments(request.words, version)
    except Stop as stopped:
        return Plan(tool="accelerate", command=request.words, gpus=request.machine.gpus, error=stopped.error)
    return plan_arguments(arguments, request, version)


def plan_arguments(
    arguments: Arguments, request: Request, version: Version, content: Mapping[str, object] | None = None
) -> Plan:
    """The plan of the options, which are settled in place.

    With `content`, a configuration that was read elsewhere, the places of its values are known there: the plan names none.
    """
    plan = Plan(tool="accelerate", command=request.words, gpus=request.machine.gpus)
    start = Start(plan=plan)
    try:
        handed = () if content is None else (_handed(content),)
        settled = settle_options(arguments, request, version, *handed)
        start.launcher = launcher_name(settled)
        start.log += settled.log
        fill_start(start, settled, request, version)
    except Stop as stopped:
        return _stopped(start, stopped.error)
    except Unknown:
        return msgspec.structs.replace(plan, unknown=(GPU_COUNT,))
    except TooLarge as large:
        return msgspec.structs.replace(plan, notes=(f"{large} is not read: no configuration is that large",))
    except RecursionError:
        return msgspec.structs.replace(plan, notes=("the configuration is not read: it is nested too deeply",))
    except Exception as error:
        # The launcher computes with whatever the user wrote, and so does this: what fails here fails there.
        return _stopped(start, PlannedError(type=type(error).__name__, message=str(error)))
    return _described(start, settled, request, version, places=content is None)


def _handed(content: Mapping[str, object]) -> Callable[[Arguments, Request, Version], Config | None]:
    """Gives the configuration, or none where it is empty, whatever file the options name."""
    return lambda arguments, request, version: build("", dict(content), version, {}) if content else None


_TRIED = {
    "num_processes": ("1", "2", "8"), "num_machines": ("1", "2"), "machine_rank": ("0", "1"), "config_file": ("",),
    "main_process_port": ("29501", "29502"),
}  # fmt: skip
_TRIED_KINDS = {"int": ("1", "2"), "float": ("0.5", "1"), "bool": ("true", ""), "truth": ("true", "false"), "truths": ("true",)}


def _tried(option: str, version: Version) -> tuple[str, ...] | None:
    """Values that stand for all of an option whose value is not known; None for one that takes none."""
    name = option.lstrip("-").replace("-", "_")
    flag = next((flag for flag in options_of(version) if flag.name == name or option in flag.names), None)
    if flag is None or flag.kind in ("on", "off"):
        return None
    return _TRIED.get(flag.name) or tuple(flag.choices) or _TRIED_KINDS.get(flag.kind, ())


def _test(request: Request) -> Plan:
    """`accelerate test` launches a script of accelerate's own with the configuration that it is given."""
    words = ("accelerate-launch", *request.words[2:], _TEST_SCRIPT)
    planned = plan_accelerate(msgspec.structs.replace(request, words=words))
    note = "accelerate test launches a script of its own with this configuration"
    return msgspec.structs.replace(planned, command=request.words, notes=(note, *planned.notes))


def _described(start: Start, settled: Settled, request: Request, version: Version, *, places: bool) -> Plan:
    """The plan with its messages, the places of its values and what has no effect."""
    if not places:
        return msgspec.structs.replace(start.plan, launcher=start.launcher)
    from firstfault.launch.accelerate_effect import inherited_ranks, no_effect, origins

    lost = (*no_effect(settled, start, version), *inherited_ranks(start.plan, request))
    return msgspec.structs.replace(
        start.plan,
        launcher=start.launcher,
        warnings=tuple(start.warnings),
        log=tuple(start.log),
        origins=origins(settled, start, request),
        no_effect=lost,
    )


def read_arguments(words: tuple[str, ...], version: Version) -> Arguments:
    """The options of the command behind the launcher's own words; raises Stop."""
    from firstfault.launch.flag_parser import parse

    own, alone = _own_words(words)
    progs = (_ALONE, _ALONE) if alone else (_SEVERAL, "Accelerate CLI tool")
    return parse(own, options_of(version), prog=progs[0], top=progs[1], hyphens=version >= (0, 28), abbrev=False)


def _own_words(words: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The words behind `accelerate launch`, `accelerate-launch` or `python -m accelerate...`, and whether it is the second."""
    for place, word in enumerate(words[:-1]):
        if word == "-m" and words[place + 1] in _MODULES:
            rest = words[place + 2 :]
            sub = _MODULES[words[place + 1]]
            return (rest[1:], False) if sub and rest[:1] == sub else (rest, not sub)
    if program_name(words[0]) == "accelerate-launch":
        return words[1:], True
    return (words[2:] if words[1:2] == ("launch",) else words[1:]), False


def _other_command(words: tuple[str, ...]) -> str | None:
    """The command of accelerate that is not `launch`, such as `config`."""
    if program_name(words[0]) != "accelerate" or words[1:2] == ("launch",):
        return None
    return words[1] if len(words) > 1 and (words[1] in _OTHERS or words[1] == "test") else None


def _stopped(start: Start, error: PlannedError) -> Plan:
    return msgspec.structs.replace(
        start.plan, launcher=start.launcher, error=error, warnings=tuple(start.warnings), log=tuple(start.log)
    )
