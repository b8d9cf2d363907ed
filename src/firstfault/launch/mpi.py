"""What `mpirun` and `mpiexec` start: processes that know their place from OMPI_* or PMI_* variables."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firstfault.launch.elastic_workers import MAX_PROCESSES
from firstfault.launch.expansion import holds_unknown
from firstfault.launch.request import Request
from firstfault.launch.values import Given, origin
from firstfault.launch.visible import visible_devices
from firstfault.model.plan import Origin, Plan, Process, Spawn, UnknownFact

_COUNTS = frozenset({"-n", "-np", "--np", "--n", "-c"})
_PER_NODE = frozenset({"-ppn", "-perhost", "--npernode", "-npernode", "-N"})
_HOSTS = frozenset({"-H", "-host", "--host", "-hosts"})
_FILES = frozenset({"-hostfile", "--hostfile", "-machinefile", "--machinefile", "-f"})
_TWO_VALUES = frozenset({"--mca", "-mca", "--gmca", "-gmca", "-genv", "-env", "--prtemca", "--pmixmca"})
_ONE_VALUE = frozenset(
    {
        "-x", "--bind-to", "--map-by", "--rank-by", "--prefix", "-wdir", "--wdir", "-wd", "--output-filename", "-genvlist",
        "--timeout", "-bootstrap", "--report-state", "--rankfile", "-rf", "--tune", "-am", "-launcher", "-iface", "--cpu-set",
        "--output", "--stdin", "-path", "-envlist",
    }
)  # fmt: skip
_INTEL = frozenset({"-ppn", "-perhost", "-genv", "-genvlist", "-hosts", "-f", "-bootstrap", "-launcher", "-iface", "-env"})


class Mpi(msgspec.Struct, frozen=True):
    """The launcher's own options by spelling, the variables it sets, and the words of the program behind them."""

    options: Mapping[str, str]
    variables: Mapping[str, str]
    program: tuple[str, ...]


def read_mpi(words: tuple[str, ...]) -> Mpi:
    """The words of `mpirun`: an option it does not take a value for stands alone."""
    options: dict[str, str] = {}
    variables: dict[str, str] = {}
    position = 1
    while position < len(words) and words[position].startswith("-"):
        name, equals, value = words[position].partition("=") if words[position].startswith("--") else (words[position], "", "")
        position += 1
        if name in _TWO_VALUES:
            pair = words[position : position + 2]
            position += 2
            options[name] = " ".join(pair)
            if name in ("-genv", "-env") and len(pair) == 2:
                variables[pair[0]] = pair[1]
            continue
        takes = name in _COUNTS | _PER_NODE | _HOSTS | _FILES | _ONE_VALUE
        if takes and not equals and position < len(words):
            value = words[position]
            position += 1
        if name == "-x" and "=" in value:
            variable, _, text = value.partition("=")
            variables[variable] = text
        options[name] = value or "true"
    return Mpi(options, variables, words[position:])


def plan_mpi(request: Request) -> Plan:
    """The plan of the start, with `processes` for this machine; `rank0` is left to `worker.complete`.

    torch and accelerate read none of MPI's variables on a GPU: every process believes it is alone, unless the script itself
    maps them to RANK and WORLD_SIZE. Only accelerate's CPU path does.
    """
    read = read_mpi(request.words)
    number = _number(read.options, _COUNTS)
    per_node, where = _per_node(read, request, number)
    intel = bool(_INTEL & set(read.options))
    listed = read.variables.get("CUDA_VISIBLE_DEVICES", request.variable("CUDA_VISIBLE_DEVICES"))
    visible = visible_devices(listed, request.machine.gpus)
    count = min(per_node or 0, MAX_PROCESSES)
    processes = tuple(
        Process(visible=visible, env=_variables(rank, number, per_node, intel)) for rank in range(count)
    )  # fmt: skip
    nodes = None if not number or not per_node else -(-number // per_node)
    unknown = () if number else (UnknownFact(fact="mpi.processes", why=_NO_COUNT, command="mpirun -n <processes>"),)
    return Plan(
        tool="mpirun",
        command=request.words,
        gpus=request.machine.gpus,
        starter="mpirun",
        nnodes=nodes,
        nproc_per_node=per_node,
        world_size=number,
        processes=processes,
        env_set=dict(read.variables),
        spawn=Spawn(kind="popen", argv=read.program),
        origins=_origins(read, number, per_node, where),
        unknown=unknown,
    )


_NO_COUNT = "without -n the slots of the hostfile or the cores of the machine decide"


def _number(options: Mapping[str, str], names: frozenset[str]) -> int | None:
    text = next((options[name] for name in options if name in names), "")
    return int(text) if text.isdecimal() and len(text) < 8 else None


def _per_node(read: Mpi, request: Request, number: int | None) -> tuple[int | None, str]:
    """Processes of the first machine: told, or the slots of the first host, or all of them where no other host is named."""
    told = _number(read.options, _PER_NODE)
    if told is not None:
        return told, next(name for name in read.options if name in _PER_NODE)
    hosts = next((read.options[name] for name in read.options if name in _HOSTS), None)
    file = next((read.options[name] for name in read.options if name in _FILES), None)
    if hosts is None and file is not None:
        text = None if holds_unknown(file) else request.read(file)
        lines = [line.split("#")[0].strip() for line in (text or "").splitlines()[:10_000]]
        first = next((line for line in lines if line), None)
        if first is None:
            return None, file
        slots = next((word.partition("=")[2] for word in first.split() if word.startswith("slots=")), "")
        hosts = f"{first.split()[0]}:{slots}" if slots else first.split()[0]
        hosts += "," * (sum(bool(line) for line in lines) > 1)
    if hosts is None:
        return number, "one machine"
    if holds_unknown(hosts):
        return None, "hosts"
    first_host, _, rest = hosts.partition(",")
    slots = first_host.partition(":")[2]
    if not slots.isdecimal():
        return (number if not rest else None), "hosts"
    return (int(slots) if number is None else min(number, int(slots))), "hosts"


def _variables(rank: int, size: int | None, per_node: int | None, intel: bool) -> dict[str, str]:
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    if not intel:
        names = (
            "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
        )  # fmt: skip
    values = (rank, size, rank, per_node)
    return {name: str(value) for name, value in zip(names, values, strict=True) if value is not None}


def _origins(read: Mpi, number: int | None, per_node: int | None, where: str) -> tuple[Origin, ...]:
    found = []
    if number is not None:
        name = next(name for name in read.options if name in _COUNTS)
        found.append(origin("world_size", Given(number, "flag", name)))
    if per_node is not None:
        source = "flag" if where.startswith("-") else "derived"
        found.append(origin("nproc_per_node", Given(per_node, "flag" if source == "flag" else "derived", where)))
    return tuple(found)
