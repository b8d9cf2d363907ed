"""Who is who: local rank to global rank, pid to rank, host of a rank, bus id to rank, and how many ranks there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import msgspec

from firstfault.engine.restarts import attempt_of, restart_marks
from firstfault.model.bundle import Bundle, SourceReport
from firstfault.model.event import Event, Place, ProcessExit
from firstfault.model.fact import Setting

_WORLD_FACTS = ("run.world_size", "launch.world_size_seen")
_JOINED_FEWER = "rendezvous.joined_fewer"
_WORLD_CAPTURES = ("world_size", "nranks")
_A_NODE = ("--nproc-per-node", "--nproc_per_node", "--num_gpus")
_IN_ALL = {
    "accelerate": ("--num_processes", "--num-processes"),
    "mpirun": ("-np", "-n", "--np", "--n"),
    "srun": ("--ntasks", "-n", "#SBATCH --ntasks"),
}
_NODE_OPTIONS = ("--nnodes", "--num_machines", "--num-machines", "--num_nodes")
_COMMUNICATOR = "nccl.communicator"
_CAUGHT_SIGNAL = "process.got_signal"
_RESTART = "launcher.restarts_workers"
_LAUNCHERS = ("elastic", "spawn", "deepspeed")
_STARTED_BY_SLURM = frozenset({"srun", "python"})
MAX_RANKS = 1 << 17


class RankMap(msgspec.Struct, frozen=True, kw_only=True):
    """What the bundle says of ranks, processes and hosts. Keys of `pids` are (host or None, pid)."""

    pids: dict[tuple[str | None, int], int] = {}
    hosts: dict[int, str] = {}
    buses: dict[tuple[str | None, str], int] = {}
    first_ranks: dict[str | None, int] = {}
    """Global rank of local rank 0 of a host; the key None stands for a run on one node."""
    one_host: str | None = None
    source_ranks: dict[str, int] = {}
    """The rank that alone printed a source, by source id, where the name of the file does not say it."""
    tasks_are_ranks: bool = False
    """True if Slurm started one task for each rank, so that its task numbers are ranks."""
    world_size: int | None = None

    def source_place(self, report: SourceReport) -> Place:
        """Who printed the lines of a source that carry no label of their own."""
        place, rank = report.source.place, self.source_ranks.get(report.source.id)
        if rank is None or place.rank is not None or place.local_rank is not None:
            return place
        return self.complete(msgspec.structs.replace(place, rank=rank))

    def rank_of_pid(self, pid: int | None, host: str | None = None) -> int | None:
        """The rank of a process, if the pid is unique in the bundle or known on that host."""
        if pid is None:
            return None
        found = self.pids.get((host, pid))
        return self.pids.get((None, pid)) if found is None else found

    def rank_of_bus(self, bus: object, host: str | None = None) -> int | None:
        """The rank that owns the GPU with this PCI bus id."""
        key = bus_key(bus)
        found = self.buses.get((host, key))
        return self.buses.get((None, key)) if found is None else found

    def global_rank(self, local_rank: int | None, host: str | None) -> int | None:
        """The global rank of a local one, where the host's first rank is known or there is one node only."""
        if local_rank is None:
            return None
        first = self.first_ranks.get(host, self.first_ranks.get(None))
        return None if first is None else first + local_rank

    def complete(self, place: Place) -> Place:
        """`place` with rank and host filled in as far as they follow from the rest."""
        host = place.host or (self.hosts.get(place.rank) if place.rank is not None else None) or self.one_host
        rank = place.rank
        if rank is None:
            rank = self.global_rank(place.local_rank, host)
        if rank is None:
            rank = self.rank_of_pid(place.pid, host)
        if rank == place.rank and host == place.host:
            return place
        return msgspec.structs.replace(place, rank=rank, host=host or (self.hosts.get(rank) if rank is not None else None))


def bus_key(bus: object) -> str:
    """`0000:9b:00.0`, `PCI:0000:9B:00` and NCCL's `9b000` name one device: domain, bus and device in one spelling."""
    text = str(bus).lower().removeprefix("pci:")
    try:
        if ":" in text:
            parts = text.split(":")
            device = int(parts[-1].split(".")[0], 16)
            domain = int(parts[-3], 16) if len(parts) > 2 else 0
            return f"{domain:x}:{int(parts[-2], 16):x}:{device:x}"
        number = int(text, 16)
    except ValueError:
        return text
    return f"{number >> 20:x}:{number >> 12 & 0xFF:x}:{number >> 4 & 0xFF:x}"


