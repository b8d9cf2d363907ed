"""What Kubernetes says of pods: how containers ended, and why a pod was stopped or never started."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.ingest.clock import parse_clock
from firstfault.ingest.context import Context
from firstfault.ingest.exits import code_of_shell
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Clock, Place, ProcessExit
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan
from firstfault.units import parse_size

PRODUCES = ("sched.stop", "host.oom_kill", "host.ram_bytes")

MAX_EXITS = 1_000

_FIELD = lazy_pattern(
    r'^(?P<indent>\s*)(?:- )?"?(?P<name>Name|Status|Reason|State|Last State|Exit Code|Finished|Limits|memory'
    r'|name|phase|reason|exitCode|finishedAt|terminated|limits)"?:\s*"?(?P<value>[^"{]*?)"?,?\s*\{?$'
)
_FIRST_WORDS = lazy_pattern(
    r"^\s*(?:Name:|Status:|- containerID:|containerStatuses:|\"containerStatuses\")|^NAME\s+READY\s+STATUS|Exit Code:|exitCode"
)
_POD_ROW = lazy_pattern(r"^(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s+\d+/\d+\s+(?P<status>[A-Z]\w+)\s+\d+")
_EVENT = lazy_pattern(r"^\s*(?:Warning|Normal)\s+(?P<reason>\w+)\s+\S")
_STOPS = {
    "Evicted": "evicted",
    "Preempted": "preemption",
    "Preempting": "preemption",
    "FailedScheduling": "not_started",
    "ErrImagePull": "not_started",
    "ImagePullBackOff": "not_started",
    "NodeNotReady": "node_failure",
    "NodeLost": "node_failure",
}
_HTTP_DATE = lazy_pattern(
    r"\w{3}, (?P<day>\d\d) (?P<month>[A-Z][a-z]{2}) (?P<year>\d{4}) (?P<time>\d\d:\d\d:\d\d) (?P<zone>[+-]\d{4})"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_kubernetes(lines: Sequence[Line], ctx: Context) -> tuple[tuple[ProcessExit, ...], tuple[Fact, ...]]:
    """Container ends and facts of `kubectl describe`, `kubectl get pods` and pods as YAML or JSON."""
    if not any(_FIRST_WORDS.search(line.text) for line in lines):
        return (), ()
    pods = _Pods(ctx)
    for line in lines:
        pods.read(line)
    pods.close()
    return tuple(pods.exits[:MAX_EXITS]), pods.facts()


class _Pods:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.exits: list[ProcessExit] = []
        self._pod: str | None = None
        self._ended: tuple[int, Line] | None = None
        self._reason = ""
        self._time: Clock | None = None
        self._open = False
        self._in_limits = False
        self._stops: list[tuple[str, SourceSpan]] = []
        self._oom: list[SourceSpan] = []
        self._memory: list[tuple[int, SourceSpan]] = []

    def read(self, line: Line) -> None:
        """Read one line, of whatever it is."""
        span = self._ctx.span(line)
        if field := _FIELD.match(line.text):
            self._read_field(field["name"].replace(" ", "").lower(), field["value"].strip(), field["indent"], line)
        elif event := _EVENT.match(line.text):
            if event["reason"] in _STOPS:
                self._stops.append((_STOPS[event["reason"]], span))
        elif row := _POD_ROW.match(line.text):
            if row["status"] in _STOPS:
                self._stops.append((_STOPS[row["status"]], span))
            elif row["status"] == "OOMKilled":
                self._oom.append(span)
                self._pod, self._reason, self._ended = row["name"], "OOMKilled", (-9, line)
                self.close()

    def _read_field(self, name: str, value: str, indent: str, line: Line) -> None:
        span = self._ctx.span(line)
        if name == "name" and not indent:
            self.close()
            self._pod = value
        elif name in ("state", "laststate", "terminated"):
            self.close()
            self._open = name == "terminated" or value == "Terminated"
        elif name == "reason":
            if self._open:
                self._reason = value
            if value == "OOMKilled":
                self._oom.append(span)
            elif value in _STOPS:
                self._stops.append((_STOPS[value], span))
        elif name == "exitcode" and value.isdigit() and len(value) < 6:
            self._ended = (code_of_shell(int(value)), line)
        elif name in ("finished", "finishedat"):
            self._time = _time(value)
        elif name == "limits":
            self._in_limits = True
            return
        elif name == "memory" and self._in_limits:
            self._read_memory(value, span)
        self._in_limits = self._in_limits and name == "memory"

    def _read_memory(self, value: str, span: SourceSpan) -> None:
        try:
            size = parse_size(f"{value}B" if value.endswith("i") else value)
        except ValueError:
            return
        self._memory.append((size, span))

    def close(self) -> None:
        """The container's block is over: note how it ended."""
        if self._ended is not None:
            code, line = self._ended
            text = f"Reason: {self._reason or 'unknown'}, {line.text.strip()}"
            self.exits.append(
                ProcessExit(
                    place=Place(host=self._pod or line.place.host, time=self._time or line.place.time),
                    code=code,
                    by_launcher=False,
                    reporter="kubernetes",
                    span=self._ctx.span(line),
                    text=text[:500],
                    source_id=self._ctx.source_id,
                )
            )
        self._ended, self._reason, self._time, self._open = None, "", None, False

    def facts(self) -> tuple[Fact, ...]:
        """The facts of the pods; two different stops decide nothing."""
        facts: list[Fact] = []
        if len({stop for stop, _ in self._stops}) == 1:
            spans = tuple(span for _, span in self._stops[:4])
            facts.append(Fact(name="sched.stop", value=self._stops[0][0], origin="pod status and events", spans=spans))
        if self._oom:
            facts.append(Fact(name="host.oom_kill", value="memcg", origin="pod status", spans=tuple(self._oom[:4])))
        if self._memory:
            size, span = min(self._memory)
            facts.append(Fact(name="host.ram_bytes", value=size, origin="memory limit of the container", spans=(span,)))
        return tuple(facts)


def _time(text: str) -> Clock | None:
    """The time of `kubectl describe` (`Fri, 07 Feb 2025 19:25:31 +0000`) or of a manifest (ISO)."""
    found = _HTTP_DATE.match(text)
    if found and found["month"] in _MONTHS:
        text = f"{found['year']}-{_MONTHS.index(found['month']) + 1:02}-{found['day']} {found['time']} {found['zone']}"
    return parse_clock(text)
