"""The end of a launcher before it starts anything, as an exception that carries the error."""

from __future__ import annotations

from firstfault.model.plan import PlannedError


class Stop(Exception):
    """The launcher ends here, before it starts anything; `error` says how."""

    def __init__(self, error: PlannedError) -> None:
        super().__init__(error.message)
        self.error = error


def stop(kind: str, message: str) -> Stop:
    """The exception of this type and text, as the launcher raises it."""
    return Stop(PlannedError(type=kind, message=message))
