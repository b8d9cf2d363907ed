"""`firstfault diagnose --server`: only what `--show-capsule` shows is sent, and the answer is the console's."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from server.live_console import live_console

EXAMPLE = Path(__file__).parents[2] / "examples" / "one-rank-exception"


def run(*words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "firstfault", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_console(tmp_path_factory.mktemp("console")) as found:
        yield found


def test_the_answer_is_that_of_this_machine(address: str, tmp_path: Path) -> None:
    there = run("diagnose", str(EXAMPLE), "--server", address, "--format", "json", folder=tmp_path)
    here = run("diagnose", str(EXAMPLE), "--format", "json", folder=tmp_path)
    assert there.returncode == here.returncode == 1, there.stderr
    assert [json.loads(found.stdout)["entry"] for found in (there, here)] == ["rank-exception"] * 2
    assert "redacted evidence" in there.stderr and f"kept at {address}/d/" in there.stderr


def test_it_does_not_claim_that_nothing_was_sent(address: str, tmp_path: Path) -> None:
    there = run("diagnose", str(EXAMPLE), "--server", address, folder=tmp_path)
    assert "FAILED" in there.stdout and "nothing left this machine" not in there.stdout


def test_facts_are_sent_too(address: str, tmp_path: Path) -> None:
    found = run("diagnose", str(EXAMPLE), "--server", address, "--fact", "no.such=1", folder=tmp_path)
    assert found.returncode == 2 and "no.such" in found.stderr


class _Recorder(BaseHTTPRequestHandler):
    bodies: list[bytes] = []

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_what_is_shown_is_what_is_sent(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("mail alice@example.org\nValueError: x\n")
    server = HTTPServer(("127.0.0.1", 0), _Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = run("diagnose", str(log), "--server", f"http://127.0.0.1:{server.server_port}", folder=tmp_path)
    server.shutdown()
    server.server_close()
    assert found.returncode == 2 and "FIRSTFAULT_TOKEN" in found.stderr
    shown = run("diagnose", str(log), "--show-capsule", "--output", "sent.json", folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (sent,) = _Recorder.bodies
    assert (tmp_path / "sent.json").read_bytes() == sent and b"alice" not in sent
    assert run("diagnose", str(log), "--show-capsule", folder=tmp_path).stdout.encode() == sent


class _Elsewhere(_Recorder):
    def do_POST(self) -> None:
        self.send_response(307)
        self.send_header("Location", "http://127.0.0.1:1/api/v1/diagnoses")
        self.end_headers()


def test_evidence_and_token_follow_no_redirection(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("ValueError: x\n")
    server = HTTPServer(("127.0.0.1", 0), _Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    found = run("diagnose", str(log), "--server", address, folder=tmp_path, FIRSTFAULT_TOKEN="ff_x")
    server.shutdown()
    server.server_close()
    assert found.returncode == 2 and "307" in found.stderr


def test_a_console_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "run.log"
    log.write_text("ValueError: x\n")
    found = run("diagnose", str(log), "--server", "http://127.0.0.1:1", folder=tmp_path)
    assert found.returncode == 4 and "answered here" in found.stderr
    assert run("diagnose", str(log), "--server", "console", folder=tmp_path).returncode == 2
