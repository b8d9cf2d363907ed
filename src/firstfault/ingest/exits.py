"""Lines in which a launcher or a shell says how a process ended, or that it ends one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Place, ProcessExit

MAX_EXITS = 10_000
MAX_LIST_ITEM_CHARS = 20
MAX_TASKS = 65_536
MAX_TEXT_CHARS = 500

_SIGNAL_TEXTS = {
    "killed": -9,
    "terminated": -15,
    "segmentation fault": -11,
    "aborted": -6,
    "bus error": -7,
    "illegal instruction": -4,
    "floating point exception": -8,
    "hangup": -1,
    "interrupt": -2,
    "out of memory": -9,
}
_ENDINGS = "|".join(_SIGNAL_TEXTS)


def code_of_shell(code: int) -> int:
    """Exit codes above 128 of shells and containers mean a signal: 137 is -9."""
    return 128 - code if 128 < code < 128 + 65 else code


def code_of_signal(name: str) -> int | None:
    """-9 for `SIGKILL`, `Killed` or `9`; None for anything unknown."""
    if name.isdecimal() and len(name) < 10:
        return -int(name)
    if name.lower() in _SIGNAL_TEXTS:
        return _SIGNAL_TEXTS[name.lower()]
    # Building its enumerations is dear, and most sources name no signal.
    import signal

    number = signal.Signals.__members__.get(name.upper())
    return None if number is None else -int(number)


class _Rule:
    """A text, who prints it, and how its captures become an exit: pid, local rank, code, signal, shell code."""

    def __init__(
        self,
        reporter: str,
        pattern: str,
        *,
        needs: str | tuple[str, ...] | None = None,
        by_launcher: bool = False,
        anchored: bool = False,
    ) -> None:
        self.reporter = reporter
        self.by_launcher = by_launcher
        self._pattern = lazy_pattern(pattern, needs=needs)
        self._anchored = anchored

    def search(self, text: str) -> re.Match[str] | None:
        """The match: at the start if the text is anchored, else anywhere."""
        return self._pattern.match(text) if self._anchored else self._pattern.search(text)


_TRIGGER = lazy_pattern(
    r"exit ?code|closing signal|via signal|via SIG|forcefully exiting|subprocess|return code|exit status|died with|srun: error"
    r"|terminated with|exited with|exited on signal|finished with|non-zero status|terminated by signal|echo \$\?|\b(?i:"
    + _ENDINGS
    + r")\b"
)
_RULES = (
    _Rule(
        "elastic",
        r"failed \(exitcode: (?P<code>-?\d{1,6})\) local_rank: (?P<local>\d{1,9}) \(pid: (?P<pid>\d{1,9})\)",
        needs="failed (exitcode: ",
    ),
    _Rule(
        "elastic",
        r"Sending process (?P<pid>\d{1,9}) closing signal (?P<signal>SIG\w+)",
        needs="closing signal",
        by_launcher=True,
    ),
    _Rule("spawn", r"Terminating process (?P<pid>\d{1,9}) via signal (?P<signal>SIG\w+)", needs="via signal", by_launcher=True),
    _Rule(
        "elastic",
        # Python >= 3.11 formats a signal as its number.
        r"Unable to shutdown process (?P<pid>\d{1,9}) via (?:Signals\.)?\w+,"
        r" forcefully exiting via (?:Signals\.)?(?P<signal>SIG\w+|\d{1,2})",
        needs="forcefully exiting",
        by_launcher=True,
    ),
    _Rule("deepspeed", r"Killing subprocess (?P<pid>\d{1,9})", needs="Killing subprocess", by_launcher=True),
    _Rule("deepspeed", r"exits with return code = (?P<code>-?\d{1,6})", needs="return code"),
    _Rule(
        "spawn",
        r"\bprocess (?P<local>\d{1,9}) terminated with (?:signal (?P<signal>SIG\w+)|exit code (?P<code>-?\d{1,6}))",
        needs="terminated with",
    ),
    _Rule(
        "accelerate",
        r"CalledProcessError: Command .{1,7000} (?:returned non-zero exit status (?P<shell>-?\d{1,6})"
        r"|died with <Signals\.\w+: (?P<signal>\d{1,3})>)",
        needs="CalledProcessError: Command ",
    ),
    _Rule(
        "shell",
        r"(?:Process|Command|Job|Program|Script|Container|Main process)\b.{0,200}?\b(?:exited|finished|completed|terminated)"
        r" with (?:exit )?(?:code|status|non-zero status)[ :=]*(?P<shell>-?\d{1,6})\b",
        needs=" with ",
        anchored=True,
    ),
    _Rule("shell", r"Command terminated by signal (?P<signal>\d{1,3})", needs="terminated by signal", anchored=True),
    _Rule(
        "shell",
        r"(?:make: \*\*\* .{0,200}\bError|exit (?:code|status)[ :=]) ?(?P<shell>\d{1,3})\s*$",
        needs=("make: *** ", "exit code", "exit status"),
        anchored=True,
    ),
    _Rule(
        "shell",
        # A progress bar ends without a line break: the shell's word stands right behind its bracket.
        r"(?:\S{1,200}: line \d{1,6}: +|\[\d{1,4}\]\s*[+-]?\s+|zsh: |[^\r\n]{0,400}?\[[\d:]{4,12}<[^\]\r\n]{1,80}\])?"
        r"(?:(?P<pid>\d{1,9})\s+)?"
        r"(?i:(?P<signal>" + _ENDINGS + r"))(?: +\(core dumped\)|: \d{1,2}|)(?=\s*$|\s{2,}\S)",
        anchored=True,
    ),
)
_SRUN = lazy_pattern(
    r"srun: error: (?P<host>[^\s:]{1,255}): tasks? (?P<tasks>[\d,\- ]{1,4096}): "
    r"(?:Exited with exit code (?P<code>\d{1,6})|(?P<signal>[A-Z][A-Za-z ]+?)(?: \(core dumped\))?\s*$)",
    needs="srun: error: ",
)
# Open MPI names the rank that it saw end first; pdsh the host whose remote shell ended.
_MPIRUN = lazy_pattern(
    r"(?:mpirun|mpiexec|prterun) noticed that process rank (?P<rank>\d{1,6}) with PID (?P<pid>\d{1,9}) on node"
    r" (?P<host>\S{1,255}) exited on signal (?P<signal>\d{1,3})\b",
    needs=" noticed that process rank ",
)
_PDSH = lazy_pattern(
    r"pdsh@\S{1,255}: (?P<host>[^\s:]{1,255}): (?:\w+ )?exited with exit code (?P<code>\d{1,3})\b", needs="pdsh@"
)
_ECHO = lazy_pattern(r".{0,80}\becho \$\?\s*$", needs="echo $?")
_NUMBER = lazy_pattern(r"\s*(\d{1,3})\s*$")


def read_exits(lines: Sequence[Line], ctx: Context) -> tuple[ProcessExit, ...]:
    """Process ends and signals sent by launchers, in printed order.

    The pid in a log prefix is the launcher's own and never taken for that of the process; a command that a launcher quotes
    with an exit code is the last one it started, not the one that failed, so no rank is read from it.
    """
    found: list[ProcessExit] = []
    after_echo = False
    for line in lines:
        text = line.text
        if after_echo and text.strip():
            after_echo = False
            number = _NUMBER.match(text)
            if number:
                found.append(_exit(line, ctx, "shell", code_of_shell(int(number[1]))))
                continue
        if not _TRIGGER.search(text):
            continue
        if _ECHO.match(text):
            after_echo = True
            continue
        exit_ = _read_srun(line, ctx) or _read_mpirun(line, ctx) or _read_pdsh(line, ctx) or _read_rules(line, ctx)
        if exit_ is not None:
            found.append(exit_)
            if len(found) >= MAX_EXITS:
                break
    return tuple(found)


def _read_rules(line: Line, ctx: Context) -> ProcessExit | None:
    for rule in _RULES:
        match = rule.search(line.text)
        if match is None:
            continue
        parts = match.groupdict()
        code = None
        if parts.get("code"):
            code = int(parts["code"])
        elif parts.get("shell"):
            code = code_of_shell(int(parts["shell"]))
        elif parts.get("signal"):
            code = code_of_signal(parts["signal"])
        pid, local = parts.get("pid"), parts.get("local")
        return _exit(
            line,
            ctx,
            rule.reporter,
            code,
            by_launcher=rule.by_launcher,
            pid=int(pid) if pid else None,
            local_rank=int(local) if local else None,
        )
    return None


def _exit(
    line: Line,
    ctx: Context,
    reporter: str,
    code: int | None,
    *,
    by_launcher: bool = False,
    pid: int | None = None,
    local_rank: int | None = None,
) -> ProcessExit:
    named = pid is not None or local_rank is not None
    place = Place(
        rank=None if named else line.place.rank,
        local_rank=local_rank if named else line.place.local_rank,
        host=line.place.host,
        pid=pid,
        attempt=line.place.attempt,
        time=line.place.time,
    )
    return ProcessExit(
        place=place,
        code=code,
        by_launcher=by_launcher,
        reporter=reporter,
        span=ctx.span(line),
        text=line.text.strip()[:MAX_TEXT_CHARS],
        source_id=ctx.source_id,
    )


def _read_srun(line: Line, ctx: Context) -> ProcessExit | None:
    found = _SRUN.search(line.text)
    if found is None:
        return None
    code = code_of_shell(int(found["code"])) if found["code"] else code_of_signal(found["signal"].strip())
    if code is None:
        return None
    return ProcessExit(
        place=Place(host=found["host"], attempt=line.place.attempt, time=line.place.time),
        code=code,
        by_launcher=False,
        reporter="srun",
        span=ctx.span(line),
        text=line.text.strip()[:MAX_TEXT_CHARS],
        source_id=ctx.source_id,
        tasks=_task_numbers(found["tasks"]),
    )


def _read_mpirun(line: Line, ctx: Context) -> ProcessExit | None:
    found = _MPIRUN.search(line.text)
    if found is None:
        return None
    # A process that was gone before it could be asked has the id 0.
    pid = int(found["pid"]) or None
    place = Place(rank=int(found["rank"]), host=found["host"], pid=pid, attempt=line.place.attempt, time=line.place.time)
    return _exit_at(place, line, ctx, "mpirun", -int(found["signal"]))


def _read_pdsh(line: Line, ctx: Context) -> ProcessExit | None:
    found = _PDSH.search(line.text)
    if found is None:
        return None
    place = Place(host=found["host"], attempt=line.place.attempt, time=line.place.time)
    return _exit_at(place, line, ctx, "pdsh", code_of_shell(int(found["code"])))


def _exit_at(place: Place, line: Line, ctx: Context, reporter: str, code: int) -> ProcessExit:
    return ProcessExit(
        place=place,
        code=code,
        by_launcher=False,
        reporter=reporter,
        span=ctx.span(line),
        text=line.text.strip()[:MAX_TEXT_CHARS],
        source_id=ctx.source_id,
    )


def _task_numbers(text: str) -> tuple[int, ...]:
    """`0-3,7` as numbers; a list that is too long gives none."""
    numbers: list[int] = []
    for part in text.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(part) > MAX_LIST_ITEM_CHARS:
            continue
        start, stop = int(first), int(last or first)
        if stop - start + len(numbers) >= MAX_TASKS:
            return ()
        numbers.extend(range(start, stop + 1))
    return tuple(numbers)
