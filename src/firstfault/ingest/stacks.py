"""Stacks of live processes: py-spy, faulthandler, pystack, and the call of a stuck collective that torch's watchdog prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from firstfault.ingest.context import Context
from firstfault.ingest.linekind import fence_of
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Frame, Place
from firstfault.model.span import SourceSpan
from firstfault.model.stack import ProcessStack, StackTool, ThreadStack

MAX_PROCESSES = 8_192
MAX_THREADS = 256
MAX_FRAMES = 128

# py-spy 0.3 and 0.4: `Process 12: python train.py`, `Thread 12 (active+gil): "MainThread"`, `    f (path.py:3)`.
_PROCESS = lazy_pattern(r"^Process (?P<pid>\d{1,9}): (?P<command>\S.*)$")
_PARENT = lazy_pattern(r"^Parent Process (?P<pid>\d{1,9}): ")
_THREAD = lazy_pattern(r"^Thread (?:0x)?[0-9A-Fa-f]{1,18} \((?P<state>idle|active)(?P<gil>\+gil)?\)(?:: \"(?P<name>[^\"]*)\")?")
_FRAME = lazy_pattern(r"^ {4}(?P<function>\S.{0,300}?) \((?P<path>[^()]{1,500}?):(?P<line>\d{1,7})\)$")
_NATIVE = lazy_pattern(r"^ {4}\S.{0,300}? \([^()]{1,300}\)$|^ {8,}\S")
# CPython's faulthandler, and `py-bt` of gdb. Python 3.14 prints a thread's name in brackets.
_DUMPED = lazy_pattern(
    r"^(?P<current>Current thread|Thread) 0x[0-9a-fA-F]{1,18}(?: \[(?P<name>[^\]]{0,80})\])? \(most recent call first\):"
    r"|^(?P<gdb>Traceback) \(most recent call first\):",
    needs="(most recent call first):",
)
_DUMPED_FRAME = lazy_pattern(r"^  File \"(?P<path>[^\"]{1,500})\", line (?P<line>\d{1,7}|\?\?\?),? in (?P<function>.{1,200})$")
_FATAL = lazy_pattern(r"^Fatal Python error: ", needs="Fatal Python error: ")
# pystack >= 1.0
_PYSTACK = lazy_pattern(
    r"^Traceback for thread \d{1,9} \((?P<name>[^)]{0,80})\) \[(?P<marks>[^\]]{0,200})\] \(most recent call last\):",
    needs="Traceback for thread ",
)
_PYSTACK_FRAME = lazy_pattern(
    r"^ {4}\((?P<kind>Python|C)\) File \"(?P<path>[^\"]{0,500})\", line (?P<line>\d{1,7}|\?), in (?P<function>\S{1,200})"
)
_PYSTACK_CODE = lazy_pattern(r"^ {8,}\S|^ {4}\((?:Python|C)\) ")
# torch >= 2.5 with the flight recorder on.
_FAILED = lazy_pattern(r"Stack trace of the failed collective: *$", needs="Stack trace of the failed collective:")
_FAILED_FRAME = lazy_pattern(r"^#\d{1,4} (?P<function>\S.{0,200}?) from (?P<path>\S[^\"]{0,500}):(?P<line>\d{1,7})$")

# What names the rank of the stacks below it: `== rank 3 ==`, `==> stacks/rank3.txt <==`, `$ py-spy dump --pid 12  # rank 3`.
_TITLE = lazy_pattern(r"(?i)\brank[ _:=#.-]{0,3}(?P<rank>\d{1,6})(?!\d)")
_LOCAL = lazy_pattern(r"--local[-_]rank[= ](?P<rank>\d{1,4})(?!\d)")
MAX_TITLE_CHARS = 160

_Key = tuple[int | str | None, ...]


def read_stacks(lines: Sequence[Line], ctx: Context) -> tuple[ProcessStack, ...]:
    """Every process whose stacks stand in the lines, in their order; lines of several processes may be mixed."""
    readers: dict[_Key, _Reader] = {}
    failed: _Reader | None = None
    for line in lines:
        place = line.place
        key = (place.rank, place.local_rank, place.host)
        reader = readers.get(key)
        if reader is None:
            reader = readers[key] = _Reader(ctx)
        # Only the first line of the watchdog's message carries the rank.
        if failed is not None and failed is not reader and _FAILED_FRAME.match(line.text):
            reader = failed
        reader.feed(line)
        if reader.in_failed_call:
            failed = reader
        elif failed is not None and not failed.in_failed_call:
            failed = None
    found = [stack for reader in readers.values() for stack in reader.finish()]
    found.sort(key=lambda stack: stack.span.offset)
    return tuple(found[:MAX_PROCESSES])


def titled(stacks: Sequence[ProcessStack], above: str) -> tuple[ProcessStack, ...]:
    """The stacks of a part of a paste, the first of them with the rank that the line above its fence names."""
    said = [line for line in above[-2 * MAX_TITLE_CHARS :].splitlines() if line.strip() and not fence_of(line)]
    title = _TITLE.search(said[-1]) if said and len(said[-1]) < MAX_TITLE_CHARS else None
    place = stacks[0].place
    if title is None or place.rank is not None or place.local_rank is not None:
        return tuple(stacks)
    return (replace(stacks[0], place=replace(place, rank=int(title["rank"]))), *stacks[1:])


class _Thread:
    def __init__(self, line: Line, *, name: str = "", state: str = "", gil: bool = False, last_first: bool = True) -> None:
        self.line = line
        self.name = name
        self.state = state
        self.gil = gil
        self.last_first = last_first
        self.frames: list[Frame] = []

    def finish(self, span: SourceSpan) -> ThreadStack:
        """The thread with its outermost frame first."""
        frames = tuple(reversed(self.frames)) if self.last_first else tuple(self.frames)
        return ThreadStack(name=self.name, state=self.state, holds_gil=self.gil, frames=frames, span=span)


class _Process:
    def __init__(self, tool: StackTool, line: Line, place: Place, *, command: str = "", crashed: bool = False) -> None:
        self.tool = tool
        self.line = line
        self.place = place
        self.command = command
        self.crashed = crashed
        self.parent: int | None = None
        self.threads: list[_Thread] = []
        self.current: _Thread | None = None


class _Reader:
    """The lines of one printing process."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._done: list[_Process] = []
        self._open: _Process | None = None
        self._rank: int | None = None
        self._crashed = False
        self._last: Line | None = None

    @property
    def in_failed_call(self) -> bool:
        """True while the frames of a stuck collective may follow."""
        return self._open is not None and self._open.tool == "watchdog"

    def feed(self, line: Line) -> None:
        """Read one line."""
        text = line.text
        if not text.strip():
            if self.in_failed_call:
                self._close()
            return
        if text.startswith("#" if self.in_failed_call else " ") and self._frame(line):
            return
        if self._header(line):
            self._last = None
        else:
            if _is_other(text):
                self._close()
            self._last = line

    def finish(self) -> Iterator[ProcessStack]:
        """All processes that have a thread with frames."""
        self._close()
        for process in self._done:
            threads = [thread.finish(self._ctx.span(thread.line)) for thread in process.threads if thread.frames]
            if threads:
                yield ProcessStack(
                    tool=process.tool,
                    place=process.place,
                    main=_main(process, threads),
                    threads=tuple(threads),
                    command=process.command[:500],
                    parent_pid=process.parent,
                    crashed=process.crashed,
                    source_id=self._ctx.source_id,
                    span=self._ctx.span(process.line),
                )

    def _close(self) -> None:
        if self._open is not None and len(self._done) < MAX_PROCESSES:
            self._done.append(self._open)
        self._open = None

    def _start(self, tool: StackTool, line: Line, *, pid: int | None = None, command: str = "") -> _Process:
        self._close()
        place = replace(line.place, pid=pid) if pid is not None else line.place
        above = self._last
        title = _TITLE.search(above.raw) if above is not None and len(above.raw) < MAX_TITLE_CHARS else None
        own = _LOCAL.search(command) if command else None
        if title and place.rank is None:
            place = replace(place, rank=int(title["rank"]))
        elif own and place.rank is None and place.local_rank is None:
            place = replace(place, local_rank=int(own["rank"]))
        self._open = _Process(tool, line, place, command=command, crashed=self._crashed)
        self._crashed = False
        return self._open

    def _header(self, line: Line) -> bool:
        text = line.text
        if found := _PROCESS.match(text):
            self._start("py-spy", line, pid=int(found["pid"]), command=found["command"])
        elif self._open is not None and (found := _PARENT.match(text)):
            self._open.parent = int(found["pid"])
        elif found := _THREAD.match(text):
            process = self._open if self._open is not None and self._open.tool == "py-spy" else self._start("py-spy", line)
            self._thread(process, _Thread(line, name=found["name"] or "", state=found["state"], gil=bool(found["gil"])))
        elif found := _DUMPED.match(text):
            self._dumped(line, found["current"], found["name"] or "")
        elif found := _PYSTACK.match(text):
            process = self._open if self._open is not None and self._open.tool == "pystack" else self._start("pystack", line)
            gil = "Has the GIL" in found["marks"]
            self._thread(process, _Thread(line, name=found["name"], gil=gil, last_first=False))
        elif _FATAL.match(text):
            self._close()
            self._crashed = True
        elif _FAILED.search(text):
            process = self._start("watchdog", line)
            self._thread(process, _Thread(line))
        else:
            return False
        return True

    def _dumped(self, line: Line, current: str | None, name: str) -> None:
        """A thread of faulthandler: a process shows exactly one `Current thread`, unless no thread of Python is current."""
        process = self._open
        new = process is None or process.tool != "faulthandler"
        if process is not None and not new and current != "Thread":
            # The next process begins with its other threads or at once with its current one.
            new = process.current is not None
        elif process is not None and not new and process.current is not None:
            new = process.threads[-1] is process.current and _is_script(process.current)
        if new or process is None:
            process = self._start("faulthandler", line)
        thread = _Thread(line, name=name)
        if current != "Thread":
            process.current = thread
        self._thread(process, thread)

    def _thread(self, process: _Process, thread: _Thread) -> None:
        if len(process.threads) < MAX_THREADS:
            process.threads.append(thread)

    def _frame(self, line: Line) -> bool:
        process = self._open
        if process is None or not process.threads:
            return False
        thread, tool = process.threads[-1], process.tool
        pattern = {"py-spy": _FRAME, "faulthandler": _DUMPED_FRAME, "pystack": _PYSTACK_FRAME, "watchdog": _FAILED_FRAME}[tool]
        found = pattern.match(line.text.rstrip())
        if not found:
            # Native frames, arguments (`--locals`) and source text belong to the stack and say no more.
            return tool != "watchdog" and (bool(_NATIVE.match(line.text)) or bool(_PYSTACK_CODE.match(line.text)))
        if tool == "pystack" and found["kind"] == "C":
            return True
        if len(thread.frames) < MAX_FRAMES:
            number = int(found["line"]) if found["line"].isdigit() else 0
            thread.frames.append(Frame(found["path"], number, found["function"].strip(), "", self._ctx.span(line)))
        return True


def _is_script(thread: _Thread) -> bool:
    outer = thread.frames[-1] if thread.frames and thread.last_first else thread.frames[0] if thread.frames else None
    return outer is not None and outer.function == "<module>"


def _is_other(text: str) -> bool:
    """True for a line that no tool prints between the threads of one process."""
    return not text.startswith((" ", "Python v", "Extension modules:", "Dumping threads"))


def _main(process: _Process, threads: Sequence[ThreadStack]) -> ThreadStack | None:
    """The main thread: called so, else the one that began in the script's module; the watchdog prints one stack."""
    for thread in threads:
        if thread.name == "MainThread":
            return thread
    if process.tool == "watchdog":
        return threads[0]
    in_script = [thread for thread in threads if thread.frames[0].function == "<module>" or _runs_module(thread)]
    return in_script[0] if in_script else None


def _runs_module(thread: ThreadStack) -> bool:
    path = thread.frames[0].path
    return path == "<frozen runpy>" or path.endswith(("/runpy.py", "multiprocessing/spawn.py"))
