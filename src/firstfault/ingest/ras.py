"""Answers of NCCL's RAS service (`ncclras`, NCCL 2.24 and later), as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.ras import RasComm, RasLevel, RasQuery, RasRank
from firstfault.model.span import SourceSpan

MAX_QUERIES = 64
MAX_RANKS = 1 << 16
MAX_JSON_CHARS = 8 << 20

# Formats of src/ras/client_support.cc, NCCL 2.24 to 2.30.
_TABLE = lazy_pattern(r"^ *Group +Comms +Nodes +Ranks +Ranks +Ranks +Status +Errors", needs="Status")
_ROW = lazy_pattern(
    r"^ *(?P<group>\d{1,6}) +\d{1,6} +\d{1,6} +[\d-]{1,12} +(?P<size>\d{1,7}) +\d{1,7} +[A-Z]{4,8} +[A-Z,]{2,40}$"
)
_COMM = lazy_pattern(
    r"^ *#(?P<group>\d{1,6})-(?P<number>\d{1,6}) \((?P<hash>[0-9a-f]{1,16})\) (?P<what>MISMATCH|INCOMPLETE|ERROR)"
)
_OPERATION = lazy_pattern(r"^ *Communicator ranks have different (?P<op>\w{1,30}) operation counts")
_STATUS = lazy_pattern(r"^ *Communicator ranks have different status")
_LEVEL = lazy_pattern(
    r"^ *(?P<size>\d{1,7}) ranks have (?:launched up to operation (?P<count>\d{1,18})|not launched any operations)"
)
_PROCESS = r" -- (?:GPU [\d ()NVML]{1,30} managed by process (?P<pid>\d{1,9}) on node (?P<host>\S{1,255})|\[process)"
_OUTLIER = lazy_pattern(
    r"^ *Rank (?P<rank>\d{1,7}) has (?:launched up to operation (?P<count>\d{1,18})|not launched any operations)" + _PROCESS
)
_RANK = lazy_pattern(r"^ *Rank (?P<rank>\d{1,7})" + _PROCESS)
_DEAD = lazy_pattern(r"^ *\d{1,7} job process(?:es are| is) considered dead")
_DEAD_PROCESS = lazy_pattern(r"^ *Process (?P<pid>\d{1,9}) on node (?P<host>\S{1,255}) managing GPU")
_JSON_OPENS = lazy_pattern(r"^\s*\{\s*$")


def read_ras(lines: Sequence[Line], ctx: Context) -> tuple[RasQuery, ...]:
    """Every answer in the lines, in their order."""
    found = [*_texts(lines, ctx), *_jsons(lines, ctx)]
    found.sort(key=lambda query: query.span.offset)
    return tuple(found[:MAX_QUERIES])


def _texts(lines: Sequence[Line], ctx: Context) -> Iterator[RasQuery]:
    text: _Text | None = None
    for line in lines:
        if _TABLE.match(line.text):
            if text is not None:
                yield text.finish()
            text = _Text(line, ctx)
        elif text is not None:
            text.read(line)
    if text is not None:
        yield text.finish()


class _Comm:
    def __init__(self, name: str, size: int | None) -> None:
        self.name = name
        self.size = size
        self.levels: dict[str, list[tuple[int, int, list[RasRank], SourceSpan]]] = {}
        self.missing: list[RasRank] = []


class _Text:
    """One answer as text, while its lines arrive."""

    def __init__(self, line: Line, ctx: Context) -> None:
        self._ctx = ctx
        self._first = line
        self._sizes: dict[str, int] = {}
        self._comms: dict[str, _Comm] = {}
        self._dead: list[tuple[str, int]] = []
        self._comm: _Comm | None = None
        self._what = ""

    def read(self, line: Line) -> None:
        """Read one line below the table's head."""
        text = line.text.rstrip()
        if row := _ROW.match(text):
            self._sizes[row["group"]] = int(row["size"])
        elif head := _COMM.match(text):
            name = head["hash"]
            self._comm = self._comms.setdefault(name, _Comm(name, self._sizes.get(head["group"])))
            self._what = "missing" if head["what"] == "INCOMPLETE" else ""
        elif operation := _OPERATION.match(text):
            self._what = f"count {operation['op']}"
        elif _STATUS.match(text):
            self._what = ""
        elif _DEAD.match(text):
            self._what, self._comm = "dead", None
        elif self._what == "dead" and (dead := _DEAD_PROCESS.match(text)):
            self._dead.append((dead["host"], int(dead["pid"])))
        elif self._comm is not None:
            self._of_comm(self._comm, line, text)

    def _of_comm(self, comm: _Comm, line: Line, text: str) -> None:
        span = self._ctx.span(line)
        if self._what == "missing" and (rank := _RANK.match(text)):
            comm.missing.append(_rank(rank, span))
        if not self._what.startswith("count "):
            return
        levels = comm.levels.setdefault(self._what[6:], [])
        if level := _LEVEL.match(text):
            levels.append((int(level["count"] or 0), int(level["size"]), [], span))
        elif one := _OUTLIER.match(text):
            levels.append((int(one["count"] or 0), 1, [_rank(one, span)], span))
        elif levels and (rank := _RANK.match(text)) and len(levels[-1][2]) < MAX_RANKS:
            levels[-1][2].append(_rank(rank, span))

    def finish(self) -> RasQuery:
        """The answer."""
        comms = tuple(
            RasComm(
                comm=comm.name,
                size=comm.size,
                levels={
                    op: tuple(RasLevel(count=c, size=n, ranks=tuple(ranks), span=span) for c, n, ranks, span in levels)
                    for op, levels in comm.levels.items()
                    if levels
                },
                missing=tuple(comm.missing),
            )
            for comm in self._comms.values()
        )
        return RasQuery(
            comms=comms,
            dead=tuple(self._dead),
            time=self._first.place.time,
            source_id=self._ctx.source_id,
            span=self._ctx.span(self._first),
        )


