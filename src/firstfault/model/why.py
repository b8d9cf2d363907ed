"""Why one rank is, or is not, the one that failed first (`firstfault.why/1`)."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.diagnosis import Certainty, Evidence

WHY_SCHEMA = "firstfault.why/1"
RankRole = Literal["initiating", "symmetric", "suspect", "independent", "collateral", "unmarked", "absent"]
"""First by itself; one of all that failed alike; suspected; failed by its own; a consequence; nothing seen; no record."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence about the rank, the lines that show it, and the time that they print."""

    text: str
    evidence: tuple[str, ...] = ()
    time: str | None = None


class RankAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the evidence says of one rank.

    `says` is the answer in a sentence, `certainty` is that of the role (None where no failure was found at all). `shown` is
    what collectives and stacks show of a rank for which others wait. `events` are what the rank reported or suffered, in the
    order of the file, `waited_for` what it was waiting in or for, `ended` how it ended, `last_lines` what it printed last
    before it waited or failed. `next_step` is a command that tells more, or empty.
    """

    schema: str = WHY_SCHEMA
    rank: int
    role: RankRole
    certainty: Certainty | None = None
    host: str | None = None
    attempt: int | None = None
    says: str = ""
    shown: tuple[Statement, ...] = ()
    events: tuple[Statement, ...] = ()
    waited_for: tuple[Statement, ...] = ()
    ended: tuple[Statement, ...] = ()
    last_lines: tuple[Statement, ...] = ()
    progress: Statement | None = None
    next_step: str = ""
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()
