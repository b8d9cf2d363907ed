"""The table that Slurm's `sacct` prints, in columns or separated by bars, as named fields of each row."""

from __future__ import annotations

from collections.abc import Mapping

from firstfault.lazy_pattern import lazy_pattern

MAX_FIELDS = 120

_HEADER = lazy_pattern(r"\s*JobID(?:Raw)?(?=[ |]).*\bState\b", needs="JobID")
_RULE = lazy_pattern(r"\s*-{2,}(?: +-{2,})+\s*$")
_DASHES = lazy_pattern(r"-{2,}")
_JOB_ID = lazy_pattern(r"\d{1,12}(?:[_+]\d{1,9}|_\[[\d,%-]{1,100}\])?(?:\.(?:\d{1,9}|batch|extern|interactive))?$")


class AccountingTable:
    """Fed line by line: the header says which fields follow, in columns as wide as the dashes below it."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._bars = False
        self._spans: list[tuple[int, int]] = []

    def row(self, text: str) -> Mapping[str, str] | None:
        """The fields of one row (blank ones left out), named in lower case; None for any other line."""
        if _HEADER.match(text):
            self._bars = "|" in text
            self._names = [name.strip().lower() for name in text.strip().split("|" if self._bars else None)][:MAX_FIELDS]
            self._spans = []
            return None
        if not self._names:
            return None
        if not self._bars and _RULE.match(text):
            spans = [(found.start(), found.end()) for found in _DASHES.finditer(text)]
            self._spans = spans if len(spans) == len(self._names) else []
            return None
        values = text.strip().split("|") if self._bars else [text[start:stop] for start, stop in self._spans]
        fields = {name: value.strip() for name, value in zip(self._names, values, strict=False) if value.strip()}
        job = fields.get("jobid") or fields.get("jobidraw") or ""
        return fields if _JOB_ID.match(job) and "state" in fields else None
