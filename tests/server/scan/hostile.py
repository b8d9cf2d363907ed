"""Logs that are hard to read: large, of one line, drawn over, damaged, packed, in other encodings."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

ERROR = (
    b"Traceback (most recent call last):\n"
    b'  File "/home/alice/train.py", line 88, in <module>\n    trainer.train()\n'
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.64 GiB. GPU 2 has a total capacity of 23.69 GiB\n"
)


def quiet_lines(count: int, seed: int) -> bytes:
    """Lines that mean nothing."""
    chooser = random.Random(seed)
    return b"".join(
        b"[rank%d]: step %d loss %.4f on gn-%02d (10.0.0.%d) tokens/s %d\n"
        % (
            chooser.randrange(8),
            number,
            chooser.random(),
            *(chooser.randrange(1, 90) for _ in range(2)),
            chooser.randrange(9999),
        )
        for number in range(count)
    )


def write_hostile(folder: Path) -> list[Path]:
    """A folder for each kind."""
    large = b"".join(quiet_lines(9_000, seed) + ERROR for seed in range(5))
    bars = b"".join(b"\x1b[32m %d%%|##\x1b[0m %d/20000\r" % (n // 200, n) for n in range(20_000))
    repeated = b"RuntimeError: CUDA error: out of memory \xff caf\xc3\xa9 \0\n" * 9_000
    wrapped = b"".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2025-01-01T00:00:00Z"}).encode() + b"\n"
        for line in (quiet_lines(50, 3) + ERROR).decode().splitlines()
    )
    contents = {
        "large": {"run.log": large},
        "one-line": {"run.log": large.replace(b"\n", b" ")},
        "drawn": {"run.log": quiet_lines(5_000, 1) + bars + b"\r\n" + ERROR + bars},
        "repeated": {"run.log": quiet_lines(3_000, 2) + repeated + ERROR},
        "packed": {"run.log.gz": gzip.compress(large)},
        "many": {
            f"node-1/rank_{n}.log": quiet_lines(400 * n, n) + (ERROR.decode().encode("utf-16") if n % 5 == 4 else ERROR)
            for n in range(24)
        },
        "encodings": {"a.log": (quiet_lines(40, 4) + ERROR).decode().encode("utf-16"), "b.json": wrapped},
    }
    folders = []
    for kind, files in contents.items():
        for name, data in files.items():
            path = folder / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        folders.append(folder / kind)
    return folders
