"""What a path says of the process that wrote the file: rank, local rank, host, attempt."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Place

_COMPRESSED = (".gz", ".zst")
_LOG_NAME = r"(?:\.(?:log|out|err|txt|stderr|stdout|json))+"
_TORCHRUN_FOLDER = lazy_pattern(r"(?:^|/)attempt_(?P<attempt>\d{1,4})(?:/(?P<local>\d{1,6}))?/[^/]+$", needs="attempt_")
_RANK_NAME = lazy_pattern(r"(?:^|[._-])rank[._-]?(?P<rank>\d{1,6})(?=[._-]|$)", re.IGNORECASE)
_RANK_FOLDER = lazy_pattern(r"^rank[._-]?(?P<rank>\d{1,6})$", re.IGNORECASE)
_LOCAL_RANK_NAME = lazy_pattern(r"local[._-]?rank[._-]?(?P<rank>\d{1,6})(?=[._-]|$)", re.IGNORECASE)
_LOG_HOST_RANK = lazy_pattern(r"^log_(?P<host>[A-Za-z0-9][\w.-]*)_(?P<rank>\d{1,6})$", needs="log_")
_HOST_WORD = lazy_pattern(
    r"(?:^|[._-])(?P<host>(?:node|host|gpu|gpu-?node|worker-node|compute)-?\d{1,5})(?=[._-]|$)", re.IGNORECASE
)
_HOST_FOLDER = lazy_pattern(r"^(?:node|host|gpu|gpu-?node|compute)-?\d{1,5}$", re.IGNORECASE)
_NUMBERED = lazy_pattern(r"^(?P<head>.*[A-Za-z_.-])(?P<number>\d{1,5})$")
_POD_LIKE = lazy_pattern(r"(?:^|[-_])(?:worker|master|pod|launcher)[-_.]?$", re.IGNORECASE)


def places_of(paths: Sequence[str]) -> tuple[Place, ...]:
    """What each path says of its writer. A bare number at the end of a name is a rank only if the names form a set from 0."""
    sets = _numbered_sets(paths)
    return tuple(_place_of(path, sets.get(path)) for path in paths)


def _place_of(path: str, set_number: int | None) -> Place:
    if not any(character.isdigit() for character in path):
        return Place()
    parts = _parts(path)
    stem = _stem(parts[-1])
    if found := _TORCHRUN_FOLDER.search("/".join(parts)):
        local = found["local"]
        return Place(
            attempt=int(found["attempt"]), local_rank=None if local is None else int(local), host=_host_of(parts[:-1], "")
        )
    host = _host_of(parts[:-1], stem)
    if found := _LOCAL_RANK_NAME.search(stem):
        return Place(local_rank=int(found["rank"]), host=host)
    if found := _RANK_NAME.search(stem):
        return Place(rank=int(found["rank"]), host=host)
    if found := _LOG_HOST_RANK.match(stem):
        return Place(rank=int(found["rank"]), host=found["host"])
    if len(parts) > 1 and (found := _RANK_FOLDER.match(parts[-2])):
        return Place(rank=int(found["rank"]), host=host)
    # A Slurm task (`slurm-4711_0`) looks like an array index: without siblings it is no rank.
    return Place(rank=set_number, host=host)


def _host_of(folders: Sequence[str], stem: str) -> str | None:
    if found := _HOST_WORD.search(stem):
        return found["host"]
    for folder in reversed(folders):
        if _HOST_FOLDER.match(folder):
            return folder
    return None


def _numbered_sets(paths: Sequence[str]) -> dict[str, int]:
    """`train-0.log`, `train-1.log` ... of one folder: their numbers, if they run from 0 without a gap.

    Of a larger set one number in four may be missing: the log that is not there is the one to ask for.
    """
    if len(paths) < 2:
        return {}
    families: dict[tuple[str, str, str], dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        parts = _parts(path)
        stem = _stem(parts[-1])
        found = _NUMBERED.match(stem)
        if not found or _host_of((), stem) is not None or _POD_LIKE.search(found["head"]):
            continue
        if not re.search(r"\.(?:log|out|err|txt)(?:\.(?:gz|zst))?$", parts[-1]):
            continue
        family = ("/".join(parts[:-1]), found["head"], parts[-1][len(stem) :])
        families[family][int(found["number"])].append(path)
    numbers: dict[str, int] = {}
    for members in families.values():
        missing = max(members) + 1 - len(members)
        if len(members) >= 2 and 0 in members and 4 * missing <= len(members):
            numbers.update({path: number for number, group in members.items() for path in group})
    return numbers


def _parts(path: str) -> tuple[str, ...]:
    return PurePath(path.replace("\\", "/")).parts or (path,)


def _stem(name: str) -> str:
    """The name without the suffixes of logs and of compression: `rank_3.log.gz` -> `rank_3`."""
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return re.sub(_LOG_NAME + "$", "", name) or name
