"""What a console takes: diagnoses a second with 50 clients at once, and requests of 200 log records a second.

Real uvicorn, a real SQLite file, loopback; the console's own CPU time is measured, its clients' is not. Prints figures and
ends with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import http.client
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDS = 200
TARGET_LOG_REQUESTS = 800
CLIENTS = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--cases", type=Path, default=ROOT / "examples", help="folders to diagnose")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="firstfault-bench-") as folder:
        process, port = start(Path(folder))
        try:
            diagnoses(port, process.pid, options.cases, options.seconds)
            met = log_requests(port, process.pid, options.seconds)
        finally:
            process.terminate()
            process.wait()
    return 0 if met else 1


def start(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    # This file has the name of the package in which the tests keep how a console is started.
    runner = runpy.run_path(str(ROOT / "tests" / "server" / "live_console.py"))
    process, address = runner["started_console"](folder)
    return process, int(address.rpartition(":")[2])


def cpu_seconds(pid: int) -> float:
    """User and system time of the console's own process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(port: int, requests: Callable[[int], tuple[str, bytes, dict[str, str]]], clients: int, seconds: float) -> list[float]:
    """The time of each request, from so many clients that ask one after the other."""
    until = time.monotonic() + seconds

    def one(number: int) -> list[float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        took = []
        while time.monotonic() < until:
            path, body, headers = requests(number)
            begin = time.monotonic()
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{path}: {answer.status}")
            took.append(time.monotonic() - begin)
        return took

    with ThreadPoolExecutor(clients) as pool:
        return [time_s for times in pool.map(one, range(clients)) for time_s in times]


def diagnoses(port: int, pid: int, cases: Path, seconds: float) -> None:
    from firstfault.errors import FirstfaultError
    from firstfault.ingest.capsule import encode, gather_capsule
    from firstfault.knowledge.pack import load_pack

    pack = load_pack()
    capsules = []
    for folder in sorted(path for path in cases.iterdir() if path.is_dir())[:40]:
        try:
            capsules.append(encode(gather_capsule([folder / "input" if (folder / "input").is_dir() else folder], pack)))
        except FirstfaultError:
            continue
    headers = {"Content-Type": "application/json"}
    begin = time.monotonic()
    times = ask(port, lambda number: ("/api/v1/diagnoses", capsules[number % len(capsules)], headers), CLIENTS, seconds)
    wall = time.monotonic() - begin
    times.sort()
    print(f"{len(capsules)} capsules, {CLIENTS} clients, {os.cpu_count()} cores shared with the clients")
    p99 = times[int(len(times) * 0.99)]
    print(f"diagnoses a second {len(times) / wall:.1f}; median {statistics.median(times):.2f} s, p99 {p99:.2f} s")


def log_requests(port: int, pid: int, seconds: float) -> bool:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    made = ExportLogsServiceRequest()
    logs = made.resource_logs.add()
    for key, value in (("host.name", "node-1"), ("service.name", "llm")):
        pair = logs.resource.attributes.add()
        pair.key, pair.value.string_value = key, value
    records = logs.scope_logs.add().log_records
    for number in range(RECORDS):
        record = records.add()
        record.time_unix_nano = time.time_ns()
        record.body.string_value = _line(number)
        label = record.attributes.add()
        label.key, label.value.string_value = "log.file.name", "rank_0.log"
    body = made.SerializeToString()
    headers = {"Content-Type": "application/x-protobuf"}
    before, begin = cpu_seconds(pid), time.monotonic()
    times = ask(port, lambda _: ("/v1/logs", body, headers), 8, seconds)
    spent, wall = cpu_seconds(pid) - before, time.monotonic() - begin
    rate = len(times) / spent
    print(f"log requests of {RECORDS} records ({len(body):,} bytes): {rate:.0f} a second of the console's CPU")
    print(f"  target {TARGET_LOG_REQUESTS}; median {statistics.median(times) * 1e3:.1f} ms")
    print(f"  {len(times) / wall:.0f} a second of wall time beside 8 clients on the same cores")
    return rate >= TARGET_LOG_REQUESTS


def _line(number: int) -> str:
    clock = f"10:{number // 60 % 60:02d}:{number % 60:02d},123"
    counted = (
        f"step {number} | loss 2.3{number % 97:02d} | lr 1.0e-04 | grad_norm 0.8{number % 31:02d} | tokens/s 51{number:03d}"
    )
    return f"2026-03-01 {clock} - trainer - INFO - {counted} | mfu 41.2 % | data 0.01 s | memory 61.2 GiB of 79.2 GiB"


if __name__ == "__main__":
    sys.exit(main())