def read_rank_map(bundle: Bundle) -> RankMap:
    """Collect what events, exits and settings of all sources say of ranks, hosts, pids and bus ids."""
    places = [place for report in bundle.reports for place in _places(report)]
    hosts = {host for place in places if (host := place.host)}
    nodes = _option(_settings(bundle), _NODE_OPTIONS)
    one_node = len(hosts) <= 1 and (nodes or 1) == 1
    first_ranks = _first_ranks(places, one_node)
    one_host = next(iter(hosts)) if one_node and hosts else None
    known = [_located(place, first_ranks) for place in places]
    pids = _pids(known, one_host, {event.place.pid for event in _events(bundle) if event.name.startswith("launcher.")})
    size = _world_size(bundle, known, nodes)
    return RankMap(
        pids=pids,
        hosts=_hosts(known),
        buses=_buses(bundle, pids),
        first_ranks=first_ranks,
        one_host=one_host,
        source_ranks=_source_ranks(bundle, first_ranks),
        tasks_are_ranks=not pids and _has_a_task_for_each_rank(bundle, size),
        world_size=size,
    )


def exit_place(found: ProcessExit) -> Place:
    """Where a process ended. DeepSpeed's launcher prints the command of its *last* local rank whichever rank failed."""
    if found.reporter == "deepspeed" and not found.by_launcher:
        return msgspec.structs.replace(found.place, rank=None, local_rank=None)
    return found.place


def _has_a_task_for_each_rank(bundle: Bundle, size: int | None) -> bool:
    """A launcher of its own is one task a node; several tasks on one node, or as many as there are ranks, are the ranks."""
    if any(s.key == "launcher" and s.value not in _STARTED_BY_SLURM for s in _settings(bundle) if s.family == "command"):
        return False
    by_host: dict[str | None, set[int]] = {}
    for report in bundle.reports:
        for found in report.exits:
            by_host.setdefault(found.place.host, set()).update(found.tasks)
    tasks = {task for numbers in by_host.values() for task in numbers}
    if not tasks or (size is not None and max(tasks) >= size):
        return False
    several = any(len(numbers) > 1 for numbers in by_host.values())
    one_each = len(by_host) > 1 and len(tasks) == len([numbers for numbers in by_host.values() if numbers])
    return several or (size is not None and (not one_each or len(tasks) == size))


def _places(report: SourceReport) -> Iterator[Place]:
    yield report.source.place
    for event in report.events:
        yield _named_in_text(event)
    for found in report.exits:
        yield exit_place(found)
    yield from _in_launch_order(report)
    for traceback in report.tracebacks:
        yield traceback.place
    for end in report.ends:
        yield end.place


def _named_in_text(event: Event) -> Place:
    """Lines that name their own process: NCCL the rank behind its prefix of host and pid, a caught signal the pid of a rank."""
    rank, pid = event.captures.get("rank"), event.captures.get("pid")
    if event.name == _COMMUNICATOR and event.place.rank is None and isinstance(rank, int):
        return msgspec.structs.replace(event.place, rank=rank)
    if event.name == _CAUGHT_SIGNAL and event.place.pid is None and isinstance(pid, int):
        return msgspec.structs.replace(event.place, pid=pid)
    return event.place


def _in_launch_order(report: SourceReport) -> Iterator[Place]:
    """DeepSpeed's launcher signals its processes in the order of their local ranks, the failed one included."""
    told = [found.place for found in report.exits if found.reporter == "deepspeed" and found.by_launcher and found.place.pid]
    pids = [place.pid for place in told if place.pid is not None]
    if len(pids) > 1 and pids == sorted(set(pids)):
        for local_rank, place in enumerate(told):
            yield msgspec.structs.replace(place, local_rank=local_rank)


def _source_ranks(bundle: Bundle, first_ranks: dict[str | None, int]) -> dict[str, int]:
    """Logs in which one rank only labels its lines, and no launcher speaks: the other lines are that rank's too."""
    found: dict[str, int] = {}
    named = {report.source.place.rank for report in bundle.reports}
    for report in bundle.reports:
        if report.source.kind != "log" or report.exits:
            continue
        places = (_located(place, first_ranks) for place in _places(report))
        ranks = {place.rank for place in places if place.rank is not None} | set(report.ranks)
        if len(ranks) == 1 and not ranks & named:
            found[report.source.id] = next(iter(ranks))
    # A single log with one label may hold the lines of all ranks, and so may two logs with the same label.
    return found if len(found) > 1 and len(set(found.values())) == len(found) else {}


def _located(place: Place, first_ranks: dict[str | None, int]) -> Place:
    if place.rank is not None or place.local_rank is None:
        return place
    first = first_ranks.get(place.host, first_ranks.get(None))
    return place if first is None else msgspec.structs.replace(place, rank=first + place.local_rank)


def _first_ranks(places: Iterable[Place], one_node: bool) -> dict[str | None, int]:
    votes: dict[str | None, Counter[int]] = {}
    for place in places:
        known = place.rank is not None and place.local_rank is not None and (place.host or one_node)
        if known and (first := (place.rank or 0) - (place.local_rank or 0)) >= 0:
            votes.setdefault(None if one_node else place.host, Counter())[first] += 1
    if one_node and not votes:
        return {None: 0}
    return {host: counted.most_common(1)[0][0] for host, counted in votes.items()}


