"""Pods and events as `kubectl ... -o json` prints them: how containers ended, why a pod was stopped, its memory limit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from firstfault.ingest.clock import parse_clock
from firstfault.ingest.exits import code_of_shell
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Place

MAX_BYTES = 8 << 20
MAX_DEPTH = 64
MAX_OBJECTS = 5_000
MAX_TEXT_CHARS = 500

_BRACKETS = lazy_pattern(r'"(?:[^"\\]|\\.)*"|[\[{\]}]')
_DISRUPTIONS = {
    "PreemptionByScheduler": "Preempted",
    "EvictionByEvictionAPI": "Evicted",
    "TerminationByKubelet": "Evicted",
    "DeletionByTaintManager": "NodeLost",
    "DeletionByPodGC": "NodeLost",
}
"""Reasons of the condition `DisruptionTarget` under the names that events have."""


class Ended(msgspec.Struct, frozen=True):
    """A container that ended: its exit code (negative for a signal), Kubernetes' reason, pod and time."""

    code: int
    reason: str
    place: Place
    line: Line


class Stated(msgspec.Struct, frozen=True):
    """A reason that stands on a pod or in an event about one, and what it says besides."""

    reason: str
    about: str
    message: str
    line: Line


class Limit(msgspec.Struct, frozen=True):
    """The memory limit of a container as it was written (`60Gi`)."""

    text: str
    line: Line


Found = Ended | Stated | Limit


def read_objects(lines: Sequence[Line]) -> tuple[Found, ...] | None:
    """What the objects say, in their order; None if the lines are no JSON of bounded size and depth."""
    text = "\n".join(line.raw for line in lines)
    if not text.lstrip().startswith("{") or len(text) > MAX_BYTES or _is_too_deep(text):
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return None
    places = _Places(lines)
    return tuple(found for item in _items(document) for found in _read(item, places))


def _is_too_deep(text: str) -> bool:
    depth = 0
    for token in _BRACKETS.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            return True
    return False


class _Places:
    """Lines by the value that stands in them: the parser says what was read, not where.

    Values are looked for in document order, each one behind the last line found.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._next = 0

    def of(self, key: str, value: object) -> Line:
        """The next line that holds both; the last one found if there is none."""
        wanted, shown = f'"{key}"', json.dumps(value, ensure_ascii=False)
        count = len(self._lines)
        for index in range(self._next, self._next + count):
            line: Line = self._lines[index % count]
            if wanted in line.raw and shown in line.raw:
                # Several values may stand on one line, so the next search begins there again.
                self._next = index % count
                return line
        found: Line = self._lines[self._next]
        return found


def _items(document: object) -> Iterator[Mapping[str, Any]]:
    listed = _list(document, "items")
    for item in (listed or [document])[:MAX_OBJECTS]:
        if isinstance(item, dict):
            yield item


def _read(item: Mapping[str, Any], places: _Places) -> Iterator[Found]:
    if isinstance(item.get("involvedObject"), dict):
        yield from _read_event(item, places)
    elif isinstance(item.get("status"), dict):
        yield from _read_pod(item, places)


def _read_event(item: Mapping[str, Any], places: _Places) -> Iterator[Found]:
    reason, about = _text(item, "reason"), _text(_map(item, "involvedObject"), "name")
    if reason:
        yield Stated(reason, about, _text(item, "message"), places.of("reason", reason))


def _read_pod(item: Mapping[str, Any], places: _Places) -> Iterator[Found]:
    name, status = _text(_map(item, "metadata"), "name"), _map(item, "status")
    for container in _maps(_map(item, "spec"), "containers"):
        limit = _map(_map(container, "resources"), "limits").get("memory")
        if isinstance(limit, str):
            yield Limit(limit, places.of("memory", limit))
    for condition in _maps(status, "conditions"):
        reason = _DISRUPTIONS.get(_text(condition, "reason"))
        if reason and _text(condition, "type") == "DisruptionTarget" and _text(condition, "status") == "True":
            yield Stated(reason, name, _text(condition, "message"), places.of("reason", condition["reason"]))
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container in _maps(status, kind):
            for state in ("lastState", "state"):
                yield from _read_terminated(_map(_map(container, state), "terminated"), name, places)
    if reason := _text(status, "reason"):
        yield Stated(reason, name, _text(status, "message"), places.of("reason", reason))


def _read_terminated(ended: Mapping[str, Any], pod: str, places: _Places) -> Iterator[Found]:
    code, signal = ended.get("exitCode"), ended.get("signal")
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code < 1 << 16:
        return
    number = -signal if isinstance(signal, int) and 0 < signal <= 64 else code_of_shell(code)
    place = Place(host=pod or None, time=parse_clock(_text(ended, "finishedAt")))
    yield Ended(number, _text(ended, "reason"), place, places.of("exitCode", code))


def _map(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def _list(item: object, key: str) -> list[Any]:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, list) else []


def _maps(item: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [value for value in _list(item, key)[:MAX_OBJECTS] if isinstance(value, dict)]


def _text(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else ""
