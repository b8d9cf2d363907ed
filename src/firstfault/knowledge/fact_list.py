"""The closed list of facts, read from `encyclopedia/facts.toml`.

One table per fact, named by the fact (`[oom.phase]`). Accepted keys (unknown keys are errors):

    type    required: bool int float str path bytes rank text, `int list`, `enum`, `enum list`; or the array of an enum's values
    values  the values of `enum` and `enum list` (words, true, false)
    values_from   "classes": the class ids of explains.toml stand before `values`
    says, ask, obtain   required texts;   cost   required: seconds minutes one-run rerun
    unit, producer      plain words; `producer` is `signals`, `ingest`, `launch` or a module (`engine/derive/frames`)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from firstfault.knowledge.problems import Problems
from firstfault.knowledge.schema import Cost, FactSpec
from firstfault.knowledge.signal import NAME
from firstfault.knowledge.toml_table import Document, Table

SCALAR_TYPES = ("bool", "int", "float", "str", "path", "bytes", "rank", "text")
ENUM_TYPES = ("enum", "enum list")
TYPES = (*SCALAR_TYPES, "int list", *ENUM_TYPES)
NUMBER_TYPES = frozenset({"int", "float", "bytes", "rank"})


def load_facts(path: Path, classes: Sequence[str] = ()) -> dict[str, FactSpec]:
    """The facts of the file by name; KnowledgeError lists everything that is wrong with it."""
    problems = Problems()
    facts = read_facts(path.read_text(encoding="utf-8"), f"{path.parent.name}/{path.name}", problems, classes)
    problems.raise_if_any()
    return facts


def read_facts(text: str, file: str, problems: Problems, classes: Sequence[str] = ()) -> dict[str, FactSpec]:
    """The facts that the TOML text defines; errors go to `problems`. `classes` are the ids of the causal table."""
    document = Document(text, file, problems)
    return {name: _read_fact(name, document.table(name, values), classes) for name, values in _named_tables(document)}


def _named_tables(document: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Dotted names and tables: a table that sets `type` or `says` is a fact, any other a level of names."""
    levels = [("", document.values)]
    while levels:
        prefix, values = levels.pop()
        for key, value in values.items():
            name = f"{prefix}{key}"
            if not isinstance(value, dict):
                document.problems.add(document.where(0), f"`{name}` stands outside of a fact's table")
            elif any(isinstance(value.get(mark), str | list) for mark in ("type", "says")):
                yield name, value
            else:
                levels.append((f"{name}.", value))


def _read_fact(name: str, table: Table, classes: Sequence[str]) -> FactSpec:
    if not NAME.match(name):
        table.note(f"a fact's name is dotted lower case, not {name!r}")
    values = table.items("values", str | bool, "words")  # type: ignore[arg-type]
    if isinstance(table.values.get("type"), list):
        kind, values = "enum", table.items("type", str | bool, "words")  # type: ignore[arg-type]
    else:
        kind = table.choice("type", TYPES)
    if table.choice("values_from", ("", "classes"), ""):
        values = (*classes, *values)
    if (kind in ENUM_TYPES) != bool(values):
        table.note(f"{name}: `values` belong to the types enum and enum list, and those need them", "values")
    spec = FactSpec(
        name=name,
        type=kind,
        says=table.required_text("says"),
        ask=table.required_text("ask"),
        obtain=table.required_text("obtain"),
        cost=cast(Cost, table.choice("cost", get_args(Cost))),
        values=values,
        unit=table.text("unit"),
        producer=table.text("producer"),
    )
    table.finish()
    return spec
