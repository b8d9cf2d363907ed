"""The plan of a command whose words hold variables that are not known: what every value of them leaves the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import msgspec

from firstfault.launch.expansion import holds_unknown
from firstfault.launch.request import Request
from firstfault.model.plan import Origin, Plan, UnknownFact

MAX_COMBINATIONS = 32
_ALL = ("$@", "$*", "${@}", "${*}")

Values = Callable[[str], Sequence[str] | None]
"""Values that stand for all that an option may have; empty for one whose text is kept, None for an option without a value."""


def plan_in_doubt(request: Request, own: int, values: Values, plan: Callable[[Request], Plan]) -> Plan | None:
    """The plan with the words from `own` on tried out; None if all words of the launcher are known.

    A word that is no option's value and is not known may hold options, or the script: nothing then is known of the start.
    """
    places: dict[int, tuple[str, Sequence[str]]] = {}
    for place, option, word in _words(request.words, own, values):
        tried = values(option) if option else None
        if not option or tried == ("",):
            return _nothing(request, option, word)
        if tried:
            places[place] = (option, tried)
    if not places:
        return None
    combinations = list(product(*(tried for _, tried in places.values())))
    if len(combinations) > MAX_COMBINATIONS:
        place = next(iter(places))
        return _nothing(request, places[place][0], request.words[place])
    plans = [plan(_with(request, dict(zip(places, chosen, strict=True)))) for chosen in combinations]
    unknown = tuple(_fact(option, request.words[place]) for place, (option, _) in places.items())
    named = {option.lstrip("-").replace("-", "_"): _value_of(request.words[place]) for place, (option, _) in places.items()}
    merged = _alike(plans, named)
    return msgspec.structs.replace(merged, command=request.words, unknown=(*unknown, *merged.unknown))


def _words(words: Sequence[str], own: int, values: Values) -> Iterator[tuple[int, str, str]]:
    """Each word of the launcher that is not known: its place, its option (empty for a word of its own), and the word."""
    place = own
    while place < len(words):
        word = words[place]
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            if holds_unknown(word) and _before_a_script(words, place):
                yield place, "", word
            return
        if equals and holds_unknown(value):
            yield place, name, word
        elif not equals and values(name) is not None and place + 1 < len(words):
            place += 1
            if holds_unknown(words[place]):
                yield place, name, words[place]
        place += 1


def _before_a_script(words: Sequence[str], place: int) -> bool:
    """True if the script comes later: the word then stands for options. All arguments of a script may be anything."""
    following = words[place + 1] if place + 1 < len(words) else ""
    return words[place] in _ALL or following.endswith(".py") or following == "-m" or holds_unknown(following)


def _value_of(word: str) -> str:
    name, equals, value = word.partition("=")
    return value if equals and name.startswith("-") else word


def _with(request: Request, chosen: Mapping[int, str]) -> Request:
    words = list(request.words)
    for place, value in chosen.items():
        name, equals, _ = words[place].partition("=")
        words[place] = f"{name}={value}" if equals and name.startswith("-") else value
    return msgspec.structs.replace(request, words=tuple(words))


def _fact(option: str, word: str) -> UnknownFact:
    text = _value_of(word)
    what = f"{option} is {text}" if option else f"{text} stands where options or the script do"
    return UnknownFact(fact=option.lstrip("-") or text, why=f"{what}, which is not known here", command=f'echo "{text}"')


def _nothing(request: Request, option: str, word: str) -> Plan:
    tool = request.words[0].rpartition("/")[2].partition("-")[0]
    return Plan(tool=tool, command=request.words, gpus=request.machine.gpus, unknown=(_fact(option, word),))


def _alike(plans: Sequence[Plan], named: Mapping[str, str]) -> Plan:
    """What all plans have; the rows of the options themselves show the word that stands there."""
    first, *others = plans
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(Plan):
        value = getattr(first, field.name)
        if all(getattr(other, field.name) == value for other in others):
            kept[field.name] = value
        elif isinstance(value, dict):
            kept[field.name] = {
                key: one for key, one in value.items() if all(_same(other, field.name, key, one) for other in others)
            }
    kept["origins"] = tuple(_rows(plans, named))
    return Plan(**kept)


def _same(plan: Plan, field: str, key: object, value: object) -> bool:
    return bool(getattr(plan, field).get(key) == value)


def _rows(plans: Sequence[Plan], named: Mapping[str, str]) -> Iterator[Origin]:
    first, *others = plans
    for row in first.origins:
        if row.name in named:
            yield msgspec.structs.replace(row, value=named[row.name], overrode=())
        elif all(row in other.origins for other in others):
            yield row