def _pids(
    places: Iterable[Place], one_host: str | None, launchers: Collection[int | None]
) -> dict[tuple[str | None, int], int]:
    # A launcher prints about ranks, and quotes them, under its own pid.
    pids: dict[tuple[str | None, int], int] = {}
    ambiguous: set[int] = set()
    for place in places:
        if place.pid is None or place.rank is None or place.pid in launchers:
            continue
        pids.setdefault((place.host or one_host, place.pid), place.rank)
        if pids.setdefault((None, place.pid), place.rank) != place.rank:
            ambiguous.add(place.pid)
    for pid in ambiguous:
        pids.pop((None, pid), None)
    return pids


def _hosts(places: Iterable[Place]) -> dict[int, str]:
    votes: dict[int, Counter[str]] = {}
    for place in places:
        if place.rank is not None and place.host:
            votes.setdefault(place.rank, Counter())[place.host] += 1
    return {rank: counted.most_common(1)[0][0] for rank, counted in votes.items()}


def _buses(bundle: Bundle, pids: dict[tuple[str | None, int], int]) -> dict[tuple[str | None, str], int]:
    buses: dict[tuple[str | None, str], int] = {}
    several: set[tuple[str | None, str]] = set()
    for event in _events(bundle):
        bus, pid = event.captures.get("bus"), event.captures.get("pid")
        rank = _named_in_text(event).rank
        if rank is None and isinstance(pid, int):
            rank = pids.get((event.place.host, pid), pids.get((None, pid)))
        if bus is None or rank is None:
            continue
        for host in {None, event.place.host}:
            if buses.setdefault((host, bus_key(bus)), rank) != rank:
                several.add((host, bus_key(bus)))
    return {key: rank for key, rank in buses.items() if key not in several}


def _world_size(bundle: Bundle, places: Iterable[Place], nodes: int | None) -> int | None:
    facts = [fact.value for report in bundle.reports for fact in report.facts if fact.name in _WORLD_FACTS]
    seen = [event.captures[key] for event in _events(bundle) for key in _WORLD_CAPTURES if key in event.captures]
    # Who opens the store for the ranks waits for all of them; between nodes, only for one of each.
    joining = (event for event in _events(bundle) if event.name == _JOINED_FEWER and event.place.rank is not None)
    seen += [event.captures["expected"] for event in joining if "expected" in event.captures]
    sizes = [size for size in (*facts, *seen) if isinstance(size, int) and 0 < size <= MAX_RANKS]
    settings = list(_settings(bundle))
    if not sizes:
        declared = _option((s for s in settings if s.family == "environment"), ("WORLD_SIZE",))
        launchers = {str(s.value) for s in settings if s.family == "command" and s.key == "launcher"}
        a_node = _option(settings, _A_NODE)
        in_all = _option(settings, [key for launcher in sorted(launchers) for key in _IN_ALL.get(launcher, ())])
        planned = a_node * (nodes or 1) if a_node else in_all
        printed = _option((s for s in settings if s.family == "printed"), ("world_size",))
        sizes = [size for size in (declared, planned, printed) if size and size <= MAX_RANKS][:1]
    started = _started_here(bundle) if (nodes or 1) == 1 else 0
    if not sizes and not started:
        return None
    highest = max((place.rank for place in places if place.rank is not None and place.rank < MAX_RANKS), default=-1)
    return max(*sizes, started, highest + 1)


def _started_here(bundle: Bundle) -> int:
    """How many processes a launcher's account names: those it stopped and those it saw end.

    0 without such an account, and where workers were restarted nobody can tell when: then one rank had several processes.
    """
    attempts = {report.source.place.attempt for report in bundle.reports} - {None}
    restarts = restart_marks(bundle)
    restarted = restarts or len(attempts) > 1 or any(event.name == _RESTART for event in _events(bundle))
    counts = [0]
    for report in bundle.reports:
        if restarted and report.source.id not in restarts:
            continue
        account = [found for found in report.exits if found.reporter in _LAUNCHERS and found.place.pid is not None]
        if any(found.by_launcher for found in account):
            pids: dict[int, set[int | None]] = {}
            for found in account:
                attempt = attempt_of(found.span.offset, restarts.get(report.source.id, ()))
                pids.setdefault(attempt, set()).add(found.place.pid)
            counts += map(len, pids.values())
    return max(counts)


def _events(bundle: Bundle) -> Iterator[Event]:
    for report in bundle.reports:
        yield from report.events


def _settings(bundle: Bundle) -> Iterator[Setting]:
    for report in bundle.reports:
        yield from report.settings


def _option(settings: Iterable[Setting], keys: Collection[str]) -> int | None:
    for setting in settings:
        if setting.key in keys:
            text = str(setting.value)
            if text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MAX_RANKS:
                return int(text[:9])
    return None
