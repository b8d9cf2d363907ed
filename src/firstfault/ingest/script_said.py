"""A statement that a script's syntax tree makes, before it has a place in the source."""

from __future__ import annotations

import ast
from typing import NamedTuple

from firstfault.model.fact import FactValue


class Said(NamedTuple):
    """The value of a fact, why in a few words, the node that decides it and one that it rests on besides."""

    name: str
    value: FactValue
    origin: str
    node: ast.AST
    further: ast.AST | None = None
