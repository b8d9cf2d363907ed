"""Regular expressions of the shared subset, written so that JavaScript gives them the meaning that they have in Python."""

from __future__ import annotations

_SPACES = r" \t\n\r\f\v"
_OUTSIDE = {"s": f"[{_SPACES}]", "S": f"[^{_SPACES}]", "Z": "$", "A": "^"}
_INSIDE = {"s": _SPACES}


def javascript(pattern: str) -> str:
    """The expression for a `RegExp` without the flags `u` and `m`; ValueError if there is none."""
    parts: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            parts.append(_escape(pattern[at + 1], in_class=in_class))
            at += 2
            continue
        if in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
            opening = "[^" if pattern.startswith("[^", at) else "["
            at += len(opening)
            parts.append(opening)
            if pattern.startswith("]", at):
                # Python takes a bracket in this place for itself.
                parts.append(r"\]")
                at += 1
            continue
        elif character == ".":
            character = r"[^\n]"
        elif character == "$":
            character = r"(?=\n?$)"
        elif pattern.startswith("(?P<", at):
            parts.append("(?<")
            at += 4
            continue
        parts.append(character)
        at += 1
    return "".join(parts)


def _escape(character: str, *, in_class: bool) -> str:
    if in_class and character in "SDW":
        raise ValueError(f"\\{character} in a class")
    return (_INSIDE if in_class else _OUTSIDE).get(character, f"\\{character}")
