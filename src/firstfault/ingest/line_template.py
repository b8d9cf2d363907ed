"""The prefix that a user chose for the lines of torchrun's workers, as a pattern that reads it back."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting

VARIABLE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
MAX_TEMPLATE_CHARS = 200
_MAX_HOLES = 8
_MIN_LITERAL_CHARS = 2

# The forms of Python's `string.Template`, which torchelastic fills.
_HOLE = lazy_pattern(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<named>\w+))")
_NUMBERS = {"rank": "rank", "local_rank": "local"}
_OTHERS = {"role_name": r"[\w.-]{1,60}", "group_rank": r"\d{1,6}", "restart_count": r"\d{1,6}"}


class LineTemplate(msgspec.Struct, frozen=True):
    """What stands before each line of a worker: a pattern with the groups `rank` and `local`, as far as it has them."""

    pattern: re.Pattern[str]


def line_template(text: str) -> LineTemplate | None:
    """The template as a pattern; None if it names no rank, or has too few own characters to be told from other text."""
    if not text or len(text) > MAX_TEMPLATE_CHARS or len(_HOLE.findall(text)) > _MAX_HOLES:
        return None
    parts: list[str] = []
    groups: set[str] = set()
    literal = 0
    position = 0
    for hole in _HOLE.finditer(text):
        between = text[position : hole.start()] + ("$" if hole["dollar"] else "")
        name = hole["braced"] or hole["named"]
        if name is not None and name not in _NUMBERS and name not in _OTHERS:
            # `safe_substitute` leaves what it does not know as it stands.
            between, name = between + hole[0], None
        parts.append(re.escape(between))
        literal += len(between.strip())
        if name in _NUMBERS and _NUMBERS[name] not in groups:
            groups.add(_NUMBERS[name])
            parts.append(rf"(?P<{_NUMBERS[name]}>\d{{1,6}})")
        elif name is not None:
            parts.append(_OTHERS.get(name, r"\d{1,6}"))
        position = hole.end()
    parts.append(re.escape(text[position:]))
    literal += len(text[position:].strip())
    if not groups or literal < _MIN_LITERAL_CHARS:
        return None
    return LineTemplate(re.compile("".join(parts)))


def chosen_template(settings: Iterable[Setting]) -> LineTemplate | None:
    """The template that the environment or the command of the run names, if exactly one usable one is there."""
    texts = {setting.value for setting in settings if setting.family == "environment" and setting.key == VARIABLE}
    if len(texts) != 1:
        return None
    (text,) = texts
    return line_template(text) if isinstance(text, str) else None
