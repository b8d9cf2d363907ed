"""What Slurm says of a job: why it was stopped, which steps ended how, and whether memory was the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firstfault.ingest.accounting import AccountingTable
from firstfault.ingest.clock import parse_clock
from firstfault.ingest.context import Context
from firstfault.ingest.exits import code_of_shell
from firstfault.ingest.kubernetes import read_kubernetes
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Place, ProcessExit
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan
from firstfault.units import parse_size

PRODUCES = ("sched.stop", "host.oom_kill", "host.ram_bytes")

MAX_EXITS = 1_000
MAX_TEXT_CHARS = 500

_TRIGGER = lazy_pattern(
    r"slurmstepd|CANCELLED|srun: error|oom[_-]kill|TRES=|ReqMem=|^\s*\d+[\w.\[\]+-]*[ |]|^\s*JobID|^\s*--+ +--|SLURMSTEPD"
)
_CANCELLED = lazy_pattern(
    r"error: \*\*\* (?P<what>JOB|STEP) (?P<id>\S{1,64})(?: ON (?P<host>\S{1,255}))? CANCELLED AT (?P<time>\S{10,32}?)"
    r"(?: DUE TO (?P<reason>[A-Z][A-Z _-]*[A-Z]))?(?P<rest>[ ,].{0,80})?\*\*\*"
)
_OOM = lazy_pattern(
    r"(?:slurmstepd(?:-(?P<host>\S{1,255}?))?|srun): error: (?:Detected \d+ oom[_-]kill event|.{0,80}\boom[_-]kill)"
)
_TASK_EXIT = lazy_pattern(r"srun: error: \S{1,255}: tasks? ")
_ACCOUNTING = lazy_pattern(
    r"^\s*(?P<id>\d+(?:_\d+)?(?:\.\w+)?)[ |].{0,300}?"
    r"\b(?P<state>COMPLETED|FAILED|TIMEOUT|PREEMPTED|NODE_FAIL|CANCELLED|OUT_OF_MEMORY|OUT_OF_ME|BOOT_FAIL|DEADLINE)\b"
    r"\+?(?: by \d+)?[ |]+(?P<code>\d{1,3}):(?P<signal>\d{1,3})(?![:\d])"
)
_MEMORY = lazy_pattern(r"(?:\bReqMem=|TRES=\S{0,200}?\bmem=)(?P<size>[0-9]{1,15}(?:\.[0-9]{1,9})?[KMGT])")
_CODES = lazy_pattern(r"(\d{1,3}):(\d{1,3})")
_NODE = lazy_pattern(r"[A-Za-z][\w.-]{0,250}")
_REQUESTED = lazy_pattern(r"(?P<size>[0-9]{1,15}(?:\.[0-9]{1,9})?[KMGT])(?P<unit>[nc]?)")
_REASONS = {"TIME LIMIT": "time_limit", "PREEMPTION": "preemption", "NODE FAILURE": "node_failure"}
_STATES = {
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "PREEMPTED": "preemption",
    "NODE_FAIL": "node_failure",
    "BOOT_FAIL": "node_failure",
    "CANCELLED": "cancelled",
}


def read_scheduler(lines: Sequence[Line], ctx: Context) -> tuple[tuple[ProcessExit, ...], tuple[Fact, ...]]:
    """Process ends and facts from Slurm's and Kubernetes' own texts."""
    slurm = _Slurm(ctx)
    for line in lines:
        if _TRIGGER.search(line.text):
            slurm.read(line)
    slurm.close()
    pod_exits, pod_facts = read_kubernetes(lines, ctx)
    facts = {fact.name: fact for fact in (*pod_facts, *slurm.facts())}
    return (*slurm.exits[:MAX_EXITS], *pod_exits), tuple(facts.values())


class _Slurm:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.exits: list[ProcessExit] = []
        self._stops: list[tuple[str, SourceSpan]] = []
        self._oom: list[SourceSpan] = []
        self._memory: list[tuple[int, SourceSpan]] = []
        self._task_exited = False
        self._table = AccountingTable()
        self._jobs: list[tuple[Line, Place, int]] = []
        self._steps_seen = False

    def read(self, line: Line) -> None:
        """Read one line that may be of interest."""
        span = self._ctx.span(line)
        if found := _CANCELLED.search(line.text):
            reason = _REASONS.get(found["reason"] or "")
            # Without a reason a cancelled step is srun's teardown, and after a task's exit the job's end as well.
            if reason is None and not found["reason"] and found["what"] == "JOB" and not self._task_exited:
                reason = "cancelled"
            if reason is not None:
                self._stops.append((reason, span))
                place = Place(host=found["host"], time=parse_clock(found["time"]) or line.place.time)
                self._exit(line, place, -15)
        elif found := _OOM.search(line.text):
            self._oom.append(span)
            self._exit(line, Place(host=found["host"] or line.place.host, time=line.place.time), -9)
        elif _TASK_EXIT.search(line.text):
            self._task_exited = True
        elif fields := self._table.row(line.text):
            self._read_fields(fields, line, span)
        elif found := _ACCOUNTING.match(line.text):
            self._read_row(found["id"], found["state"], f"{found['code']}:{found['signal']}", line, span, Place())
        elif found := _MEMORY.search(line.text):
            self._memory.append((parse_size(found["size"]), span))

    def _read_fields(self, fields: Mapping[str, str], line: Line, span: SourceSpan) -> None:
        """One row of a table whose header is known."""
        nodes = fields.get("nodelist", "")
        place = Place(host=nodes if _NODE.fullmatch(nodes) else None, time=parse_clock(fields.get("end", "")))
        job = fields.get("jobid") or fields.get("jobidraw") or ""
        state = fields["state"].split()[0].rstrip("+")
        self._read_row(job, state, fields.get("exitcode", ""), line, span, place)
        # What is asked per processor, or for several nodes together, is no limit of one host.
        one_node = place.host is not None and fields.get("nnodes", "1") == "1"
        size = _REQUESTED.fullmatch(fields.get("reqmem", ""))
        if size and (size["unit"] == "n" or (not size["unit"] and one_node)):
            self._memory.append((parse_size(size["size"]), span))

    def _read_row(self, job: str, state: str, code: str, line: Line, span: SourceSpan, place: Place) -> None:
        is_step = "." in job
        if state in _STATES and not is_step:
            self._stops.append((_STATES[state], span))
        if state.startswith("OUT_OF_ME"):
            self._oom.append(span)
        numbers = _CODES.fullmatch(code)
        # The extern step holds no process of the user.
        if numbers is None or job.endswith(".extern"):
            return
        number, signal = int(numbers[1]), int(numbers[2])
        # 0:125 is Slurm's own code for a job that the memory limit ended.
        ended = -9 if signal == 125 else -signal if signal else code_of_shell(number)
        if is_step:
            self._steps_seen = True
            self._exit(line, place, ended)
        else:
            self._jobs.append((line, place, ended))

    def close(self) -> None:
        """A job without any step is all that is known of its end."""
        if not self._steps_seen:
            for line, place, ended in self._jobs[:MAX_EXITS]:
                if ended and len(self.exits) < MAX_EXITS:
                    self._exit(line, place, ended)

    def _exit(self, line: Line, place: Place, code: int) -> None:
        self.exits.append(
            ProcessExit(
                place=place,
                code=code,
                by_launcher=False,
                reporter="slurm",
                span=self._ctx.span(line),
                text=line.text.strip()[:MAX_TEXT_CHARS],
                source_id=self._ctx.source_id,
            )
        )

    def facts(self) -> tuple[Fact, ...]:
        """The facts of the job; two different stops decide nothing."""
        facts: list[Fact] = []
        if len({reason for reason, _ in self._stops}) == 1:
            spans = tuple(span for _, span in self._stops[:4])
            facts.append(Fact(name="sched.stop", value=self._stops[0][0], origin="Slurm's record", spans=spans))
        if self._oom:
            facts.append(Fact(name="host.oom_kill", value="memcg", origin="Slurm's record", spans=tuple(self._oom[:4])))
        if self._memory:
            size, span = min(self._memory)
            facts.append(Fact(name="host.ram_bytes", value=size, origin="memory of the job", spans=(span,)))
        return tuple(facts)
