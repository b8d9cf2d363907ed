"""Collects what is wrong in knowledge files, so that one reading reports every error with its file and line."""

from __future__ import annotations

from firstfault.errors import KnowledgeError


class Problems:
    """Errors found so far, each with its `file:line`."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []

    def add(self, where: str, message: str) -> None:
        """Note one error and go on reading."""
        self._found.append((where, message))

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise one KnowledgeError that lists everything found; a single error keeps its place in `where`."""
        if len(self._found) == 1:
            where, message = self._found[0]
            raise KnowledgeError(message, where=where)
        if self._found:
            lines = "\n".join(f"  {where}: {message}" for where, message in self._found)
            raise KnowledgeError(f"{len(self._found)} errors in the knowledge files\n{lines}")
