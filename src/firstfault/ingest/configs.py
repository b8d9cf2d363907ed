"""Settings of configuration files, each with its line: accelerate's YAML and DeepSpeed's JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from firstfault.flat_yaml import Row, flat_rows
from firstfault.ingest.context import Context
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import Note
from firstfault.model.fact import Setting

if TYPE_CHECKING:
    import yaml

MAX_CONFIG_CHARS = 64 << 10
MAX_SETTINGS = 5_000
MAX_VISITS = 20_000
"""Keys that are looked at: an alias repeats what it stands for, and keys of one name hide how often."""
MAX_DEPTH = 16
MAX_BRACKETS = 64
MAX_VALUE_CHARS = 1_000
MAX_WHOLE = 1 << 100

_BRACKETS = lazy_pattern(r"[\[\]{}]")

Scalar = bool | int | float | str | None
Reading = tuple[tuple[Setting, ...], tuple[Note, ...]]


def read_accelerate(text: str, ctx: Context) -> Reading:
    """Settings of an accelerate YAML, keys dotted, values by the rules of YAML 1.1 (an unquoted `NO` is false)."""
    return _read(text, ctx, "accelerate", _yaml_scalar, text)


def read_deepspeed(text: str, ctx: Context) -> Reading:
    """Settings of a DeepSpeed JSON, keys dotted; what is no JSON gives a note with the line, and what can be read of it."""
    if len(text) > MAX_CONFIG_CHARS:
        return _read(text, ctx, "deepspeed", _json_scalar, text)
    import json

    problem: Note | None = None
    try:
        json.loads(text)
    except RecursionError:
        return (), (Note(ctx.source.path, "not read: nested too deeply"),)
    except json.JSONDecodeError as error:
        problem = Note(f"{ctx.source.path}:{_line(ctx, error.lineno - 1)}", f"not JSON: {error.msg}")
    except ValueError as error:
        # A number of more than 4,300 digits.
        problem = Note(ctx.source.path, f"read in part: {error}")
    # JSON is YAML, whose parser gives lines, but for tabs; a tab is as long as the blank that replaces it.
    settings, notes = _read(text.replace("\t", " "), ctx, "deepspeed", _json_scalar, text)
    return settings, ((problem,) if problem else notes)


def read_arguments(text: str, ctx: Context) -> Reading:
    """Settings of a file of training arguments (YAML, or JSON as `TrainingArguments` writes it), keys dotted."""
    return _read(text.replace("\t", " "), ctx, "arguments", _yaml_scalar, text)


def read_run_config(text: str, ctx: Context) -> tuple[Setting, ...]:
    """Settings of any other configuration that is YAML (or JSON), as family `config`; nothing of what is neither."""
    return _read(text.replace("\t", " "), ctx, "config", _yaml_scalar, text)[0]


def _read(text: str, ctx: Context, family: str, scalar: Callable[[Any], Scalar], original: str) -> Reading:
    if len(text) > MAX_CONFIG_CHARS:
        return (), (Note(ctx.source.path, f"not read: larger than {MAX_CONFIG_CHARS >> 10} KiB"),)
    if scalar is _yaml_scalar and (flat := flat_rows(text)) is not None:
        return _flat(flat, ctx, family, original), ()
    if _deepest(text) > MAX_BRACKETS:
        return (), (Note(ctx.source.path, "not read: nested too deeply"),)
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{ctx.source.path}:{_line(ctx, mark.line)}" if mark else ctx.source.path
        return (), (Note(where, f"not read: {error.problem or 'not YAML'}"),)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return (), (Note(ctx.source.path, f"not read: {str(error).splitlines()[0] if str(error) else type(error).__name__}"),)
    if root is None:
        return (), (Note(ctx.source.path, "empty configuration"),)
    if not isinstance(root, yaml.MappingNode):
        return (), (Note(f"{ctx.source.path}:{_line(ctx, root.start_mark.line)}", "not read: no keys at the top"),)
    rows = original.split("\n")
    starts = _line_starts(rows)
    settings: dict[str, Setting] = {}
    visits = iter(range(MAX_VISITS))
    for key, value_node in _leaves(root, "", 0, yaml, visits):
        if len(settings) >= MAX_SETTINGS:
            return tuple(settings.values()), (Note(ctx.source.path, f"only the first {MAX_SETTINGS} settings were read"),)
        key_node, node = value_node
        row = key_node.start_mark.line
        settings[key] = Setting(
            family=family,
            key=key,
            value=_value(node, scalar, yaml),
            span=ctx.at(_line(ctx, row), ctx.source.first_offset + starts[min(row, len(starts) - 1)]),
            text=rows[min(row, len(rows) - 1)].rstrip("\r")[:MAX_VALUE_CHARS],
            source_id=ctx.source_id,
        )
    if next(visits, None) is None:
        return tuple(settings.values()), (Note(ctx.source.path, f"only the first {MAX_VISITS} keys were read"),)
    return tuple(settings.values()), ()


def _flat(found: list[Row], ctx: Context, family: str, original: str) -> tuple[Setting, ...]:
    rows = original.split("\n")
    starts = _line_starts(rows)
    parents = {row.parent for row in found}
    return tuple(
        Setting(
            family=family,
            key=key if parent is None else f"{parent}.{key}",
            value=None if isinstance(value, dict) else "" if isinstance(value, list) else value,
            span=ctx.at(_line(ctx, row), ctx.source.first_offset + starts[row]),
            text=rows[row].rstrip("\r")[:MAX_VALUE_CHARS],
            source_id=ctx.source_id,
        )
        for parent, key, value, row in found
        if parent is not None or key not in parents
    )


def _deepest(text: str) -> int:
    """How deep brackets nest: the parser's time grows with the square of it."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _line(ctx: Context, row: int) -> int:
    return ctx.source.first_line + row


