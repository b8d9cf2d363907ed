"""Where the log of a rank that was not handed over should lie: beside those that were, or where its launcher puts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from firstfault.engine.align import Aligned
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import SourceReport

_ATTEMPT = lazy_pattern(r"(?P<before>.*\battempt_\d{1,4}/)(?P<local>\d{1,6})(?P<after>/std(?:err|out)\.log)$")
_NUMBER = lazy_pattern(r"(\d{1,9})")
_NUMBERED = lazy_pattern(r"(?P<head>.*\D)(?P<number>\d{1,6})$")
_JOB = lazy_pattern(r"\b(?:JOB|STEP) (\d{1,12})\b|\bStepId=(\d{1,12})\b")
_SLURM_FILES = ("--error", "-e", "--output", "-o")
_OF_TASK = ("%t", "%n", "%N")
_REDIRECTED = ("--redirects", "--tee")
_BY_TORCH = frozenset({"torchrun", "accelerate"})
_PROCESSES = ("--nproc_per_node", "--num_gpus")
_RAY_LOGS = "/tmp/ray/session_latest/logs"

Options = Mapping[str, str]


def place_of_log(rank: int, aligned: Aligned) -> str:
    """The path or the command that holds what `rank` printed; empty if nothing tells."""
    options = _options(aligned)
    ways = (
        _in_torchrun_folder(rank, aligned, _a_node(options)),
        _beside(rank, aligned),
        _of_slurm(rank, aligned, options),
        _of_torchrun(rank, aligned, options),
        _of_deepspeed(rank, options),
        _of_mpirun(rank, aligned, options),
        _of_pod(rank, aligned),
        _of_ray(rank, aligned),
    )
    return next(chain.from_iterable(ways), "")


def _options(aligned: Aligned) -> Options:
    settings = [setting for report in aligned.bundle.reports for setting in report.settings if setting.family == "command"]
    return {setting.key: str(setting.value) for setting in reversed(settings)}


def _in_torchrun_folder(rank: int, aligned: Aligned, a_node: int | None) -> Iterator[str]:
    """Beside the files of its node: that whose first rank is the last one not above it."""
    beside: list[tuple[int, str]] = []
    for report in aligned.bundle.reports:
        found = _ATTEMPT.match(report.source.path)
        first = _first_rank(int(found["local"]), report, aligned) if found else None
        local = -1 if first is None else rank - first
        if found and 0 <= local < (a_node or rank + 1) and _same_node(rank, report, aligned):
            beside.append((local, f"{found['before']}{local}{found['after']}"))
    yield from (path for _, path in sorted(beside, key=lambda one: one[0]))


def _beside(rank: int, aligned: Aligned) -> Iterator[str]:
    for report in aligned.bundle.reports:
        known, path = report.source.place, report.source.path
        if known.rank is not None and not _ATTEMPT.match(path):
            folder, slash, name = path.rpartition("/")
            pieces = _NUMBER.split(name)
            if [int(number) for number in pieces[1::2]].count(known.rank) == 1:
                renamed = [str(rank) if at % 2 and int(part) == known.rank else part for at, part in enumerate(pieces)]
                yield f"{folder}{slash}{''.join(renamed)}"


def _first_rank(local: int, report: SourceReport, aligned: Aligned) -> int | None:
    known = report.source.place.rank
    if known is None:
        known = aligned.rank_map.global_rank(local, report.source.place.host)
    return None if known is None else known - local


def _same_node(rank: int, report: SourceReport, aligned: Aligned) -> bool:
    hosts = aligned.rank_map.hosts
    here = report.source.place.host
    return here is None or hosts.get(rank, here) == here


def _of_slurm(rank: int, aligned: Aligned, options: Options) -> Iterator[str]:
    """The file of a task: that of the rank itself, or, where a launcher stands between, of its node."""
    for wrapper in ("", "srun ", "#SBATCH "):
        for key in _SLURM_FILES:
            pattern = options.get(f"{wrapper}{key}", "")
            if not any(part in pattern for part in _OF_TASK):
                continue
            a_node = _a_node(options) if wrapper and options.get("launcher") != "srun" else None
            task = rank // a_node if a_node else rank if not wrapper or options.get("launcher") in ("srun", "python") else "*"
            texts = [event.text for event in aligned.events] + [found.text for found in aligned.exits]
            job = next((found for text in texts if (found := _JOB.search(text))), None)
            known = {"%t": str(task), "%N": aligned.rank_map.hosts.get(rank, "*"), "%j": job[1] or job[2] if job else "*"}
            for part, value in {**known, "%n": "*", "%x": "*", "%A": "*", "%a": "*", "%u": "$USER"}.items():
                pattern = pattern.replace(part, value)
            yield pattern


def _of_torchrun(rank: int, aligned: Aligned, options: Options) -> Iterator[str]:
    """torchelastic writes files only with --redirects or --tee; without --log-dir into a folder of its own below /tmp."""
    if options.get("launcher") not in _BY_TORCH or not any(options.get(key, "0") != "0" for key in _REDIRECTED):
        return
    folder = options.get("--log_dir", "/tmp/torchelastic_*").rstrip("/")
    host = aligned.rank_map.hosts.get(rank)
    a_node = _a_node(options)
    local = str(rank % a_node) if a_node else "LOCAL_RANK"
    stream = "stdout" if all(options.get(key, "1") in ("0", "1") for key in _REDIRECTED) else "stderr"
    yield f"{folder}/*/attempt_*/{local}/{stream}.log on {host or f'the node of rank {rank}'}"


def _a_node(options: Options) -> int | None:
    """How many ranks run on one node, if the command says so."""
    told = next((options[key] for key in _PROCESSES if options.get(key, "").isdigit()), "")
    nodes, in_all = options.get("--num_machines", "1"), options.get("--num_processes", "")
    if not told and nodes.isdigit() and in_all.isdigit() and int(nodes[:6]):
        return int(in_all[:6]) // int(nodes[:6]) or None
    return int(told[:6]) or None if told else None


def _of_deepspeed(rank: int, options: Options) -> Iterator[str]:
    folder = options.get("--enable_each_rank_log", "None")
    if options.get("launcher") == "deepspeed" and folder != "None":
        yield f"{folder.rstrip('/')}/*_rank{rank}.log on the node of rank {rank}"


def _of_mpirun(rank: int, aligned: Aligned, options: Options) -> Iterator[str]:
    """Open MPI 3 to 4 makes a folder of each rank, its number filled up with zeros; version 5 says where in `--output`."""
    for wrapper in ("", "mpirun "):
        for key in ("--output-filename", "-output-filename"):
            if folder := options.get(f"{wrapper}{key}", "").partition(":")[0]:
                width = len(str((aligned.world_size or 1) - 1))
                yield f"{folder.rstrip('/')}/1/rank.{rank:0{width}d}/stderr"
        kind, _, where = options.get(f"{wrapper}--output", "").partition("=")
        if kind == "dir" and where:
            yield f"{where.partition(':')[0].rstrip('/')}/*/rank.{rank}/stderr"
        elif kind == "file" and where:
            yield f"{where.partition(':')[0]}.{rank}"


def _of_pod(rank: int, aligned: Aligned) -> Iterator[str]:
    """The pod of the rank; where each pod holds one rank, its number follows from that of another one."""
    hosts = aligned.rank_map.hosts
    if not any(report.source.kind == "kubernetes" for report in aligned.bundle.reports):
        return
    name = hosts.get(rank)
    if name is None and len(set(hosts.values())) == len(hosts):
        numbered = {other: found for other, host in hosts.items() if (found := _NUMBERED.match(host))}
        shifts = {(found["head"], other - int(found["number"])) for other, found in numbered.items()}
        if len(shifts) == 1 and rank >= (shift := next(iter(shifts)))[1]:
            name = f"{shift[0]}{rank - shift[1]}"
    yield f"kubectl logs {name or 'POD'} --previous"


def _of_ray(rank: int, aligned: Aligned) -> Iterator[str]:
    """Ray keeps the output of each worker below its session on the worker's node, under its pid."""
    events = (event for report in aligned.bundle.reports for event in report.events)
    if not any(event.signal.startswith("ray.") for event in events):
        return
    pid = next((pid for (_, pid), known in aligned.rank_map.pids.items() if known == rank), "*")
    yield f"{_RAY_LOGS}/worker-*-{pid}.err on {aligned.rank_map.hosts.get(rank) or f'the node of rank {rank}'}"
