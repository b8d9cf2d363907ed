"""What Kubernetes says of pods: how containers ended, and why a pod was stopped or never started."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.ingest.clock import parse_clock
from firstfault.ingest.context import Context
from firstfault.ingest.exits import code_of_shell
from firstfault.ingest.kubernetes_objects import Found, Limit, Stated, read_objects
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
_EVENTS_HEAD = r"^(?:NAMESPACE\s+)?LAST SEEN\s+TYPE\s+REASON"
_FIRST_WORDS = lazy_pattern(
    r"^\s*(?:Name:|Status:|- containerID:|containerStatuses:|\"containerStatuses\")|^NAME\s+READY\s+STATUS|Exit Code:|exitCode"
    r"|\"involvedObject\"|" + _EVENTS_HEAD
)
_POD_ROW = lazy_pattern(r"^(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s+\d+/\d+\s+(?P<status>[A-Z]\w+)\s+\d+")
_EVENT = lazy_pattern(r"^\s*(?:Warning|Normal)\s+(?P<reason>\w+)\s+\S")
# `kubectl get events`: the age comes first, and the object is named.
_EVENT_ROW = lazy_pattern(
    r"^\s*(?:[a-z0-9][a-z0-9-]{0,62}\s+)?(?:\d[\dsmhdy]{1,12}|<\w+>)(?: \(x\d+ over \w+\))?\s+(?:Warning|Normal)\s+"
    r"(?P<reason>\w+)\s+(?P<kind>\w+)/(?P<about>[a-z0-9][a-z0-9.-]{0,252})\s+(?P<message>.*)$"
)
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
_STARTED = frozenset({"Scheduled", "Started"})
_OUT_OF_MEMORY = {"SystemOOM": "system", "OOMKilling": "memcg", "OOMKilled": "memcg"}
_SYSTEM_KILL = lazy_pattern(r"(?:System OOM|Out of memory: Kill)")
_VICTIM = lazy_pattern(r"victim process: [^,]{0,64}, pid: (?P<pid>\d{1,9})|Killed process (?P<killed>\d{1,9})\b")
# What a controller appends to the name of its pods: an index, or one or two parts of random letters.
_TAIL = lazy_pattern(r"(?:-\d{1,6}|-[a-z0-9]{8,10}-[a-z0-9]{5}|-[a-z0-9]{5})$")
_HTTP_DATE = lazy_pattern(
    r"\w{3}, (?P<day>\d\d) (?P<month>[A-Z][a-z]{2}) (?P<year>\d{4}) (?P<time>\d\d:\d\d:\d\d) (?P<zone>[+-]\d{4})"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_kubernetes(lines: Sequence[Line], ctx: Context) -> tuple[tuple[ProcessExit, ...], tuple[Fact, ...]]:
    """Container ends and facts of `kubectl describe`, `kubectl get pods` and `get events`, and of pods as YAML or JSON."""
    if not any(_FIRST_WORDS.search(line.text) for line in lines):
        return (), ()
    pods = _Pods(ctx)
    objects = read_objects(lines)
    if objects is None:
        for line in lines:
            pods.read(line)
        pods.close()
    else:
        for found in objects:
            pods.read_object(found)
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
        self._stops: list[tuple[str, str, SourceSpan]] = []
        self._started = False
        self._oom: list[tuple[str, SourceSpan]] = []
        self._memory: list[tuple[int, SourceSpan]] = []

    def read(self, line: Line) -> None:
        """Read one line, of whatever it is."""
        if field := _FIELD.match(line.text):
            self._read_field(field["name"].replace(" ", "").lower(), field["value"].strip(), field["indent"], line)
        elif event := _EVENT.match(line.text):
            self._state(event["reason"], self._pod or "", line.text, line)
        elif event := _EVENT_ROW.match(line.text):
            self._state(event["reason"], event["about"], event["message"], line)
        elif row := _POD_ROW.match(line.text):
            self._state(row["status"], row["name"], "", line)
            if row["status"] == "OOMKilled":
                self._pod, self._reason, self._ended = row["name"], "OOMKilled", (-9, line)
                self.close()

    def read_object(self, found: Found) -> None:
        """Take over what a pod or an event in JSON says."""
        if isinstance(found, Limit):
            self._read_memory(found.text, self._ctx.span(found.line))
        elif isinstance(found, Stated):
            self._state(found.reason, found.about, found.message, found.line)
        else:
            self._state(found.reason, found.place.host or "", "", found.line)
            self._exit(found.place, found.code, f"Reason: {found.reason or 'unknown'}, {found.line.text.strip()}", found.line)

    def _state(self, reason: str, about: str, message: str, line: Line) -> None:
        """Note the reason of a status or an event, if it is one that ends a pod or shows that it ran."""
        span = self._ctx.span(line)
        if reason in _STOPS:
            self._stops.append((_STOPS[reason], _TAIL.sub("", about), span))
        elif reason in _STARTED:
            self._started = True
        elif reason in _OUT_OF_MEMORY:
            self._oom.append(("system" if _SYSTEM_KILL.search(message) else _OUT_OF_MEMORY[reason], span))
            victim = _VICTIM.search(message)
            if victim:
                place = Place(host=about or None, pid=int(victim["pid"] or victim["killed"]), time=line.place.time)
                self._exit(place, -9, line.text.strip(), line)

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
            self._state(value, self._pod or "", "", line)
        elif name == "exitcode" and value.isdecimal() and len(value) < 6:
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
            self._exit(Place(host=self._pod or line.place.host, time=self._time or line.place.time), code, text, line)
        self._ended, self._reason, self._time, self._open = None, "", None, False

    def _exit(self, place: Place, code: int, text: str, line: Line) -> None:
        self.exits.append(
            ProcessExit(
                place=place,
                code=code,
                by_launcher=False,
                reporter="kubernetes",
                span=self._ctx.span(line),
                text=text[:500],
                source_id=self._ctx.source_id,
            )
        )

    def facts(self) -> tuple[Fact, ...]:
        """The facts of the pods; two different stops, or stops of two workloads, decide nothing."""
        facts: list[Fact] = []
        # A pod that had to wait for a node and then ran was not stopped by that.
        ran = self._started or bool(self.exits)
        stops = [stop for stop in self._stops if not (ran and stop[0] == "not_started")]
        if len({stop for stop, _, _ in stops}) == 1 and len({about for _, about, _ in stops if about}) <= 1:
            spans = tuple(span for _, _, span in stops[:4])
            facts.append(Fact(name="sched.stop", value=stops[0][0], origin="pod status and events", spans=spans))
        if len({kind for kind, _ in self._oom}) == 1:
            spans = tuple(span for _, span in self._oom[:4])
            facts.append(Fact(name="host.oom_kill", value=self._oom[0][0], origin="pod status and events", spans=spans))
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
