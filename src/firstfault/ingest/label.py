"""What the label that (nearly) every line of a source carries means: a task, a node, a host, the user's own template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from firstfault.ingest.line_template import LineTemplate
from firstfault.ingest.prefix import HOST_LABEL, TASK_LABEL, Label, parse_prefix, rank_key
from firstfault.lazy_pattern import lazy_pattern

_LABEL_SHARE = 0.8
_TEMPLATE_SHARE = 0.2
_MIN_LINES = 3
_HEAD_BYTES = 200

_LAUNCHER = lazy_pattern(r"torch/distributed/(?:run|elastic|launcher)|\[[A-Za-z_]+\d+\]:")
_LABEL_KEY = lazy_pattern(rb" *(\d{1,6}): ?")
_HOST_KEY = lazy_pattern(rb"[A-Za-z][\w.-]{0,250}\w: ")
# Loggers and compilers print `name: text` too: a host has a number, a domain, or is called like one.
_HOST_LIKE = lazy_pattern(
    r"(?!(?:rank|epoch|step|iter|layer|line|stage|fold|trial|process|python)[\d._-]+$)"
    r"(?:.*\d|(?:[\w-]+\.){2,}[A-Za-z]|(?:node|host|gpu|compute)[-.]\w)",
    re.IGNORECASE,
)


def find_label(lines: Iterable[str], template: LineTemplate | None = None) -> Label:
    """What the labels of the lines mean; `none` unless 80 % of the lines have one. A `template` counts from a fifth of them.

    A number is a task, which is the rank, unless the text behind it says otherwise: lines of a launcher or of several
    ranks behind one number make it a node. A name is a host if it is called like one and comes back.
    """
    texts = [line for line in lines if line.strip()]
    if template is not None and _share(texts, template.pattern) >= _TEMPLATE_SHARE:
        return template
    if len(texts) < _MIN_LINES:
        return "none"
    if _share(texts, TASK_LABEL) >= _LABEL_SHARE:
        return "node" if _is_node(texts) else "task"
    named = [match[1] for text in texts if (match := HOST_LABEL.match(text))]
    if len(named) < _LABEL_SHARE * len(texts):
        return "none"
    names = [name for name in named if _HOST_LIKE.match(name)]
    several = len(set(names)) > 1 or all(re.search(r"\d", name) for name in names)
    if len(names) >= _LABEL_SHARE * len(texts) and several and len(set(names)) <= max(1, len(names) // 3):
        return "host"
    return "none"


def _share(texts: Sequence[str], pattern: re.Pattern[str]) -> float:
    return sum(1 for text in texts if pattern.match(text)) / len(texts) if texts else 0.0


def _is_node(texts: Sequence[str]) -> bool:
    """True if a launcher or several ranks speak behind one number."""
    inner_ranks: dict[int, set[int]] = {}
    for text in texts:
        match = TASK_LABEL.match(text)
        if match is None:
            continue
        rest = text[match.end() :]
        if _LAUNCHER.search(rest[:200]):
            return True
        rank = parse_prefix(rest).place.rank
        if rank is not None:
            inner_ranks.setdefault(int(match[1]), set()).add(rank)
    return any(inner != {task} for task, inner in inner_ranks.items())


def rank_reader(label: Label) -> Callable[[bytes], int | None]:
    """`rank_key` for a source whose lines carry `label`: the text behind it counts, then the label if it is a task."""
    if label in ("none", "node"):
        return rank_key
    if isinstance(label, LineTemplate):
        return _template_reader(label)

    def of_task(line: bytes) -> int | None:
        found = _LABEL_KEY.match(line)
        if found is None:
            return rank_key(line)
        inner = rank_key(line[found.end() :])
        return int(found[1]) if inner is None else inner

    def behind_host(line: bytes) -> int | None:
        found = _HOST_KEY.match(line)
        return rank_key(line[found.end() :] if found else line)

    return of_task if label == "task" else behind_host


def _template_reader(template: LineTemplate) -> Callable[[bytes], int | None]:
    def of_template(line: bytes) -> int | None:
        found = template.pattern.match(line[:_HEAD_BYTES].decode("utf-8", "replace"))
        if found is None:
            return rank_key(line)
        numbers = found.groupdict()
        text = numbers.get("rank") or numbers.get("local")
        return int(text) if text else None

    return of_template
