"""Where the log of a rank that was not handed over should lie: beside those that were, or where its launcher puts it."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.engine.align import Aligned
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import SourceReport

_ATTEMPT = lazy_pattern(r"(?P<before>.*\battempt_\d{1,4}/)(?P<local>\d{1,6})(?P<after>/std(?:err|out)\.log)$")
_NUMBER = lazy_pattern(r"(\d{1,9})")
_LOG_FOLDER = ("--log-dir", "--log_dir")
_SLURM_FILES = ("--error", "-e", "--output", "-o")
_OF_TASK = ("%t", "%n", "%N")


def place_of_log(rank: int, aligned: Aligned) -> str:
    """The path or the command that holds what `rank` printed; empty if nothing tells."""
    ways = (_beside(rank, aligned), _by_option(rank, aligned), _of_pod(rank, aligned))
    return next((found for way in ways for found in way), "")


def _beside(rank: int, aligned: Aligned) -> Iterator[str]:
    for report in aligned.bundle.reports:
        known, path = report.source.place, report.source.path
        found = _ATTEMPT.match(path)
        if found:
            first = _first_rank(int(found["local"]), report, aligned)
            local = None if first is None else rank - first
            if local is not None and local >= 0 and _same_node(rank, report, aligned):
                yield f"{found['before']}{local}{found['after']}"
        elif known.rank is not None:
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


def _by_option(rank: int, aligned: Aligned) -> Iterator[str]:
    settings = [setting for report in aligned.bundle.reports for setting in report.settings]
    for setting in settings:
        if setting.key in _SLURM_FILES and any(part in str(setting.value) for part in _OF_TASK):
            host = aligned.rank_map.hosts.get(rank, "NODE")
            yield str(setting.value).replace("%t", str(rank)).replace("%N", host)
    for setting in settings:
        if setting.key in _LOG_FOLDER and setting.value:
            yield f"{str(setting.value).rstrip('/')}/*/attempt_*/LOCAL_RANK/stderr.log on the node of rank {rank}"


def _of_pod(rank: int, aligned: Aligned) -> Iterator[str]:
    pods = any(report.source.kind == "kubernetes" for report in aligned.bundle.reports)
    host = aligned.rank_map.hosts.get(rank)
    if pods:
        yield f"kubectl logs {host or 'POD'} --previous"
