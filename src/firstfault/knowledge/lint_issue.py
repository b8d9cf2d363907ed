"""One thing that the lint of the knowledge found."""

from __future__ import annotations

from typing import Literal

import msgspec


class LintIssue(msgspec.Struct, frozen=True):
    """What is wrong and where (`file:line`). An error must be repaired, a warning is something to look at."""

    where: str
    message: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.where}: {self.severity}: {self.message}"
