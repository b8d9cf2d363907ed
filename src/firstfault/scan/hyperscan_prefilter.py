"""The default prefilter: hyperscan over literals only."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from firstfault.errors import FirstfaultError
from firstfault.scan.literal_window import WINDOW_BYTES, Owners, choose_windows, replace_windows

_COMMON = 8
_COMMON_BYTES = 1 << 14
"""A window that stands so often, and once more in so many bytes, without its literal slows the search: another is chosen."""
_MAX_CHANGES = 64
_SAMPLES = 8
_SAMPLE_BYTES = 8 << 10


class HyperscanUnavailable(FirstfaultError):
    """Hyperscan is not installed here, or this processor cannot run it."""


class _Engine(NamedTuple):
    """A compiled set of windows and, for each of them, the literals that it stands for."""

    database: Any
    windows: tuple[bytes, ...]
    owners: tuple[Owners, ...]


class HyperscanPrefilter:
    """Literals in hyperscan's block mode; safe to share between threads, each has its own scratch space.

    Hyperscan is faster the fewer and the rarer its texts are. So it gets one window of four bytes of each literal, one that is
    rare in a sample of the text and that other literals share; the literal itself is compared at each match. A window that
    turns out to be common is replaced. The `frequent` literals, which match often, are given whole.
    """

    def __init__(
        self, literals: Sequence[bytes], frequent: Collection[int] = (), *, once: bool = False, sample: bytes = b""
    ) -> None:
        self._idents = {literal: ident for ident, literal in enumerate(literals)}
        self._longest = max(map(len, literals))
        self._frequent = sorted(frequent)
        self._once = once
        self._literals = literals
        self._local = threading.local()
        self._changing = threading.Lock()
        self._changes = 0
        rare = tuple(literal for ident, literal in enumerate(literals) if ident not in frequent)
        self._engine = self._compiled(choose_windows(rare, sample))

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, in order of the end offset."""
        found = self._search(self._engine, block, _COMMON + len(block) // _COMMON_BYTES)
        while found is None:
            changed = self._changed(self._engine, block)
            found = self._search(self._engine, block, _COMMON + len(block) // _COMMON_BYTES if changed else len(block))
        return found

    def _search(self, engine: _Engine, block: bytes | memoryview, patience: int) -> list[tuple[int, int]] | None:
        """What `find` gives; None as soon as more windows than that stood there without one of their literals."""
        found: list[tuple[int, int]] = []
        rare: list[tuple[int, int]] = []
        useless = 0
        keep, frequent, owners, windows = found.append, self._frequent, engine.owners, len(engine.owners)
        idents, longest = self._idents, self._longest

        def on_match(number: int, start: int, end: int, flags: int, context: object) -> bool:
            nonlocal useless
            if number >= windows:
                keep((frequent[number - windows], end))
                return False
            before = len(rare)
            low = max(end - longest, 0)
            near = bytes(block[low : end + longest])
            for literal, stop in owners[number]:
                begin = end - stop
                if begin >= 0 and near.startswith(literal, begin - low):
                    rare.append((idents[literal], begin + len(literal)))
            useless += len(rare) == before
            return useless > patience

        try:
            engine.database.scan(block, match_event_handler=on_match, scratch=self._scratch(engine))
        except _hyperscan().ScanTerminated:
            return None
        return sorted(found + rare, key=itemgetter(1)) if rare else found

    def _changed(self, engine: _Engine, block: bytes | memoryview) -> bool:
        """Whether other windows are searched for from now on, in place of those that are common in the block."""
        numbers: list[int] = []
        engine.database.scan(
            block, match_event_handler=lambda number, *_: numbers.append(number), scratch=self._scratch(engine)
        )
        short = [window if len(window) == WINDOW_BYTES else b"" for window in engine.windows]
        most = (_COMMON + len(block) // _COMMON_BYTES) // 4
        common = {short[number] for number, count in Counter(numbers).items() if number < len(short) and count > most} - {b""}
        with self._changing:
            if common and self._engine is engine and self._changes < _MAX_CHANGES:
                self._changes += 1
                windows = dict(zip(engine.windows, engine.owners, strict=True))
                self._engine = self._compiled(replace_windows(windows, common, _sample_of(block)))
            return self._engine is not engine

    def _compiled(self, windows: dict[bytes, Owners]) -> _Engine:
        expressions = (*windows, *(self._literals[ident] for ident in self._frequent))
        return _Engine(_compile(expressions, len(self._frequent) if self._once else 0), tuple(windows), tuple(windows.values()))

    def _scratch(self, engine: _Engine) -> Any:
        local = self._local
        if getattr(local, "engine", None) is not engine:
            local.engine, local.scratch = engine, _hyperscan().Scratch(engine.database)
        return local.scratch


def _sample_of(block: bytes | memoryview) -> bytes:
    """A few stretches of the block: enough to see which windows are common, and quickly searched."""
    step = max(len(block) // _SAMPLES, 1)
    return b"".join(bytes(block[at : at + _SAMPLE_BYTES]) for at in range(0, len(block), step))


def _hyperscan() -> Any:
    try:
        # Imported here: a paste is judged without it, and where it is missing another prefilter serves.
        import hyperscan
    except ImportError as error:
        raise HyperscanUnavailable(f"hyperscan cannot be loaded: {error}", hint="pip install hyperscan") from error
    return hyperscan


def _compile(expressions: tuple[bytes, ...], once: int) -> Any:
    """The database for these literals; of the last `once` only the first match is reported."""
    hyperscan = _hyperscan()
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(
            expressions=list(expressions),
            ids=list(range(len(expressions))),
            elements=len(expressions),
            flags=[0] * (len(expressions) - once) + [hyperscan.HS_FLAG_SINGLEMATCH] * once,
            literal=True,
        )
    except hyperscan.error as error:
        raise HyperscanUnavailable(f"hyperscan refused the literals: {error}") from error
    return database
