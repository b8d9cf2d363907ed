"""What is right for one labelled investigation (`expected.yaml` beside its `input/`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from firstfault.errors import UsageError

LABEL_FILE = "expected.yaml"
INPUT_FOLDER = "input"
MAX_LABEL_BYTES = 65_536


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """The label of a case. `id` is None for a run in which nothing failed (`negative`).

    `accept` are entries as right as `id`, `partial` more general or neighbouring ones (half credit). `initiating_rank` is a
    rank, "all" or None (no single rank); `single_process` makes rank 0 and no rank the same. An `undecidable` case is right if
    the answer says so and its first question holds one of `missing_keywords`.
    """

    id: str | None
    category: str | None = None
    accept: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    initiating_rank: int | Literal["all"] | None = None
    accept_ranks: tuple[int, ...] = ()
    single_process: bool = False
    rank_optional: bool = False
    initiating_line: str | None = None
    initiating_line_alt: tuple[str, ...] = ()
    initiating_regex: str | None = None
    undecidable: bool = False
    missing_keywords: tuple[str, ...] = ()
    negative: bool = False
    accept_undetermined: bool = False
    accept_no_failure: bool = False

    @property
    def exact(self) -> frozenset[str | None]:
        """Entries that are right."""
        return frozenset({self.id, *self.accept})


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled investigation: its name, the folder that a user would hand over, and its label."""

    name: str
    input: Path
    label: Label

    @property
    def set(self) -> str:
        """The part of the name before the first dash: cases of one origin share it."""
        return self.name.partition("-")[0]


def read_cases(folder: Path) -> list[Case]:
    """All cases below `folder`, by name; UsageError if there is none or a label cannot be read."""
    cases = [_read_case(label.parent) for label in sorted(folder.glob(f"*/{LABEL_FILE}"))]
    if not cases:
        raise UsageError(
            "no labelled case is here", where=str(folder), hint=f"a case is a folder with {LABEL_FILE} and {INPUT_FOLDER}/"
        )
    return cases


def _read_case(folder: Path) -> Case:
    import yaml

    path = folder / LABEL_FILE
    if path.stat().st_size > MAX_LABEL_BYTES:
        raise UsageError(f"a label of more than {MAX_LABEL_BYTES} bytes", where=str(path))
    try:
        stated = yaml.safe_load(path.read_text(encoding="utf-8"))
        label = msgspec.convert(stated, Label)
    except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"not a label: {error}", where=str(path)) from error
    return Case(name=folder.name, input=folder / INPUT_FOLDER, label=label)
