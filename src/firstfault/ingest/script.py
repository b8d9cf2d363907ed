"""Facts and settings of a Python script that was handed over: read as a syntax tree, never run.

Only what the tree shows with certainty is said. That something is absent is said only of a whole file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from firstfault.ingest import script_arguments, script_device, script_gradient, script_ranks
from firstfault.ingest.script_flow import flows
from firstfault.ingest.script_tree import Script
from firstfault.model.bundle import Note
from firstfault.model.fact import Fact, Setting

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from firstfault.ingest.context import Context
    from firstfault.ingest.lines import Line
    from firstfault.ingest.script_said import Said
    from firstfault.model.span import SourceSpan

PRODUCES = (
    *script_arguments.PRODUCES,
    *script_device.PRODUCES,
    *script_gradient.PRODUCES,
    *script_ranks.PRODUCES,
)
MAX_SETTINGS = 500
MAX_TEXT_CHARS = 500


class ScriptReading(NamedTuple):
    """What a script says of the run."""

    facts: tuple[Fact, ...] = ()
    settings: tuple[Setting, ...] = ()
    notes: tuple[Note, ...] = ()


def read_script(text: str, lines: Sequence[Line], ctx: Context) -> ScriptReading:
    """Facts of a script or of an excerpt; what does not parse is a note. `lines` give the places in the source."""
    path = ctx.source.path
    if not text.strip():
        return ScriptReading()
    try:
        script = Script(text, ends=ctx.source.begins and ctx.source.ends)
        found = _Found(script, lines, ctx)
        facts = found.facts()
        settings = found.settings()
    except (RecursionError, MemoryError):
        return ScriptReading(notes=(Note(path, "not read: nested too deeply"),))
    return ScriptReading(facts, settings, (Note(path, script.problem),) if script.problem else ())


class _Found:
    """What the readers of the tree find, put where it stands."""

    def __init__(self, script: Script, lines: Sequence[Line], ctx: Context) -> None:
        self._script = script
        self._ctx = ctx
        self._lines: dict[int, Line] = {}
        for line in lines:
            self._lines.setdefault(line.number, line)

    def facts(self) -> tuple[Fact, ...]:
        script = self._script
        order = flows(script)
        said: Iterable[Said] = (
            *script_gradient.read_gradient(script),
            *script_device.read_device(script, order),
            *script_ranks.read_ranks(script),
            *script_arguments.read_arguments(script, order),
        )
        return tuple(
            Fact(
                name=one.name,
                value=one.value,
                origin=f"script: {one.origin}",
                spans=tuple(dict.fromkeys(self._span(node) for node in (one.node, one.further) if node is not None)),
            )
            for one in said
        )

    def settings(self) -> tuple[Setting, ...]:
        return tuple(self._settings())[:MAX_SETTINGS]

    def _settings(self) -> Iterator[Setting]:
        for one in script_arguments.constants(self._script):
            yield self._setting(one.family, one.key, one.value, one.node)
        visible = script_device.assigned_devices(self._script)
        if visible is not None:
            yield self._setting("script", script_device.VISIBLE, *visible)
        save = script_ranks.guarded_save(self._script)
        if save is not None:
            yield self._setting("script", "save_under_rank_guard", self._script.callee(save), save)

    def _setting(self, family: str, key: str, value: bool | int | float | str, node: ast.AST) -> Setting:
        line = self._lines.get(self._number(node))
        return Setting(
            family=family,
            key=key,
            value=value,
            span=self._span(node),
            text=line.raw.strip()[:MAX_TEXT_CHARS] if line else "",
            source_id=self._ctx.source_id,
        )

    def _number(self, node: ast.AST) -> int:
        return self._ctx.source.first_line + int(getattr(node, "lineno", 1)) - 1

    def _span(self, node: ast.AST) -> SourceSpan:
        number = self._number(node)
        line = self._lines.get(number)
        return self._ctx.span(line) if line else self._ctx.at(number, self._ctx.source.first_offset)
