"""Reads a memory snapshot of a chosen size, written for the purpose, and says CPU time and peak memory.

    python bench/snapshot.py                 100 MB and 1 GB, with 45 frames a stack
    python bench/snapshot.py --mb 100 --depth 12 --keep FILE

The writer emits the operations that CPython's pickler would emit for torch's snapshot (protocol 4: every container enters the
memo, frames and keys are shared through it), but streams them: no machine could hold the objects of 1 GB.
"""

from __future__ import annotations

import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

MB = 1_000_000
MAX_RSS_MB = 600
MAX_CPU_S = {100: 60.0, 1000: 600.0}


class Writer:
    """Protocol 4, in frames of at least 64 KiB, batches of 1,000 and with the memo of CPython's pickler."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._part = bytearray()
        self._memo = 0
        self._known: dict[str, int] = {}
        file.write(b"\x80\x04")
        self.size = 2

    def put(self, data: bytes) -> None:
        """Operations, as they are."""
        self._part += data
        if len(self._part) >= 1 << 16:
            self.flush()

    def flush(self) -> None:
        """The frame so far goes into the file."""
        self._file.write(b"\x95" + struct.pack("<Q", len(self._part)) + self._part)
        self.size += 9 + len(self._part)
        self._part.clear()

    def memoize(self) -> int:
        """The object just made enters the memo; its number there."""
        self.put(b"\x94")
        self._memo += 1
        return self._memo - 1

    def get(self, index: int) -> bytes:
        """The operation that brings back an object of the memo."""
        return bytes((0x68, index)) if index < 256 else b"j" + struct.pack("<I", index)

    def text(self, value: str) -> None:
        """A text: at its first use in full, later from the memo."""
        known = self._known.get(value)
        if known is not None:
            self.put(self.get(known))
            return
        raw = value.encode()
        self.put((b"\x8c" + bytes((len(raw),)) if len(raw) < 256 else b"X" + struct.pack("<I", len(raw))) + raw)
        self._known[value] = self.memoize()

    def number(self, value: int) -> None:
        """An integer in the shortest form."""
        if value < 0 or value >= 1 << 31:
            raw = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
            self.put(b"\x8a" + bytes((len(raw),)) + raw)
        elif value < 256:
            self.put(bytes((0x4B, value)))
        elif value < 1 << 16:
            self.put(b"M" + struct.pack("<H", value))
        else:
            self.put(b"J" + struct.pack("<i", value))


class Stream:
    """A training that goes on until the file is large enough: the same steps, some 60 live tensors, and one leak."""

    def __init__(self, writer: Writer, depth: int, seed: int) -> None:
        self._writer = writer
        self._depth = depth
        self._random = random.Random(seed)
        self._frames: list[int] = []
        self._stacks = [self._names(number) for number in range(400)]
        self._time_us = 1_790_000_000_000_000
        self._in_batch = 0

    def _names(self, number: int) -> list[tuple[str, int, str]]:
        rows = [("??", 0, f"torch::autograd::frame_{number % 7}_{level}") for level in range(self._depth // 2)]
        rows += [
            (f"/opt/venv/lib/python3.11/site-packages/torch/nn/modules/m{number % 40}.py", 10 + level, "forward")
            for level in range(self._depth - len(rows) - 2)
        ]
        return [*rows, ("/home/user/project/model.py", 100 + number, "block"), ("/home/user/project/train.py", 61, "step")]

    def write(self, size: int) -> int:
        """The whole snapshot of about `size` bytes; how many entries it has."""
        writer = self._writer
        writer.put(b"}")
        writer.memoize()
        writer.put(b"(")
        writer.text("segments")
        writer.put(b"]")
        writer.memoize()
        writer.text("device_traces")
        writer.put(b"]")
        writer.memoize()
        writer.put(b"]")
        writer.memoize()
        writer.put(b"(")
        known: dict[tuple[str, int, str], int] = {}
        count = 0
        live: list[tuple[int, int, int]] = []
        while writer.size < size:
            number = count // 2 % len(self._stacks) if count % 2 == 0 else 0
            if count % 2 == 0 or not live:
                address = 0x7F00_0000_0000 + (count << 9)
                live.append((address, self._random.randrange(1 << 12, 1 << 26), number))
                self._entry("alloc", live[-1][0], live[-1][1], self._stacks[number], known)
            else:
                index = self._random.randrange(len(live)) if len(live) > 60 else None
                address, length, number = live.pop(index) if index is not None else live[-1]
                action = "free_requested" if index is not None else "snapshot"
                self._entry(action, address, length, self._stacks[number], known)
            count += 1
        writer.put(b"eau.")
        writer.flush()
        return count

    def _entry(
        self, action: str, address: int, size: int, stack: list[tuple[str, int, str]], known: dict[tuple[str, int, str], int]
    ) -> None:
        writer = self._writer
        if self._in_batch == 1_000:
            writer.put(b"e(")
            self._in_batch = 0
        self._in_batch += 1
        self._time_us += 7
        writer.put(b"}")
        writer.memoize()
        writer.put(b"(")
        numbers = (("addr", address), ("size", size), ("stream", 0), ("time_us", self._time_us))
        writer.text("action")
        writer.text(action)
        for key, value in numbers:
            writer.text(key)
            writer.number(value)
        writer.text("pool_id")
        writer.put(b"K\x00K\x00\x86")
        writer.memoize()
        writer.text("frames")
        writer.put(b"]")
        writer.memoize()
        writer.put(b"(")
        for row in stack:
            if row in known:
                writer.put(writer.get(known[row]))
                continue
            writer.put(b"}")
            known[row] = writer.memoize()
            writer.put(b"(")
            writer.text("name")
            writer.text(row[2])
            writer.text("filename")
            writer.text(row[0])
            writer.text("line")
            writer.number(row[1])
            writer.put(b"u")
        writer.put(b"eu")


def measure(path: Path) -> tuple[float, int]:
    """CPU seconds and peak resident MB of `firstfault memory` on the file, in a process of its own."""
    command = [sys.executable, "-m", "firstfault", "memory", str(path), "--format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def main() -> None:
    """Writes, reads, prints; exit code 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, action="append", help="size of the file; default 100 and 1000")
    parser.add_argument("--depth", type=int, default=45, help="frames of a stack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="write the file here and keep it; nothing is read")
    options = parser.parse_args()
    broken = False
    for mb in options.mb or [100, 1000]:
        with tempfile.TemporaryDirectory() as folder:
            path = options.keep or Path(folder) / "snapshot.pickle"
            begin = time.perf_counter()
            with path.open("wb") as file:
                count = Stream(Writer(file), options.depth, options.seed).write(mb * MB)
            print(f"{mb} MB, {count:,} entries, {options.depth} frames a stack, written in {time.perf_counter() - begin:.0f} s")
            if options.keep:
                return
            cpu_s, rss_mb = measure(path)
            print(f"  read in {cpu_s:.1f} s of CPU, {1e6 * cpu_s / count:.1f} us an entry, peak {rss_mb} MB")
            broken = broken or rss_mb > MAX_RSS_MB or cpu_s > MAX_CPU_S.get(mb, 0.6 * mb)
    sys.exit(broken)


if __name__ == "__main__":
    main()