def _line_starts(rows: list[str]) -> list[int]:
    starts, position = [], 0
    for row in rows:
        starts.append(position)
        position += len(row.encode("utf-8", "surrogateescape")) + 1
    return starts


def _leaves(node: Any, prefix: str, depth: int, yaml: Any, visits: Iterator[int]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Key and value nodes below a mapping; a later key of the same name wins, as in the programs that read the file.

    Every key costs one of `visits`: when they are used up, the rest is left out.
    """
    for key_node, value_node in node.value:
        if next(visits, None) is None:
            return
        if not isinstance(key_node, yaml.ScalarNode):
            continue
        key = f"{prefix}{key_node.value[:200]}"
        if isinstance(value_node, yaml.MappingNode) and value_node.value and depth < MAX_DEPTH:
            yield from _leaves(value_node, f"{key}.", depth + 1, yaml, visits)
        else:
            yield key, (key_node, value_node)


def _value(node: Any, scalar: Callable[[Any], Scalar], yaml: Any) -> Scalar:
    """The value of a leaf; a list becomes its items with commas between them, an empty mapping nothing."""
    if isinstance(node, yaml.ScalarNode):
        return scalar(node)
    if isinstance(node, yaml.SequenceNode):
        items = [str(item.value) for item in node.value if isinstance(item, yaml.ScalarNode)]
        return ",".join(items)[:MAX_VALUE_CHARS]
    return None


def _yaml_scalar(node: yaml.ScalarNode) -> Scalar:
    import yaml

    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    text = str(node.value)[:MAX_VALUE_CHARS]
    if kind in ("bool", "int", "float"):
        try:
            value = yaml.constructor.SafeConstructor().construct_object(node)
        except (yaml.YAMLError, LookupError, ValueError, OverflowError):
            return text
        return value if isinstance(value, (bool, int, float)) and _is_counted(value) else text
    return text


def _json_scalar(node: yaml.ScalarNode) -> Scalar:
    text = str(node.value)[:MAX_VALUE_CHARS]
    if node.style is not None:
        return text
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if value is None or (isinstance(value, (bool, int, float)) and _is_counted(value)) else text


def _is_counted(value: float) -> bool:
    """False for a whole number that no program counts so far: it would not even become a float."""
    return isinstance(value, float) or abs(value) < MAX_WHOLE
