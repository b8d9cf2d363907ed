"""The same failure told with other names: ranks permuted, hosts renamed, lines labelled otherwise, files in another order.

Every renaming takes the files of a case and gives changed ones with the new number of each rank, or None where there is
nothing to change. What happened stays the same, so the answer must follow.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from perturbations import CaseFiles, shift_text

_RANK = re.compile(
    r"(?P<before>(?i:\b(?:local_|global_|group_)?ranks?[\"']?(?: ?[:=] ?| +: |[ _-])?\[?)|\[[a-z]+(?=\d+\]:)"
    r"|\bProcess (?=\d+: \[)|(?i:\bprocess )(?=\d+ terminated with)|/attempt_\d+/)(?P<rank>\d{1,3})(?![\d.])"
)
_LABEL = re.compile(r"^\[rank(?P<rank>\d+)\]: ?", re.MULTILINE)
_HOST = re.compile(r"\b(?:localhost|(?:node|worker|host|gpu|compute)-?\d+)\b")
_MAX_RANKS = 64
# DeepSpeed's launcher names its processes by their order only; DDP compares every rank with rank 0.
_FIXED = ("Killing subprocess", "same param in process 0")


@dataclass(frozen=True)
class Renamed:
    """The changed files and the new number of each rank that has another one."""

    files: CaseFiles
    ranks: Mapping[int, int]


Renaming = Callable[[CaseFiles, int, random.Random], Renamed | None]


def permuted(files: CaseFiles, world: int, chance: random.Random) -> Renamed | None:
    """Every rank has another number, wherever a text or a path names it (runs on one node: there rank and local rank agree)."""
    if not 2 < world <= _MAX_RANKS or _nodes(files) > 1 or any(found > world for found in _numbers(files)):
        return None
    if any(fixed in text for text in files.texts.values() for fixed in _FIXED):
        return None
    numbers = list(range(world))
    while numbers == sorted(numbers):
        chance.shuffle(numbers)
    ranks = dict(enumerate(numbers))

    def told(text: str) -> str:
        return _RANK.sub(lambda found: f"{found['before']}{ranks.get(int(found['rank']), int(found['rank']))}", text)

    texts = {told(path): told(text) for path, text in files.texts.items()}
    if len(texts) < len(files.texts) or texts == files.texts:
        return None
    return Renamed(CaseFiles(texts, frozenset(map(told, files.logs))), ranks)


def renamed_hosts(files: CaseFiles, world: int, chance: random.Random) -> Renamed | None:
    """Every host has another name, in the texts and in the paths."""
    names: dict[str, str] = {}

    def told(text: str) -> str:
        return _HOST.sub(lambda found: names.setdefault(found[0], f"gpu-{chance.randrange(100, 999)}x{len(names)}"), text)

    texts = {told(path): told(text) for path, text in files.texts.items()}
    return Renamed(CaseFiles(texts, frozenset(map(told, files.logs))), {}) if texts != files.texts else None


def relabelled(files: CaseFiles, world: int, chance: random.Random) -> Renamed | None:
    """Lines carry the label of `torchrun --tee` in front of the one that torch prints (runs on one node)."""
    if _nodes(files) > 1:
        return None
    changed = files.with_logs(lambda text: _LABEL.sub(lambda found: f"[default{found['rank']}]:{found[0]}", text))
    return None if changed is None else Renamed(changed, {})


def other_order(files: CaseFiles, world: int, chance: random.Random) -> Renamed | None:
    """The files are handed over one by one, in another order."""
    paths = list(files.texts)
    if len(paths) < 2:
        return None
    chance.shuffle(paths)
    return Renamed(replace(files, texts={path: files.texts[path] for path in paths}), {})


def other_zone(files: CaseFiles, world: int, chance: random.Random) -> Renamed | None:
    """The files of one process or host, or of the console, print the time of another zone."""
    if len(files.logs) < 2:
        return None
    hours = chance.choice((-5.0, 1.0, 2.0, 5.5))
    chosen = chance.choice(sorted(files.logs))
    texts = {path: shift_text(text, int(hours * 3600)) if path == chosen else text for path, text in files.texts.items()}
    return Renamed(replace(files, texts=texts), {}) if texts != files.texts else None


RENAMINGS: dict[str, Renaming] = {
    "ranks permuted": permuted,
    "hosts renamed": renamed_hosts,
    "labelled otherwise": relabelled,
    "files in another order": other_order,
    "another time zone": other_zone,
}


def _numbers(files: CaseFiles) -> set[int]:
    return {int(found["rank"]) for text in files.texts.values() for found in _RANK.finditer(text)}


def _nodes(files: CaseFiles) -> int:
    names = {found[0] for text in (*files.texts, *files.texts.values()) for found in _HOST.finditer(text)}
    return max(len(names - {"localhost"}), len(names & {"localhost"}))