def _rank(found: Any, span: SourceSpan) -> RasRank:
    return RasRank(int(found["rank"]), found["host"], int(found["pid"]) if found["pid"] else None, span)


def _jsons(lines: Sequence[Line], ctx: Context) -> Iterator[RasQuery]:
    """`ncclras -f json`: an object over several lines, with `nccl_version` and `communicators`."""
    decoder = json.JSONDecoder()
    for number, line in enumerate(lines):
        opens = _JSON_OPENS.match(line.text) and any('"nccl_version"' in below.text for below in lines[number + 1 : number + 4])
        if not opens:
            continue
        text = "\n".join(below.text for below in lines[number:])[:MAX_JSON_CHARS]
        try:
            value, _ = decoder.raw_decode(text.lstrip())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("communicators"), list):
            yield _from_json(value, line, ctx)


def _from_json(value: dict[str, Any], line: Line, ctx: Context) -> RasQuery:
    span = ctx.span(line)
    comms: list[RasComm] = []
    dead: list[tuple[str, int]] = []
    for item in value["communicators"]:
        if not isinstance(item, dict):
            continue
        ranks = [rank for rank in _dicts(item.get("ranks")) if isinstance(rank.get("rank"), int)][:MAX_RANKS]
        missing = [rank for rank in _dicts(item.get("missing_ranks")) if isinstance(rank.get("rank"), int)][:MAX_RANKS]
        for rank in missing:
            status = rank.get("status")
            if isinstance(status, dict) and status.get("considered_dead") is True and isinstance(rank.get("pid"), int):
                dead.append((str(rank.get("host")), rank["pid"]))
        comms.append(
            RasComm(
                comm=str(item.get("hash")).removeprefix("0x"),
                size=item["size"] if isinstance(item.get("size"), int) else None,
                levels=_json_levels(ranks, span),
                missing=tuple(_json_rank(rank, span) for rank in missing),
            )
        )
    return RasQuery(
        comms=tuple(comms), dead=tuple(dict.fromkeys(dead)), time=line.place.time, source_id=ctx.source_id, span=span
    )


def _json_levels(ranks: Sequence[dict[str, Any]], span: SourceSpan) -> dict[str, tuple[RasLevel, ...]]:
    counts: dict[str, dict[int, list[RasRank]]] = {}
    for rank in ranks:
        of_rank = rank.get("collective_counts")
        for op, count in of_rank.items() if isinstance(of_rank, dict) else ():
            if isinstance(count, int):
                counts.setdefault(str(op)[:30], {}).setdefault(count, []).append(_json_rank(rank, span))
    return {
        op: tuple(RasLevel(count=count, size=len(who), ranks=tuple(who), span=span) for count, who in sorted(levels.items()))
        for op, levels in counts.items()
        if len(levels) > 1
    }


def _json_rank(rank: dict[str, Any], span: SourceSpan) -> RasRank:
    host, pid = rank.get("host"), rank.get("pid")
    return RasRank(rank["rank"], host if isinstance(host, str) else None, pid if isinstance(pid, int) else None, span)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
