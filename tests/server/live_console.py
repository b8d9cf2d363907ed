"""A console that listens on a free port: in a process of its own, as `firstfault serve` starts it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STARTS_WITHIN_S = 60


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def started_console(folder: Path, *options: str, private: bool = True) -> tuple[subprocess.Popen[bytes], str]:
    """The process and its address, ready to answer."""
    port = free_port()
    words = [
        sys.executable,
        "-m",
        "firstfault",
        "serve",
        "--port",
        str(port),
        "--database",
        f"sqlite:///{folder / 'console.db'}",
    ]
    process = subprocess.Popen([*words, *(["--private"] if private else []), *options], cwd=folder, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/healthz", timeout=5):
                return process, address
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    process.kill()
    raise RuntimeError(f"the console did not start: exit code {process.wait()}")


@contextmanager
def live_console(folder: Path, *options: str, private: bool = True) -> Iterator[str]:
    """The address of a console that is stopped at the end."""
    process, address = started_console(folder, *options, private=private)
    try:
        yield address
    finally:
        process.terminate()
        process.wait(20)
