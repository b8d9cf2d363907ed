"""A value with its origin and what it overrode."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from firstfault.model.plan import Origin, Overridden, Plan, Scalar, Source


class Given(msgspec.Struct, frozen=True):
    """A value as one layer gives it: a flag, a variable, a line of a file, or what is built in. `where` as in `Origin`.

    `value` is what the layer holds, lists and mappings of a file included.
    """

    value: object
    source: Source
    where: str
    overrode: tuple[Given, ...] = ()


def settle(layers: Iterable[Given | None]) -> Given | None:
    """The first layer that is given, strongest first, with the weaker ones as what it overrode; built-in values are no loss."""
    present = [layer for layer in layers if layer is not None]
    if not present:
        return None
    winner, *losers = present
    lost = tuple(loser for loser in losers if loser.source not in ("default", "derived"))
    return Given(winner.value, winner.source, winner.where, winner.overrode + lost)


def origin(name: str, given: Given) -> Origin:
    """The line of the plan's table of values for `name`."""
    overrode = tuple(Overridden(value=scalar(lost.value), source=lost.source, where=lost.where) for lost in given.overrode)
    return Origin(name=name, value=scalar(given.value), source=given.source, where=given.where, overrode=overrode)


def scalar(value: object) -> Scalar:
    """The value if JSON has it as one word, else its text."""
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def origin_of(plan: Plan, name: str) -> Origin | None:
    """The row of the plan's table of values."""
    return next((found for found in plan.origins if found.name == name), None)
