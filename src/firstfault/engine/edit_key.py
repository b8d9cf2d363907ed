"""Takes a key out of a YAML or JSON file, or gives it another name, line by line: comments and order stay."""

from __future__ import annotations

import re


def change_key(key: str, rename: str, lines: list[str]) -> bool:
    """True if the dotted key was found on a line of its own and taken out (`rename` empty) or renamed.

    A mapping that stands on one line (`{a: 1}`) is not taken apart.
    """
    first = next((line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    json = first.startswith("{")
    found = _find(key.split("."), lines, json=json)
    if found is None:
        return False
    index, behind = found
    if rename:
        name = re.escape(key.rsplit(".", 1)[-1])
        lines[index] = re.sub(rf"^(\s*[\"']?){name}\b", rf"\g<1>{rename.rsplit('.', 1)[-1]}", lines[index], count=1)
        return True
    removed = lines[index:behind]
    del lines[index:behind]
    if json and not removed[-1].rstrip().endswith(","):
        _drop_last_comma(lines, index)
    return True


def _find(path: list[str], lines: list[str], *, json: bool) -> tuple[int, int] | None:
    """The first line of the key and the line behind what is nested below it."""
    begin, end = 0, len(lines)
    parent = -1
    for name in path:
        pattern = re.compile(rf"^(\s*)[\"']?{re.escape(name)}[\"']?\s*:(?:\s|$)")
        own = [(index, match) for index in range(begin, end) if (match := pattern.match(lines[index]))]
        indents = [len(match[1]) for _, match in own if len(match[1]) > parent]
        if not own or not indents:
            return None
        parent = min(indents)
        index = next(index for index, match in own if len(match[1]) == parent)
        begin, end = index + 1, _behind(lines, index, parent, json=json)
    if json and not _whole_lines(lines[begin - 1 : end]):
        return None
    return begin - 1, end


def _behind(lines: list[str], index: int, indent: int, *, json: bool) -> int:
    """The line behind the value of the key at `index`: deeper lines, the items of a list, a closing bracket."""
    after = index + 1
    while after < len(lines):
        text = lines[after].strip()
        depth = len(lines[after]) - len(lines[after].lstrip())
        closes = json and depth == indent and text[:1] in ("}", "]")
        item = not json and depth == indent and text.startswith("- ")
        if closes:
            return after + 1
        if not text or (depth <= indent and not item):
            break
        after += 1
    return after


def _whole_lines(lines: list[str]) -> bool:
    """True if the lines hold one key with its whole value and nothing else."""
    text = "".join(lines)
    return text.count("{") == text.count("}") and text.count("[") == text.count("]") and text.count('":') >= 1 and (
        len(lines) > 1 or text.count('":') == 1
    )  # fmt: skip


def _drop_last_comma(lines: list[str], index: int) -> None:
    """What stood before the last key is now the last one."""
    if index == 0:
        return
    row = lines[index - 1]
    bare = row.rstrip()
    if bare.endswith(","):
        lines[index - 1] = bare[:-1] + row[len(bare) :]
