"""CPU and memory of the analysis of hangs, beside torchfrtrace on the same dumps.

    python bench/hang.py --torch /path/to/python/with/torch     64 small dumps, 64 full rings, 1,024 ranks with logs of 1 MB
    python bench/hang.py --quick                                without torch and with 64 ranks and small logs

The dumps are made by construction (`tests/flight_dumps.py`): the entries of a real dump of version 2.9, in the bytes that
torch's own writer makes. CPU time (user and system) of whole processes decides, the smaller of several rounds in turn. The bare
reading is a process that only unpickles every file with an unpickler that refuses all names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import flight_dumps

SMALL_TARGET = 0.35
FULL_TARGET = 1.8
RSS_TARGET_MB = 400
_BARE = """
import io, pickle, sys
from pathlib import Path
class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(name)
for path in sorted(Path(sys.argv[1]).iterdir()):
    Plain(io.BytesIO(path.read_bytes())).load()
"""
_LOG_LINE = (
    "[rank{rank}]: 2025-11-04 02:{minute:02d}:{second:02d},771 - train - INFO - step {step} loss 2.114 lr 0.0003 tokens 16384\n"
)


def _cost(command: Sequence[str], expected: Sequence[int]) -> tuple[float, float]:
    """CPU seconds and peak memory (MB) of one process."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in expected:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _rounds(commands: dict[str, tuple[Sequence[str], Sequence[int]]], rounds: int) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, (command, expected) in commands.items():
            cpu_s, _ = _cost(command, expected)
            best[name] = min(best.get(name, cpu_s), cpu_s)
    return best


def _compare(folder: Path, torch: str | None, rounds: int) -> dict[str, float]:
    commands: dict[str, tuple[Sequence[str], Sequence[int]]] = {
        "firstfault": ((sys.executable, "-m", "firstfault", str(folder)), (1, 3)),
        "bare": ((sys.executable, "-c", _BARE, str(folder)), (0,)),
    }
    if torch:
        command = (torch, "-m", "torch.distributed.flight_recorder.fr_trace", "--prefix", "nccl_trace_rank_", str(folder))
        commands["torchfrtrace"] = (command, (0, 1))
    return _rounds(commands, rounds)


def _show(what: str, found: dict[str, float]) -> None:
    print(f"{what}: " + ", ".join(f"{name} {cpu_s:.2f} s" for name, cpu_s in found.items()))
    if "torchfrtrace" in found:
        print(f"  of torchfrtrace {found['firstfault'] / found['torchfrtrace']:.2f}")
    print(f"  of bare unpickling {found['firstfault'] / found['bare']:.2f}")


def _logs(folder: Path, ranks: int, size_bytes: int) -> None:
    for rank in range(ranks):
        lines = []
        total = 0
        step = 0
        while total < size_bytes:
            line = _LOG_LINE.format(rank=rank, minute=step // 60 % 60, second=step % 60, step=step)
            lines.append(line)
            total += len(line)
            step += 1
        (folder / f"rank_{rank}.log").write_text("".join(lines), encoding="ascii")


def main() -> None:
    """Print the figures beside their targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", help="a python with torch 2.13, for torchfrtrace")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        run = flight_dumps.Run(64, 60, stop={41: 50})
        small = flight_dumps.write(root / "small", run.dumps(only_active=True))
        _show(f"64 small dumps (target {SMALL_TARGET} of torchfrtrace)", _compare(small, options.torch, options.rounds))
        full = flight_dumps.write(root / "full", flight_dumps.Run(64, 2400, stop={41: 2300}).dumps(ring=2000))
        _show(f"64 full rings (target {FULL_TARGET} of bare unpickling)", _compare(full, options.torch, options.rounds))
        ranks, size_bytes = (64, 1 << 14) if options.quick else (1024, 1 << 20)
        run = flight_dumps.Run(ranks, 60, stop={ranks // 2 + 1: 50})
        many = flight_dumps.write(root / "many", run.dumps(only_active=True))
        _logs(many, ranks, size_bytes)
        cpu_s, rss_mb = _cost((sys.executable, "-m", "firstfault", str(many)), (1, 3))
        print(f"{ranks} logs of {size_bytes >> 10} KiB, {ranks} dumps: {cpu_s:.1f} s CPU")
        print(f"  peak memory {rss_mb:.0f} MB (target {RSS_TARGET_MB} with 1,024 of 1 MiB)")


if __name__ == "__main__":
    main()
