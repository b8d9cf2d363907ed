"""The engine behind the console: a few worker processes with limits of time and memory, replaced when they fail."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from queue import Empty, Queue
from threading import Lock
from time import monotonic
from typing import NamedTuple

import msgspec

from firstfault.ingest.capsule import Capsule
from firstfault.knowledge.schema import Pack
from firstfault.model.diagnosis import Diagnosis
from firstfault.server.settings import Settings
from firstfault.server.worker import MAX_FRAME_BYTES, Intake, Outcome, Task, frame

WAIT_S = 20.0
"""So long a submission waits for a worker before it is told to come again."""
_READ_BYTES = 1 << 16


class BusyError(Exception):
    """No worker became free in time."""


class LimitError(Exception):
    """The submission took more time or memory than one may."""


class RefusedError(Exception):
    """The submission cannot be read; `where` and `hint` say what to mend."""

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.hint = what, where, hint


class OwnFaultError(Exception):
    """The engine failed on the submission: a fault of firstfault."""


class Answered(NamedTuple):
    """A diagnosis, and the capsule's bytes and the facts that it was made from, masked once more."""

    diagnosis: Diagnosis
    capsule: bytes
    facts: dict[str, str]


class Work:
    """A pool of workers. Safe for threads: each caller has a worker for himself while he waits."""

    def __init__(self, workers: int, seconds: float) -> None:
        self._seconds = seconds
        self._free: Queue[_Worker] = Queue()
        self._all: list[_Worker] = []
        self._lock = Lock()
        self._closed = False
        for _ in range(max(workers, 1)):
            self._add()

    def diagnose(self, capsule: Capsule | bytes, facts: Mapping[str, str]) -> Diagnosis:
        """The answer for a capsule of our own. BusyError, LimitError, RefusedError, OwnFaultError where there is none."""
        sent = capsule if isinstance(capsule, bytes) else msgspec.json.encode(capsule)
        return msgspec.json.decode(self._outcome(Task(sent, dict(facts))).made, type=Diagnosis)

    def answer(self, sent: bytes, facts: Mapping[str, str]) -> Answered:
        """The answer for a capsule that somebody sent, whose word that it is redacted is not taken; raises as `diagnose`."""
        found = self._outcome(Task(sent, dict(facts), again=True))
        return Answered(msgspec.json.decode(found.made, type=Diagnosis), found.capsule, found.facts)

    def gather(self, files: Sequence[tuple[str, bytes]], taken: Sequence[tuple[str, str]] = ()) -> bytes:
        """The redacted capsule of files by name, packed ones too; raises as `diagnose` does.

        `taken` are pseudonyms by kind that an earlier capsule of the same investigation uses.
        """
        return self._outcome(Intake(tuple(files), tuple(taken))).made

    def _outcome(self, task: Task | Intake) -> Outcome:
        try:
            worker = self._free.get(timeout=WAIT_S)
        except Empty:
            raise BusyError("all workers are busy") from None
        try:
            outcome = worker.ask(task, self._seconds)
        except (LimitError, OSError) as error:
            self._replace(worker)
            raise LimitError(f"took more than {self._seconds:.0f} s, or more memory than one may") from error
        except BaseException:
            self._replace(worker)
            raise
        self._free.put(worker)
        if outcome.error == "input":
            raise RefusedError(outcome.what, outcome.where, outcome.hint)
        if outcome.error:
            raise OwnFaultError(outcome.what)
        return outcome

    def close(self) -> None:
        """Stop all workers; who still waits for one is told that it is busy."""
        with self._lock:
            self._closed = True
            for worker in self._all:
                worker.kill()
            self._all.clear()

    def _add(self) -> None:
        with self._lock:
            if not self._closed:
                worker = _Worker()
                self._all.append(worker)
                self._free.put(worker)

    def _replace(self, worker: _Worker) -> None:
        worker.kill()
        with self._lock:
            if worker in self._all:
                self._all.remove(worker)
        self._add()


class _Worker:
    """One process, started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, task: Task | Intake, seconds: float) -> Outcome:
        """Send a task and wait. LimitError if it was too much or the process died; OSError if it cannot be reached."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        deadline = monotonic() + seconds
        _send(process.stdin.fileno(), frame(msgspec.msgpack.encode(task)), deadline)
        size = int.from_bytes(_receive(process.stdout.fileno(), 4, deadline), "big")
        if size > MAX_FRAME_BYTES:
            raise LimitError("the answer is too large")
        outcome = msgspec.msgpack.decode(_receive(process.stdout.fileno(), size, deadline), type=Outcome)
        if outcome.error == "limit":
            raise LimitError(outcome.what)
        return outcome

    def kill(self) -> None:
        """End the process whatever it does."""
        if self._process is not None:
            self._process.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process.wait()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.kill()
            words = [sys.executable, "-m", "firstfault.server.worker"]
            # A signal for the console (Ctrl-C in a terminal) is not for its workers: it ends them itself.
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
        return self._process


def _send(pipe: int, data: bytes, deadline: float) -> None:
    rest = memoryview(data)
    while rest:
        _await(pipe, select.POLLOUT, deadline)
        rest = rest[os.write(pipe, rest[:_READ_BYTES]) :]


def _receive(pipe: int, size: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while size:
        _await(pipe, select.POLLIN, deadline)
        part = os.read(pipe, min(size, _READ_BYTES))
        if not part:
            raise LimitError("the worker died")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _await(pipe: int, what: int, deadline: float) -> None:
    # A busy console has more open files than `select.select` can name.
    poll = select.poll()
    poll.register(pipe, what)
    if not poll.poll(max(deadline - monotonic(), 0) * 1000):
        raise LimitError("no answer in time")


def open_work(settings: Settings, pack: Pack) -> Work:
    """The workers of a console. `pack` is what they load too: a pack that cannot be loaded shows here, before any is asked."""
    assert pack.entries
    return Work(settings.workers, settings.diagnosis_seconds)
