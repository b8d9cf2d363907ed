"""Whole folders as launchers leave them: the lines of steps, tracebacks, launchers' accounts and reports, by rank and host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.schema import Pack
from firstfault.model.bundle import Bundle
from firstfault.model.diagnosis import Diagnosis

CLOSED = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:44123"
_SIGNALS = {6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


@lru_cache(maxsize=1)
def _pack() -> Pack:
    return load_pack()


def gathered(folder: Path, files: Mapping[str, str]) -> Bundle:
    """What is read of a folder that holds `files` by relative path."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return gather([folder], _pack())


def diagnosed(folder: Path, files: Mapping[str, str]) -> Diagnosis:
    """The answer to a folder that holds `files` by relative path."""
    return investigate(gathered(folder, files), _pack())


def steps(count: int, *, at: int = 7200, ranks: Sequence[int] = ()) -> str:
    """A line a second from `at` seconds of the day on; with `ranks` one for each of them, labelled."""
    lines = []
    for step in range(count):
        hour, minute, second = (at + step) // 3600, (at + step) // 60 % 60, (at + step) % 60
        text = f"2025-11-04 {hour:02d}:{minute:02d}:{second:02d},100 - INFO - step {step} loss 2.1\n"
        lines += [f"[rank{rank}]: {text}" for rank in ranks] or [text]
    return "".join(lines)


def raised(error: str, *, rank: int | None = None, line: int = 88) -> str:
    """A traceback of the script; with `rank` each line is labelled."""
    lines = (
        "Traceback (most recent call last):",
        '  File "/home/user/train.py", line 120, in <module>',
        "    main()",
        f'  File "/home/user/train.py", line {line}, in main',
        "    loss = step(batch)",
        error,
    )
    return "".join(f"{'' if rank is None else f'[rank{rank}]: '}{one}\n" for one in lines)


def account(clock: str, launcher: int, *, stopped: Sequence[int] = (), failed: tuple[int, int, int]) -> str:
    """What torchelastic prints of one attempt; `failed` is (local rank, exit code, pid)."""
    api = f"{clock} {launcher} torch/distributed/elastic/multiprocessing/api.py"
    told = [f"W1104 {api}:900] Sending process {pid} closing signal SIGTERM\n" for pid in stopped]
    local, code, pid = failed
    ended = f"failed (exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python"
    return f"{''.join(told)}E1104 {api}:874] {ended}\n"


def report(host: str, root: tuple[int, int, int, int, str], *others: tuple[int, int, int, int, str]) -> str:
    """The closing report of a node; each failure is (rank, local rank, exit code, pid, time)."""
    line, dashes = "=" * 60, "-" * 60
    told = "".join(_failure(number + 1, host, one) for number, one in enumerate(others)) or "  <NO_OTHER_FAILURES>\n"
    first = _failure(0, host, root)
    head = f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{line}\ntrain.py FAILED\n{dashes}\n"
    return f"{head}Failures:\n{told}{dashes}\nRoot Cause (first observed failure):\n{first}{line}\n"


def _failure(number: int, host: str, failure: tuple[int, int, int, int, str]) -> str:
    rank, local, code, pid, time = failure
    signal = f"Signal {-code} ({_SIGNALS.get(-code, '')}) received by PID {pid}"
    why = signal if code < 0 else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    return (
        f"[{number}]:\n  time      : 2025-11-04_{time}\n  host      : {host}\n  rank      : {rank} (local_rank: {local})\n"
        f"  exitcode  : {code} (pid: {pid})\n  error_file: <N/A>\n  traceback : {why}\n"
    )
