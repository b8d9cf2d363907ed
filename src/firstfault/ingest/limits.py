"""Limits of the machine in force: memory that a process may lock, and why the clocks of a GPU are held down."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting

MAX_SETTINGS = 2_000

WORDS = ("locked memory", "locked-in-memory", "ulimit ", "slowdown", "power cap")

# `ulimit -a` of bash and zsh, and /proc/PID/limits: the soft limit is the one in force.
_LOCKED = lazy_pattern(
    r"(?i)^\s*(?:-l: |max )?locked[- ](?:in[- ])?memory\s.*?(?<![\w.])"
    r"(?P<value>unlimited|\d{1,19})\b(?:\s+(?:unlimited|\d+)\s+bytes)?\s*$"
)
_ASKED = lazy_pattern(r"(?:^|[\s;&])ulimit (?:-S )?-l\s*$", needs="ulimit ")
_ANSWER = lazy_pattern(r"^\s*(?P<value>unlimited|\d{1,19})\s*$")
_REASON = lazy_pattern(
    r"^\s*(?P<reason>HW Slowdown|HW Thermal Slowdown|HW Power Brake Slowdown|SW Thermal Slowdown|SW Power Cap)\s*:\s*"
    r"(?P<state>Active|Not Active)\s*$"
)


def read_limits(lines: Sequence[Line], ctx: Context) -> tuple[Setting, ...]:
    """Settings `limit.locked_memory` (`unlimited` or a number) and `gpu.slowdown.<reason>` (true: active)."""
    found: list[Setting] = []
    asked = False
    for line in lines:
        if len(found) >= MAX_SETTINGS:
            break
        text = line.text[:500]
        locked = _LOCKED.match(text) or (_ANSWER.match(text) if asked else None)
        asked = _ASKED.search(text) is not None
        if locked:
            value = locked["value"].lower()
            found.append(
                _setting("limit.locked_memory", int(value) if value.isdecimal() and len(value) < 19 else value, line, ctx)
            )
        elif reason := _REASON.match(text):
            key = reason["reason"].lower().replace(" ", "_")
            found.append(_setting(f"gpu.slowdown.{key}", reason["state"] == "Active", line, ctx))
    return tuple(found)


def _setting(key: str, value: bool | int | str, line: Line, ctx: Context) -> Setting:
    text = line.text.strip()[:500]
    return Setting(family="environment", key=key, value=value, span=ctx.span(line), text=text, source_id=ctx.source_id)
