"""What the kernel says of processes: killed for memory, crashed in a library, and the GPUs it reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from firstfault.ingest import hardware
from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Place, ProcessExit
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan

PRODUCES = ("host.oom_kill", "host.ram_bytes", "native.module", "gpu.xid", "gpu.xid_first", "gpu.xid_kind", *hardware.PRODUCES)

MAX_EXITS = 1_000
MAX_XIDS = 1_000
MAX_TEXT_CHARS = 500

# The text may still carry what dmesg or syslog put before it; kernel text quoted further inside a line is no report.
_LEAD = r"^(?:.{0,80}?\bkernel: )?(?:<\d>)?\s*(?:\[\s*\d+\.\d+\]\s*)?"
_TRIGGER = lazy_pattern(
    r"oom-kill:|ut of memory: Kill|segfault at|general protection|invalid opcode|NVRM: Xid|usage \d+kB, limit"
    r"|hardware memory corruption"
)
_CONSTRAINT = lazy_pattern(_LEAD + r"oom-kill:constraint=(?P<constraint>\w+).*?(?:,task=[^,]*,pid=(?P<pid>\d{1,9}))?,uid=")
_KILLED = lazy_pattern(
    _LEAD + r"(?P<scope>Memory cgroup out of memory|Out of memory): Kill(?:ed)? process (?P<pid>\d{1,9}) \((?P<name>[^)]*)\)"
)
_CGROUP_LIMIT = lazy_pattern(_LEAD + r"memory: usage \d+kB, limit (?P<limit>\d{1,15})kB")
_SEGFAULT = lazy_pattern(
    _LEAD
    + r"(?:traps: )?(?P<name>[^\[\]:]{1,64})\[(?P<pid>\d{1,9})\]:? (?P<kind>segfault at|general protection|trap invalid opcode)"
    r".*?(?: in (?P<module>[^\s\[]{1,255})\[|$)"
)
_CORRUPTION = lazy_pattern(
    _LEAD + r"(?:Memory failure: 0x[0-9a-f]{1,16}: Sending SIGBUS to|MCE 0x[0-9a-f]{1,16}: Killing)"
    r" (?P<name>[^:]{1,64}):(?P<pid>\d{1,9}) due to hardware memory corruption",
    needs="hardware memory corruption",
)
_XID = lazy_pattern(
    _LEAD + r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.\d)?\): (?P<xid>\d{1,4})"
)

# What the Xid catalogue says: application first, then hardware, link and firmware; the last three only report a cleanup.
_XID_KINDS = {
    **dict.fromkeys((13, 31, 68, 69), "application"),
    **dict.fromkeys((48, 63, 64, 79, 94, 95, 140), "hardware"),
    **dict.fromkeys((74, 121, 137, 145, 149), "link"),
    **dict.fromkeys((119, 120), "firmware"),
    **dict.fromkeys((43, 45, 154), "cleanup"),
}
_XID_FOLLOWS = {63: 48, 64: 48, 94: 48, 95: 48}
_XID_TOGETHER_S = 1.0


def read_kernel(lines: Sequence[Line], ctx: Context) -> tuple[tuple[ProcessExit, ...], tuple[Fact, ...]]:
    """Processes that the kernel killed or saw crash, and what it says of memory, libraries and GPUs."""
    reader = _Kernel(ctx)
    for line in lines:
        if _TRIGGER.search(line.text):
            reader.read(line)
    return tuple(reader.exits[:MAX_EXITS]), (*reader.facts(), *hardware.read_hardware(lines, ctx))


class _Kernel:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.exits: list[ProcessExit] = []
        self._killed: set[int] = set()
        self._kills: list[tuple[str, SourceSpan]] = []
        self._limits: list[tuple[int, SourceSpan]] = []
        self._modules: list[tuple[str, SourceSpan]] = []
        self._xids: list[Xid] = []

    def read(self, line: Line) -> None:
        """Read one line that may be of interest."""
        span = self._ctx.span(line)
        if found := _CONSTRAINT.match(line.text):
            memcg = found["constraint"] == "CONSTRAINT_MEMCG"
            self._kills.append(("memcg" if memcg else "system", span))
            if found["pid"]:
                self._exit(line, int(found["pid"]), -9)
        elif found := _KILLED.match(line.text):
            self._kills.append(("memcg" if found["scope"].startswith("Memory") else "system", span))
            self._exit(line, int(found["pid"]), -9)
        elif found := _CGROUP_LIMIT.match(line.text):
            self._limits.append((int(found["limit"]) * 1024, span))
        elif found := _SEGFAULT.match(line.text):
            self._modules.append((found["module"] or "", span))
            self._exit(line, int(found["pid"]), -4 if "opcode" in found["kind"] else -11)
        elif found := _CORRUPTION.match(line.text):
            self._exit(line, int(found["pid"]), -7)
        elif (found := _XID.match(line.text)) and len(self._xids) < MAX_XIDS:
            time = line.place.time.seconds if line.place.time else None
            self._xids.append(Xid(bus_of(found["bus"]), int(found["xid"]), time, span))

    def _exit(self, line: Line, pid: int, code: int) -> None:
        """Note the end of a process once: a kill is printed as a constraint line and a result line."""
        if pid in self._killed:
            return
        self._killed.add(pid)
        self.exits.append(
            ProcessExit(
                place=Place(host=line.place.host, pid=pid, time=line.place.time),
                code=code,
                by_launcher=False,
                reporter="kernel",
                span=self._ctx.span(line),
                text=line.text.strip()[:MAX_TEXT_CHARS],
                source_id=self._ctx.source_id,
            )
        )

    def facts(self) -> tuple[Fact, ...]:
        """The facts that the whole text decides; contradicting lines decide nothing."""
        facts: list[Fact] = []
        if len({kind for kind, _ in self._kills}) == 1:
            kind = self._kills[0][0]
            facts.append(_fact("host.oom_kill", kind, "kernel log", tuple(span for _, span in self._kills[:4])))
        if self._limits:
            limit, span = min(self._limits)
            facts.append(_fact("host.ram_bytes", limit, "limit of the memory cgroup", (span,)))
        if len({module for module, _ in self._modules}) == 1 and self._modules[0][0]:
            facts.append(_fact("native.module", self._modules[0][0], "kernel log", (self._modules[0][1],)))
        # Which of several GPUs is meant is for the engine to say, which knows the ranks.
        if len({xid.bus for xid in self._xids}) == 1:
            facts.extend(xid_facts(self._xids))
        return tuple(facts)


class Xid(NamedTuple):
    """One report of the NVIDIA driver: the GPU's bus, the number, when (seconds of that log's clock), and where it stands."""

    bus: str
    number: int
    time: float | None
    span: SourceSpan


def bus_of(text: str) -> str:
    """`0000:98:00` for every way in which the driver writes that address."""
    return text.lower().removeprefix("pci:").partition(".")[0][-10:]


def xid_facts(xids: Sequence[Xid]) -> list[Fact]:
    """What the Xids of one GPU say: their numbers in order, the first that is no cleanup report, and its kind."""
    numbers = tuple(dict.fromkeys(xid.number for xid in xids))
    facts = [_fact("gpu.xid", numbers, "kernel log", tuple(xid.span for xid in xids[:8]))]
    causes = [xid for xid in xids if _XID_KINDS.get(xid.number) != "cleanup"]
    if causes:
        first = causes[0]
        for other in causes[1:]:
            if _XID_FOLLOWS.get(first.number) == other.number and _close(first, other):
                first = other
        facts.append(_fact("gpu.xid_first", first.number, "first Xid that is not a cleanup report", (first.span,)))
        if first.number in _XID_KINDS:
            facts.append(_fact("gpu.xid_kind", _XID_KINDS[first.number], "Xid catalogue", (first.span,)))
    return facts


def _close(one: Xid, other: Xid) -> bool:
    return one.time is not None and other.time is not None and abs(other.time - one.time) < _XID_TOGETHER_S


def _fact(name: str, value: str | int | tuple[int, ...], origin: str, spans: tuple[SourceSpan, ...]) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=spans)
