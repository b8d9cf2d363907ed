"""Throughput and memory of the scan, beside ripgrep with the same literals.

    python bench/scan.py            400 MB, several rounds, and the peak memory for 1 GB and for one line of 100 MB
    python bench/scan.py --quick    a small run to see that all works

CPU time (user and system) decides: other work on the machine changes it less than wall time. Both read the same files in the
same run, round by round in turn. Ours is the whole pipeline: open, prefilter, counts, confirm, captures, raw windows, sampled
progress. ripgrep prints the matching lines into a pipe that is read; its start is part of its time, as the building of our
prefilter is of ours.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import corpus

from firstfault.ingest.prefix import rank_key
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.schema import Signal
from firstfault.scan import literal_window
from firstfault.scan.scanner import Scanner

MIN_LITERALS = 250
RANKS = 8
RATIO_TARGET = 1.8
RSS_TARGET_MB = 80

_SUBJECTS = (
    "collective",
    "rendezvous",
    "checkpoint shard",
    "communicator",
    "data worker",
    "allocator",
    "peer mapping",
    "kernel",
)
_FAULTS = ("failed to reach", "was refused by", "could not be opened by", "is corrupted in", "lost contact with", "exceeded")
_OBJECTS = (
    "the remote host",
    "the device",
    "the store",
    "rank zero",
    "the launcher",
    "its quota",
    "the file system",
    "the driver",
)


def main() -> int:
    """Run the benchmark; the exit code says whether the targets were met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=400, help="size of the log set")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--prefilter", choices=("auto", "hyperscan", "shapes"), default="auto")
    parser.add_argument("--quick", action="store_true", help="40 MB, two rounds, memory at a tenth of the size")
    parser.add_argument("--rss", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rss:
        scan_files(bench_signals(options.seed), [options.rss], options.prefilter)
        return 0
    if options.quick:
        options.mb, options.rounds = 40, 2
    with tempfile.TemporaryDirectory(prefix="firstfault-bench-") as folder:
        met = throughput(Path(folder), options)
        met &= memory(Path(folder), options)
    return 0 if met else 1


def bench_signals(seed: int) -> list[Signal]:
    """The signals of this checkout, filled up with invented ones to as many literals as a grown pack has."""
    signals = list(load_pack().signals)
    literals = {signal.literal for signal in signals}
    texts = [f"{subject} {fault} {thing}" for subject in _SUBJECTS for fault in _FAULTS for thing in _OBJECTS]
    random.Random(seed).shuffle(texts)
    for number, text in enumerate(texts[: max(0, MIN_LITERALS - len(literals))]):
        signals.append(_invented(f"bench.{number}", text))
    return signals


def scan_files(signals: Sequence[Signal], paths: Sequence[Path], prefilter: str) -> tuple[int, int]:
    """Hits and progress lines of all files: what a diagnosis has to do with the bytes, the building of its engines included."""
    literal_window._chosen.cache_clear()
    scanner = Scanner(signals, prefilter=prefilter)  # type: ignore[arg-type]
    hits = progress = 0
    for path in paths:
        with path.open("rb", buffering=0) as stream:
            result = scanner.scan(stream, rank_of=rank_key)
        hits += len(result.hits)
        progress += sum({sample.key: sample.count for sample in result.progress}.values())
    return hits, progress


def throughput(folder: Path, options: argparse.Namespace) -> bool:
    """Print MB per CPU second of both, and their ratio."""
    signals = bench_signals(options.seed)
    literals = sorted({signal.literal for signal in signals})
    literal_file = folder / "literals"
    literal_file.write_text("\n".join(literals) + "\n", encoding="utf-8")
    paths = [folder / f"rank-{rank}.log" for rank in range(RANKS)]
    for rank, path in enumerate(paths):
        corpus.write_rank_log(path, rank, options.mb * corpus.MB // RANKS, options.seed)
    size_mb = sum(path.stat().st_size for path in paths) / corpus.MB
    search = ["rg", "--no-config", "-a", "-F", "-j1", "-f", str(literal_file), *map(str, paths)]
    hits, progress = scan_files(signals, paths, options.prefilter)
    print(f"{size_mb:.0f} MB in {RANKS} files, {len(literals)} literals, {hits} hits, {progress} progress lines")
    ours, theirs, counting = [], [], []
    for _ in range(options.rounds):
        ours.append(size_mb / _cpu_s(resource.RUSAGE_SELF, lambda: scan_files(signals, paths, options.prefilter)))
        theirs.append(size_mb / _cpu_s(resource.RUSAGE_CHILDREN, lambda: _read_all(search)))
        counting.append(size_mb / _cpu_s(resource.RUSAGE_CHILDREN, lambda: _read_all([*search, "-c"])))
    print(f"{'':<28}{'MB per CPU second':>20}   (median of {options.rounds}; best)")
    for name, figures in (
        ("firstfault, whole pipeline", ours),
        ("rg -F -f literals", theirs),
        ("rg -c -F -f literals", counting),
    ):
        print(f"{name:<28}{statistics.median(figures):>20.0f}   {max(figures):.0f}")
    ratio = _median_ratio(ours, theirs)
    print(f"ratio to rg -F: {ratio:.2f} (target {RATIO_TARGET}); to rg -c (counts only): {_median_ratio(ours, counting):.2f}")
    return ratio >= RATIO_TARGET


def memory(folder: Path, options: argparse.Namespace) -> bool:
    """Print the peak resident size of a process that scans a long log, and one long line."""
    scale = 10 if options.quick else 1
    long_log, long_line = folder / "long.log", folder / "line.log"
    part = (folder / "rank-3.log").read_bytes()
    with long_log.open("wb") as file:
        while file.tell() < 1000 * corpus.MB // scale:
            file.write(part)
    corpus.write_one_line(long_line, 100 * corpus.MB // scale, options.seed)
    met = True
    for path in (long_log, long_line):
        peak_mb = _peak_mb(path, options)
        print(
            f"peak memory for {path.name} ({path.stat().st_size / corpus.MB:.0f} MB): {peak_mb:.0f} MB (target {RSS_TARGET_MB})"
        )
        met &= peak_mb <= RSS_TARGET_MB
    return met


def _invented(ident: str, text: str) -> Signal:
    return Signal(id=ident, event=ident, role="initiating", fault_class=None, literal=text, pattern=text)


def _median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def _cpu_s(who: int, work: Callable[[], object]) -> float:
    before = resource.getrusage(who)
    work()
    after = resource.getrusage(who)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _read_all(command: Sequence[str]) -> int:
    """Bytes that the command prints: it is read, for some tools search less when nobody listens."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        count = 0
        while data := process.stdout.read(1 << 20):
            count += len(data)
    return count


def _peak_mb(path: Path, options: argparse.Namespace) -> float:
    command = [sys.executable, __file__, "--rss", str(path), "--seed", str(options.seed), "--prefilter", options.prefilter]
    probe = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    output = subprocess.run([sys.executable, "-c", probe, *command], check=True, capture_output=True, text=True).stdout
    return int(output) * 1024 / corpus.MB


if __name__ == "__main__":
    sys.exit(main())
