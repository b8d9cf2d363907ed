"""The default prefilter: hyperscan over literals only."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any

from firstfault.errors import FirstfaultError


class HyperscanUnavailable(FirstfaultError):
    """Hyperscan is not installed here, or this processor cannot run it."""


class HyperscanPrefilter:
    """Literals in hyperscan's block mode; safe to share between threads, each has its own scratch space."""

    def __init__(self, literals: Sequence[bytes], once: Collection[int] = ()) -> None:
        try:
            # Imported here: a paste is judged without it, and where it is missing another prefilter serves.
            import hyperscan
        except ImportError as error:
            raise HyperscanUnavailable(f"hyperscan cannot be loaded: {error}", hint="pip install hyperscan") from error
        self._scratch_type = hyperscan.Scratch
        self._local = threading.local()
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            self._database.compile(
                expressions=list(literals),
                ids=list(range(len(literals))),
                elements=len(literals),
                flags=[hyperscan.HS_FLAG_SINGLEMATCH if ident in once else 0 for ident in range(len(literals))],
                literal=True,
            )
        except hyperscan.error as error:
            raise HyperscanUnavailable(f"hyperscan refused the literals: {error}") from error

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, in order of the end offset."""
        found: list[tuple[int, int]] = []
        keep = found.append

        def on_match(ident: int, start: int, end: int, flags: int, context: object) -> None:
            keep((ident, end))

        self._database.scan(block, match_event_handler=on_match, scratch=self._scratch())
        return found

    def _scratch(self) -> Any:
        if not hasattr(self._local, "scratch"):
            self._local.scratch = self._scratch_type(self._database)
        return self._local.scratch
