"""Flight-recorder dumps by construction: a small model of a run, and the bytes that torch's own writer would make of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

TP = 4
START_NS = 1_758_580_000_000_000_000
_OPS = {
    "tp": [("_all_gather_base", [[2048, 512]]), ("_reduce_scatter_base", [[8192, 512]]), ("all_reduce", [[8192, 1]])],
    "dp": [("all_reduce", [[1 << 20]])],
}


def torch_pickle(value: Any) -> bytes:
    """Protocol 2 as torch writes it: strings enter the memo, tuples and numbers do not."""
    out: list[bytes] = [b"\x80\x02"]
    memo: dict[str, int] = {}
    _put(value, out, memo)
    return b"".join([*out, b"."])


def _put(value: Any, out: list[bytes], memo: dict[str, int]) -> None:
    if value is None or isinstance(value, bool):
        out.append({None: b"N", True: b"\x88", False: b"\x89"}[value])
    elif isinstance(value, str):
        out.append(_string(value, memo))
    elif isinstance(value, int):
        out.append(_number(value))
    elif isinstance(value, tuple):
        for item in value:
            _put(item, out, memo)
        out.append({1: b"\x85", 2: b"\x86", 3: b"\x87"}[len(value)])
    elif isinstance(value, dict):
        out.append(b"}(" if value else b"}")
        for key, item in value.items():
            _put(key, out, memo)
            _put(item, out, memo)
        out.append(b"u" if value else b"")
    else:
        out.append(b"](" if value else b"]")
        for item in value:
            _put(item, out, memo)
        out.append(b"e" if value else b"")


def _string(value: str, memo: dict[str, int]) -> bytes:
    if value in memo:
        index = memo[value]
        return b"h%c" % index if index < 256 else b"j" + struct.pack("<I", index)
    index = memo[value] = len(memo)
    data = value.encode()
    put = b"q%c" % index if index < 256 else b"r" + struct.pack("<I", index)
    return b"X" + struct.pack("<I", len(data)) + data + put


def _number(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"K%c" % value
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


class Run:
    """A run of `world` ranks in groups of four (`tp`) and across them (`dp`), all making the same `calls` in order.

    A rank of `stop` makes no call from that position on; on a rank of `stall` nothing completes from there on, while the others
    come `lag` calls further. `ahead` is how many calls a rank may have open. `other` gives a rank another operation at a
    position.
    """

    def __init__(
        self,
        world: int = 8,
        calls: int = 40,
        *,
        stop: Mapping[int, int] | None = None,
        stall: Mapping[int, int] | None = None,
        lag: int = 3,
        ahead: int = 6,
        other: Mapping[tuple[int, int], tuple[str, list[list[int]]]] | None = None,
    ) -> None:
        self.world = world
        self.program = ["dp" if position % 8 == 7 else "tp" for position in range(calls)]
        self.stop, self.stall, self.lag, self.ahead = stop or {}, stall or {}, lag, ahead
        self.other = other or {}
        self.entered = [0] * world
        self.done = [0] * world
        while self._step():
            pass

    def members(self, rank: int, kind: str) -> list[int]:
        """The global ranks of the group of that kind that `rank` belongs to."""
        if kind == "all":
            return list(range(self.world))
        if kind == "tp":
            return list(range(rank // TP * TP, min(self.world, rank // TP * TP + TP)))
        return list(range(rank % TP, self.world, TP))

    def _step(self) -> bool:
        before = (list(self.entered), list(self.done))
        for rank in range(self.world):
            while self.done[rank] < self.entered[rank] and self._completes(rank, self.done[rank]):
                self.done[rank] += 1
            self.entered[rank] = min(len(self.program), self.stop.get(rank, len(self.program)), self.done[rank] + self.ahead)
        return before != (self.entered, self.done)

    def _completes(self, rank: int, position: int) -> bool:
        if position >= self.stall.get(rank, len(self.program)):
            return False
        for member in self.members(rank, self.program[position]):
            # The GPU takes its calls one after another: it must have come to this one.
            at = self.stall[member] + self.lag if member in self.stall else self.done[member]
            if self.entered[member] <= position or at < position:
                return False
            if (member, position) in self.other or (rank, position) in self.other:
                return False
        return True

    def dump(
        self, rank: int, *, ring: int = 2000, only_active: bool = False, version: str = "2.9", frames: bool = False
    ) -> dict[str, Any]:
        """What `rank` writes when the others have waited too long."""
        kinds = ("all", "tp", "dp")
        names = {"all": "0", "tp": str(1 + rank // TP), "dp": str(100 + rank % TP)}
        titles = {"all": "default_pg", "tp": "TENSOR_MODEL_PARALLEL_GROUP", "dp": "DATA_PARALLEL_GROUP"}
        counted = dict.fromkeys(kinds, 0)
        finished = dict.fromkeys(kinds, 0)
        entries = []
        for position in range(self.entered[rank]):
            kind = self.program[position]
            counted[kind] += 1
            done = position < self.done[rank]
            finished[kind] += done
            op, sizes = self.other.get((rank, position)) or _OPS[kind][position % len(_OPS[kind])]
            if position >= self.entered[rank] - ring and not (only_active and done):
                group = (names[kind], titles[kind])
                entry = _entry(position, kinds.index(kind), group, counted[kind], op, sizes, done=done)
                entries.append(entry | ({"frames": _frames(position)} if frames else {}))
        return {
            "version": version,
            "pg_config": {
                names[kind]: {"name": names[kind], "desc": titles[kind], "ranks": str(self.members(rank, kind))}
                for kind in kinds
            },
            "nccl_version": "2.27.3",
            "pg_status": {
                str(number): {
                    "last_enqueued_collective": counted[kind] or -1,
                    "last_started_collective": -1,
                    "last_completed_collective": finished[kind] or -1,
                }
                for number, kind in enumerate(kinds)
            },
            "entries": entries,
        }

    def dumps(self, **options: Any) -> dict[int, dict[str, Any]]:
        """The dumps of all ranks."""
        return {rank: self.dump(rank, **options) for rank in range(self.world)}


def _frames(position: int) -> list[dict[str, Any]]:
    """The stack of a call, the innermost frame first: the script makes each of eight calls at a line of its own."""
    library = "/home/user/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    return [
        {"name": "all_reduce", "filename": library, "line": 3252},
        {"name": "step", "filename": "/home/user/train.py", "line": 80 + position % 8},
        {"name": "<module>", "filename": "/home/user/train.py", "line": 120},
    ]


def _entry(
    position: int, number: int, group: tuple[str, str], seq: int, op: str, sizes: list[list[int]], *, done: bool
) -> dict[str, Any]:
    created = START_NS + position * 1_000_000
    return {
        "record_id": position,
        "pg_id": number,
        "process_group": group,
        "thread_name": "python3",
        "thread_id": "23456244340032",
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": created,
        "input_sizes": [list(row) for row in sizes],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [list(row) for row in sizes],
        "output_dtypes": ["BFloat16"],
        "state": "completed" if done else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": created + 700_000 if done else None,
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }


def as_json(dump: Mapping[str, Any]) -> bytes:
    """The JSON form: all counters are strings there, and a time that was not seen is 0."""
    status = {number: {name: str(value) for name, value in counters.items()} for number, counters in dump["pg_status"].items()}
    entries = [
        {
            key: 0 if value is None else list(value) if isinstance(value, tuple) else value
            for key, value in sorted(entry.items())
        }
        for entry in dump["entries"]
    ]
    return json.dumps({"entries": entries, **{k: v for k, v in dump.items() if k != "entries"}, "pg_status": status}).encode()


def write(
    folder: Path,
    dumps: Mapping[int, Mapping[str, Any]],
    *,
    name: str = "nccl_trace_rank_{rank}",
    encode: Callable[[Any], bytes] = torch_pickle,
    ranks: Sequence[int] | None = None,
) -> Path:
    """Write the dumps (of `ranks` only) into `folder`, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, dump in dumps.items():
        if ranks is None or rank in ranks:
            (folder / name.format(rank=rank)).write_bytes(encode(dump))
    return folder
