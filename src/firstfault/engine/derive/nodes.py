"""Nodes and tasks: how many were asked for and spoke, who starts the command on each, and the rank variables they set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.launch.view import launches, number
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.fact import FactSet, FactValue, Setting
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "env.rank_variables",
    "launch.devices_per_node_asked",
    "launch.nodes_asked",
    "launch.nodes_seen",
    "launch.per_node_start",
    "launch.slurm_tasks_per_node",
)

_PRINTING_KINDS = frozenset({"log", "unknown", "error_file"})
_ADDRESS = lazy_pattern(r"[\d.:]+\Z|localhost")
_NODE_RANKS = ("--node_rank", "--machine_rank")
_TASKS = lazy_pattern(r"(\d{1,5})(?:\(x\d+\))?\Z")
_RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# What torchelastic sets for its workers besides, and no operator or user does.
_OF_TORCHELASTIC = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK")
_MISSING = frozenset({"rendezvous.env_expected", "rendezvous.variable_unset"})
_TRAINER_DEVICES = lazy_pattern(r"\bTrainer\(.*\bdevices=(\d{1,4})\b", needs="devices=")


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of nodes, of Slurm's tasks and of the variables that tell a process its rank."""
    settings = tuple(scope.settings())
    for found in (*_nodes_asked(settings), *_slurm_tasks(settings), *_devices_asked(scope, settings)):
        facts.add(found)
        yield found
    for fact in (_nodes_seen(scope, facts), _per_node_start(settings, facts), _rank_variables(scope, settings, facts)):
        if fact is not None:
            facts.add(fact)
            yield fact


def _nodes_asked(settings: Sequence[Setting]) -> Iterator[Fact]:
    """What torchelastic prints that it waits for; else what Slurm says of the job."""
    least, most = _agreed(settings, "printed", "min_nodes"), _agreed(settings, "printed", "max_nodes")
    if least is not None and most is not None and least.value == most.value:
        yield _fact("launch.nodes_asked", number(least), "nodes in the launcher's configuration", (least, most))
    for key in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        found = _agreed(settings, "environment", key)
        if found is not None and number(found):
            yield _fact("launch.nodes_asked", number(found), key, (found,))


def _slurm_tasks(settings: Sequence[Setting]) -> Iterator[Fact]:
    for key in ("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        found = _agreed(settings, "environment", key)
        counted = _TASKS.match(str(found.value)) if found is not None else None
        if found is not None and counted:
            yield _fact("launch.slurm_tasks_per_node", int(counted[1]), key, (found,))


def _devices_asked(scope: Scope, settings: Sequence[Setting]) -> Iterator[Fact]:
    """Devices that Lightning's Trainer is given, in the script or in its line of the traceback."""
    name = "launch.devices_per_node_asked"
    for frame in scope.frames:
        found = _TRAINER_DEVICES.search(frame.code)
        if found:
            yield Fact(name=name, value=int(found[1]), origin="source line of a frame", spans=(frame.span,))
            return
    devices = _agreed(settings, "script", "Trainer.devices")
    if devices is not None and number(devices):
        yield _fact(name, number(devices), "devices= in the script", (devices,))


def _nodes_seen(scope: Scope, facts: FactSet) -> Fact | None:
    """Known once as many hosts spoke as were asked for: of a node whose output is not here, nothing is known."""
    asked = facts.get("launch.nodes_asked")
    if asked is None or not isinstance(asked.value, int):
        return None
    spans: dict[str, SourceSpan] = {}
    for report in scope.aligned.bundle.reports:
        if report.source.kind not in _PRINTING_KINDS:
            continue
        places = [(event.place, event.span) for event in report.events]
        places += [(found.place, found.span) for found in report.exits]
        for place, span in places:
            host = place.host or report.source.place.host
            if host and not _ADDRESS.match(host):
                spans.setdefault(host.partition(".")[0].lower(), span)
    if len(spans) < asked.value or len(spans) < 2:
        return None
    shown = tuple(spans.values())[:8]
    return Fact(name="launch.nodes_seen", value=len(spans), origin="hosts with output", spans=shown, basis="derived")


def _per_node_start(settings: Sequence[Setting], facts: FactSet) -> Fact | None:
    """True where the commands of all nodes are here: one for each node rank from 0 on."""
    asked = facts.value("launch.nodes_asked")
    ranks: dict[int, Setting] = {}
    for launch in launches(settings, None):
        for option in _NODE_RANKS:
            given = launch.options.get(option)
            rank = number(given)
            if given is not None and rank is not None:
                ranks[rank] = given
    if not isinstance(asked, int) or asked < 2 or len(ranks) != asked or set(ranks) != set(range(asked)):
        return None
    return _fact("launch.per_node_start", True, "one command for each node", tuple(ranks.values())[:8])


def _rank_variables(scope: Scope, settings: Sequence[Setting], facts: FactSet) -> Fact | None:
    """State of the five variables in a worker, as far as the launcher, a dump or a complaint decides it."""
    name = "env.rank_variables"
    given = {key: found for key in _RANK_VARIABLES if (found := _agreed(settings, "environment", key)) is not None}
    missing = next((event for event in scope.events() if event.name in _MISSING and scope.on_rank(event)), None)
    if missing is not None:
        if not given:
            return None
        spans = (missing.span, *(setting.span for setting in given.values()))
        return Fact(name=name, value="partial", origin="one is set, another one is asked for in vain", spans=spans)
    starter = facts.get("launch.starter")
    if starter is None:
        return None
    several = facts.value("launch.processes")
    if starter.value in ("torchrun", "deepspeed") or (
        starter.value == "accelerate" and isinstance(several, int) and several > 1
    ):
        return Fact(name=name, value="complete", origin="the launcher sets them", spans=starter.spans, basis="derived")
    return _of_one_process(name, given, settings) if starter.value == "python" else None


def _of_one_process(name: str, given: dict[str, Setting], settings: Sequence[Setting]) -> Fact | None:
    """Variables of a plain python process, which sets none: they are a launcher's leftover, or were set for it."""
    size = number(given.get("WORLD_SIZE"))
    left = [found for key in _OF_TORCHELASTIC if (found := _agreed(settings, "environment", key)) is not None]
    shown = tuple(given.values())
    if size is not None and size > 1 and left:
        return _fact(name, "stale", "variables of torchelastic in a process that it did not start", (*shown, left[0]))
    if len(given) == len(_RANK_VARIABLES):
        return _fact(name, "complete", "all five are set", shown)
    dumps = [found for key in ("PATH", "HOME") if (found := _agreed(settings, "environment", key)) is not None]
    if len(dumps) == 2 and dumps[0].span.source == dumps[1].span.source:
        return _fact(name, "partial" if given else "none", "in the dump of the environment", shown or tuple(dumps))
    return None


def _agreed(settings: Sequence[Setting], family: str, key: str) -> Setting | None:
    """The setting of that key, if it has one value only."""
    found = [setting for setting in settings if setting.family == family and setting.key == key]
    return found[0] if len({setting.value for setting in found}) == 1 else None


def _fact(name: str, value: FactValue | None, origin: str, settings: Sequence[Setting]) -> Fact:
    spans = tuple(dict.fromkeys(setting.span for setting in settings))
    return Fact(name=name, value=value if value is not None else 0, origin=origin, spans=spans, basis="derived")
