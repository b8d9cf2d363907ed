"""From a decoded request to what is stored of it: evidence and last lines, redacted with pseudonyms that last like the run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

from firstfault.ingest.redact import Redactor
from firstfault.knowledge.redaction import RedactionRule, redaction_rules
from firstfault.knowledge.schema import Pack
from firstfault.scan.scanner import Scanner
from firstfault.server.otlp.decode import Group
from firstfault.server.otlp.follow import SeenLine, Stream
from firstfault.server.otlp.identity import Identity, identity_of
from firstfault.server.otlp.names import DigestNames
from firstfault.server.records import LogWrite, Owner, Run, StreamLine, StreamState

MAX_RUNS = 500
"""So many runs are remembered; one that was not heard of for long is read from the store again."""
MAX_STREAMS = 20_000
"""A run has at most so many streams: further ones are refused."""
MAX_LINE_CHARS = 4_096


class TooManyStreamsError(ValueError):
    """A run named more streams than one may have."""


Request = tuple[Owner, Sequence[Group]]
_Pairs = tuple[tuple[str, str], ...]
FindRun = Callable[[Owner, str], tuple[Run, Sequence[StreamState], dict[bytes, str]]]
"""Gives a run of an owner by name, made if it is new, with its streams and its pseudonyms by digest."""


class Receiver:
    """Holds the runs that are heard of. Not safe for threads: the journal's alone uses it."""

    def __init__(self, pack: Pack, find_run: FindRun) -> None:
        self._scanner = Scanner(pack.signals)
        self._find_run = find_run
        self._rules = redaction_rules(pack)
        self._runs: OrderedDict[tuple[Owner, str], _RunState] = OrderedDict()
        self._identities: dict[tuple[_Pairs, _Pairs], Identity] = {}

    def take(self, requests: Sequence[Request]) -> tuple[list[LogWrite], list[Run]]:
        """What to store of requests, one write for each run in them, and the runs in which something may have failed.

        TooManyStreamsError before anything is taken.
        """
        by_run: dict[tuple[Owner, str], list[tuple[Identity, Group]]] = {}
        for owner, groups in requests:
            for group in groups:
                found = self._identity(group)
                by_run.setdefault((owner, found.run), []).append((found, group))
        states = {key: self._state(*key) for key in by_run}
        for key, parts in by_run.items():
            states[key].check([found for found, _ in parts])
        writes, failing = [], []
        for key, parts in by_run.items():
            write, starts = states[key].take(parts, self._scanner)
            writes.append(write)
            if starts:
                failing.append(states[key].run)
        return writes, failing

    def forget(self, run_ids: Collection[str]) -> None:
        """Read runs from the store again when they are next heard of: what was taken of them could not be stored."""
        for key in [key for key, state in self._runs.items() if state.run.id in run_ids]:
            del self._runs[key]

    def _identity(self, group: Group) -> Identity:
        key = (tuple(group.resource.items()), tuple(group.labels.items()))
        found = self._identities.get(key)
        if found is None:
            if len(self._identities) >= MAX_STREAMS:
                self._identities.clear()
            found = self._identities[key] = identity_of(group.resource, group.labels)
        return found

    def _state(self, owner: Owner, name: str) -> _RunState:
        key = (owner, name)
        state = self._runs.get(key)
        if state is None:
            run, streams, names = self._find_run(owner, name)
            state = self._runs[key] = _RunState(run, streams, DigestNames(run.secret, names), self._rules)
            while len(self._runs) > MAX_RUNS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return state


class _RunState:
    """One run as far as it was heard of."""

    def __init__(self, run: Run, streams: Sequence[StreamState], names: DigestNames, rules: Sequence[RedactionRule]) -> None:
        self.run = run
        self._names = names
        self._redactor = Redactor(rules, names=names)
        self._streams = {one.name: Stream(lines=one.lines, size_bytes=one.size_bytes, kept=one.kept) for one in streams}
        self._shown: dict[str, str] = {}

    def check(self, found: Sequence[Identity]) -> None:
        """TooManyStreamsError if these would be more streams than a run may have."""
        shown = set(map(self._show, found))
        if len(self._streams.keys() | shown) > MAX_STREAMS:
            raise TooManyStreamsError(f"run {self.run.name} has {MAX_STREAMS:,} streams already")

    def take(self, parts: Sequence[tuple[Identity, Group]], scanner: Scanner) -> tuple[LogWrite, bool]:
        heard: dict[str, Identity] = {}
        lines, any_starts, count = [], False, 0
        for identity, group in parts:
            name = self._show(identity)
            heard[name] = identity
            kept, starts = self._streams.setdefault(name, Stream()).take(group.lines, group.times_ns, scanner)
            any_starts = any_starts or starts
            count += len(group.lines)
            lines += [
                StreamLine(
                    run_id=self.run.id,
                    stream=name,
                    number=one.number,
                    offset=one.offset,
                    at=_when(one),
                    text=self._mask(one.text),
                )
                for one in kept
            ]
        write = LogWrite(
            run_id=self.run.id,
            at=datetime.now(UTC),
            records=count,
            # A stream's last line is masked once for all the requests that wait together: that costs more than to scan one.
            streams=tuple(self._stands(name, identity) for name, identity in heard.items()),
            lines=tuple(lines),
            names=self._names.take_new(),
        )
        return write, any_starts

    def _stands(self, name: str, identity: Identity) -> StreamState:
        stream = self._streams[name]
        last = stream.last
        return StreamState(
            run_id=self.run.id,
            name=name,
            host=self._redactor.mask_host(identity.host) if identity.host else None,
            rank=identity.rank,
            lines=stream.lines,
            size_bytes=stream.size_bytes,
            kept=stream.kept,
            last_text=self._mask(last.text) if last else "",
            last_at=_when(last) if last else None,
        )

    def _mask(self, text: str) -> str:
        return self._redactor.mask(text)[:MAX_LINE_CHARS]

    def _show(self, found: Identity) -> str:
        """The stream's name, redacted."""
        shown = self._shown.get(found.stream)
        if shown is None:
            host, rest = found.host or "", found.stream.removeprefix(found.host or "")
            named = host and rest != found.stream
            shown = (self._redactor.mask_host(host) if named else "") + self._redactor.mask_name(
                rest if named else found.stream
            )
            self._shown[found.stream] = shown
        return shown


def _when(line: SeenLine) -> datetime | None:
    return datetime.fromtimestamp(line.time_ns / 1_000_000_000, UTC) if line.time_ns > 0 else None
