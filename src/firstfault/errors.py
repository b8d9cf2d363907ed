"""The error tree: every error says where it arose, what is wrong and what to do.

    FirstfaultError
    ├── UsageError            exit code 2: the command line asks for something that does not exist
    ├── UnreadableInputError  exit code 4: nothing of what was handed over could be read
    └── KnowledgeError        exit code 70: a signal, fact or entry file is wrong
        └── ExpressionError   a condition does not follow the grammar (carries a column)

`cli.main` is the only place that turns an error into text and an exit code.
"""

from __future__ import annotations

from typing import ClassVar


class FirstfaultError(Exception):
    """Base of all errors that firstfault raises on purpose.

    `where` is `file:line` (or a file, or an option) and `hint` the next thing to do; both may be empty.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{advice}"


class UsageError(FirstfaultError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class UnreadableInputError(FirstfaultError):
    """Nothing of what was handed over could be read."""

    exit_code = 4


class KnowledgeError(FirstfaultError):
    """A signal, fact, causal row or entry file is wrong; `where` names file and line."""


class ExpressionError(KnowledgeError):
    """A condition does not follow the expression grammar; `column` counts from 1."""

    def __init__(self, message: str, *, column: int, where: str = "", hint: str = "") -> None:
        super().__init__(f"column {column}: {message}", where=where, hint=hint)
        self.column = column
