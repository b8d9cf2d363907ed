"""OTLP over HTTP: a real exporter is understood, findings appear, nothing acknowledged is lost."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest
from litestar.testing import TestClient

from firstfault.server.otlp import findings
from firstfault.server.records import Principal
from server.consoles import console, services_of, signed_in
from server.otlp.test_decode import request as otlp_request

CRASH = [
    "step 1 loss 2.0",
    "Traceback (most recent call last):",
    '  File "/home/alice/train.py", line 16, in main',
    "    weight = total / positives",
    "ZeroDivisionError: division by zero",
]
PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "QUIET_S", 0.05)


def send(client: TestClient, headers: dict[str, str], lines: list[str] = CRASH, file: str = "rank_3.log"):
    body = otlp_request((file, lines)).SerializeToString()
    return client.post("/v1/logs", content=body, headers={**PROTOBUF, **headers})


def person(client: TestClient) -> Principal:
    services = services_of(client)
    account = services.store.accounts.by_email("anne@example.org")
    assert account is not None
    from firstfault.server.records import Owner

    own = Owner("account", account.id)
    return Principal(owner=own, owners=(own,))


def finding_of(client: TestClient, seconds: float = 20):
    streams = services_of(client).store.streams
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        (run,) = streams.runs(person(client))
        found = streams.finding(run.id)
        if found is not None:
            return run, found
        time.sleep(0.05)
    raise AssertionError("no finding")


def test_a_failure_is_found_and_the_page_is_told(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        anne = signed_in(client)
        answer = send(client, anne)
        assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"", "application/x-protobuf")
        run, found = finding_of(client)
        store = services_of(client).store
        assert (run.name, run.records, found.project) == ("logs", 5, "logs")
        assert json.loads(found.diagnosis)["facts"]["exc.root_type"]["value"] == "ZeroDivisionError"
        (event,) = store.streams.events(run.id, 0)
        assert json.loads(event.data)["id"] == found.id
        assert "alice" not in found.capsule.decode() and all("alice" not in line.text for line in store.streams.lines(run.id))
        evidence = json.loads(found.diagnosis)["evidence"]
        assert any(item["line"] == 5 and item["rank"] == 3 for item in evidence)


def test_the_same_failure_is_told_once(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        anne = signed_in(client)
        send(client, anne)
        run, first = finding_of(client)
        send(client, anne, ["still here", *CRASH])
        services_of(client).logs.close()
        store = services_of(client).store
        assert len(store.streams.events(run.id, 0)) == 1
        assert store.streams.finding(run.id) == first


def test_json_and_gzip_are_taken(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        anne = signed_in(client)
        record = {"timeUnixNano": "17000000000", "body": {"stringValue": "bye"}}
        body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", **anne}
        answer = client.post("/v1/logs", content=gzip.compress(body), headers=headers)
        assert (answer.status_code, answer.json()) == (200, {})
        store = services_of(client).store
        (run,) = store.streams.runs(person(client))
        assert [state.last_text for state in store.streams.states(run.id)] == ["bye"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [(b"\xff", PROTOBUF, 400), (b"{", {"Content-Type": "application/json"}, 400), (b"", {"Content-Type": "text/plain"}, 400)],
)
def test_what_is_no_request_is_refused_in_the_senders_encoding(
    tmp_path: Path, body: bytes, headers: dict[str, str], status: int
) -> None:
    with console(tmp_path) as client:
        answer = client.post("/v1/logs", content=body, headers={**headers, **signed_in(client)})
        assert answer.status_code == status and answer.content


def test_without_the_scope_nothing_is_taken_but_a_private_console_takes_all(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        assert send(client, {}).status_code == 401
    with console(tmp_path, private=True) as client:
        assert send(client, {}).status_code == 200


def test_what_cannot_be_stored_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with console(tmp_path) as client:
        anne = signed_in(client)

        def full(*_: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(services_of(client).store.streams, "write", full)
        assert send(client, anne).status_code == 503


def test_opentelemetrys_own_exporter_is_understood(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs opentelemetry-exporter-otlp-proto-http")
    from opentelemetry._logs import LogRecord
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    from server.live_console import live_console

    with live_console(tmp_path) as address:
        provider = LoggerProvider(resource=Resource.create({"service.name": "llm-7b", "host.name": "gn-08"}))
        provider.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(endpoint=f"{address}/v1/logs")))
        text = "RuntimeError: CUDA error: device-side assert triggered"
        provider.get_logger("train").emit(LogRecord(timestamp=time.time_ns(), body=text))
        provider.shutdown()
    from firstfault.server.accounts.principal import PRIVATE
    from firstfault.server.store.store import open_store

    store = open_store(f"sqlite:///{tmp_path / 'console.db'}")
    (run,) = store.streams.runs(Principal(owner=PRIVATE, owners=(PRIVATE,)))
    assert run.name == "llm-7b"
    assert any("device-side assert" in line.text for line in store.streams.lines(run.id))
    store.close()


def test_what_was_acknowledged_is_there_after_the_process_was_killed(tmp_path: Path) -> None:
    import urllib.request

    from server.live_console import started_console

    process, address = started_console(tmp_path)
    try:
        for number in range(40):
            body = otlp_request(("rank_0.log", [f"line {number}", "RuntimeError: CUDA error: device-side assert triggered"]))
            asked = urllib.request.Request(f"{address}/v1/logs", data=body.SerializeToString(), headers=PROTOBUF)
            with urllib.request.urlopen(asked, timeout=20) as answer:
                assert answer.status == 200
    finally:
        process.kill()
        process.wait()
    process, address = started_console(tmp_path)
    process.terminate()
    assert process.wait(20) == 0
    from firstfault.server.accounts.principal import PRIVATE
    from firstfault.server.store.store import open_store

    store = open_store(f"sqlite:///{tmp_path / 'console.db'}")
    (run,) = store.streams.runs(Principal(owner=PRIVATE, owners=(PRIVATE,)))
    (state,) = store.streams.states(run.id)
    assert (run.records, state.lines) == (80, 80)
    assert [line.number for line in store.streams.lines(run.id)] == list(range(1, 81))
    store.close()
