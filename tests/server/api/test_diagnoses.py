"""The API around answers: submitted once, seen by their owner, continued, shared, deleted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from litestar.testing import TestClient

import firstfault
from firstfault.ingest.capsule import encode, gather_capsule
from firstfault.knowledge.pack import load_pack
from server.consoles import console, services_of, signed_in

ROOT = Path(__file__).parents[3]
PACK = load_pack()
EXAMPLE = ROOT / "examples" / "one-rank-exception"
CAPSULE = encode(gather_capsule([EXAMPLE], PACK))
JSON = {"Content-Type": "application/json"}
CRASH = (
    "mail me at alice@example.org\nTraceback (most recent call last):\n"
    '  File "/home/alice/train.py", line 9, in main\n    x = 1 / 0\nZeroDivisionError: division by zero\n'
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with console(tmp_path_factory.mktemp("console"), tiers={"anonymous": {"diagnoses_a_day": None}, "new": {}}) as opened:
        yield opened


def create(client: TestClient, headers: dict[str, str], body: bytes = CAPSULE, **more: str):
    return client.post("/api/v1/diagnoses", content=body, headers={**JSON, **headers, **more})


def test_a_capsule_is_answered_as_the_command_line_answers(client: TestClient) -> None:
    anne = signed_in(client)
    answer = create(client, anne)
    assert answer.status_code == 201, answer.text
    found, expected = answer.json(), firstfault.diagnose([EXAMPLE])
    assert (found["diagnosis"]["verdict"], found["diagnosis"]["entry"]) == (expected.verdict, expected.entry)
    assert found["visibility"] == "owner" and found["url"] == f"/d/{found['id']}"
    again = client.get(f"/api/v1/diagnoses/{found['id']}", headers=anne)
    assert again.json()["diagnosis"] == found["diagnosis"]
    capsule = client.get(f"/api/v1/diagnoses/{found['id']}/capsule.json", headers=anne)
    assert capsule.content == CAPSULE


@pytest.mark.parametrize("name", ["diagnosis.json", "diagnosis.md", "diagnosis.html", "fix.patch"])
def test_it_comes_in_other_forms(client: TestClient, name: str) -> None:
    anne = signed_in(client)
    diagnosis_id = create(client, anne).json()["id"]
    found = client.get(f"/api/v1/diagnoses/{diagnosis_id}/{name}", headers=anne)
    assert found.status_code == 200
    assert "sandbox" in found.headers["content-security-policy"]
    assert client.get(f"/api/v1/diagnoses/{diagnosis_id}/nothing", headers=anne).status_code == 404


def test_plain_text_is_redacted_before_it_is_kept(client: TestClient) -> None:
    anne = signed_in(client)
    made = client.post("/api/v1/diagnoses", content=CRASH, headers={"Content-Type": "text/plain", **anne})
    assert made.status_code == 201, made.text
    kept = client.get(f"/api/v1/diagnoses/{made.json()['id']}/capsule.json", headers=anne).text
    assert "alice" not in kept + made.text and "‹email-1›" in kept


def test_files_of_a_form_are_read_packed_ones_too(client: TestClient) -> None:
    anne = signed_in(client)
    files = {"file": ("../../etc/rank_3.log.gz", gzip.compress(CRASH.encode()))}
    made = client.post("/api/v1/diagnoses", files=files, data={"command": "torchrun train.py"}, headers=anne)
    assert made.status_code == 201, made.text
    paths = [source["path"] for source in made.json()["diagnosis"]["sources"]]
    assert sorted(paths) == ["command.txt", "etc/rank_3.log.gz"]


def test_nobody_else_sees_changes_or_deletes_it(client: TestClient) -> None:
    anne, ben = signed_in(client), signed_in(client, "ben@example.org")
    diagnosis_id = create(client, anne).json()["id"]
    address = f"/api/v1/diagnoses/{diagnosis_id}"
    assert client.get(address, headers=ben).status_code == 404
    assert client.get(f"{address}/capsule.json", headers=ben).status_code == 404
    assert client.delete(address, headers=ben).status_code == 404
    assert client.patch(address, json={"visibility": "link"}, headers=ben).status_code == 404
    assert client.post(f"{address}/answers", json={"facts": {"run.finished": "no"}}, headers=ben).status_code == 404
    assert client.get("/api/v1/diagnoses", headers=ben).json()["items"] == []
    shared = client.patch(address, json={"visibility": "link"}, headers=anne)
    assert shared.json()["visibility"] == "link"
    assert client.get(address, headers=ben).status_code == 200
    assert client.delete(address, headers=anne).status_code == 204
    assert client.get(address, headers=anne).status_code == 404


def test_a_missing_fact_continues_the_diagnosis(client: TestClient) -> None:
    anne = signed_in(client)
    text = (
        (ROOT / "tests" / "data" / "undecided.txt").read_text()
        if (ROOT / "tests" / "data" / "undecided.txt").exists()
        else "Killed\n"
    )
    made = client.post("/api/v1/diagnoses", content=text, headers={"Content-Type": "text/plain", **anne}).json()
    assert made["diagnosis"]["verdict"] == "undetermined"
    asked = made["diagnosis"]["missing"][0]["fact"]
    more = "kernel: [ 99.123456] Out of memory: Killed process 4242 (python) total-vm:99kB, anon-rss:88kB, file-rss:0kB\n"
    after = client.post(f"/api/v1/diagnoses/{made['id']}/answers", json={"text": more}, headers=anne)
    assert after.status_code == 201, after.text
    assert after.json()["follows"] == made["id"]
    assert after.json()["diagnosis"]["entry"] != made["diagnosis"]["entry"], asked
    wrong = client.post(f"/api/v1/diagnoses/{made['id']}/answers", json={"facts": {"no.fact": "1"}}, headers=anne)
    assert wrong.status_code == 422 and "no.fact" in wrong.text
    assert client.post(f"/api/v1/diagnoses/{made['id']}/answers", json={}, headers=anne).status_code == 422


def test_sent_twice_with_one_key_it_is_answered_once(client: TestClient) -> None:
    anne = signed_in(client)
    key = {"Idempotency-Key": "k-1"}
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: create(client, anne, **key), range(4)))
    assert {answer.status_code for answer in made} == {201}
    assert len({answer.json()["id"] for answer in made}) == 1
    assert create(client, anne, b'{"sources": []}', **key).status_code == 409
    assert create(client, signed_in(client, "ben@example.org"), **key).json()["id"] != made[0].json()["id"]


def test_a_refused_submission_gives_its_key_back(client: TestClient) -> None:
    anne = signed_in(client)
    assert create(client, anne, b"{", **{"Idempotency-Key": "k-2"}).status_code == 422
    assert create(client, anne, **{"Idempotency-Key": "k-2"}).status_code == 201


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", JSON, 422),
        (b"[" * 50_000, JSON, 422),
        (b'{"sources": [{"path": 1}]}', JSON, 422),
        (b"\xff\xfe", JSON, 422),
        (b"x", {"Content-Type": "application/pdf"}, 422),
        (b"", {"Content-Type": "text/plain"}, 422),
        (b"\x80\x04\x95junk", {"Content-Type": "text/plain"}, 422),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(
    client: TestClient, body: bytes, headers: dict[str, str], status: int
) -> None:
    anne = signed_in(client)
    found = client.post("/api/v1/diagnoses", content=body, headers={**headers, **anne})
    assert found.status_code == status, found.text
    assert found.headers["content-type"] == "application/problem+json"
    assert found.json()["detail"]


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    tiers = {"anonymous": {"diagnoses_a_day": 3, "submission_bytes": 10_000, "requests_a_minute": 99}, "new": {}}
    with console(tmp_path, tiers=tiers) as client:

        def endless() -> Iterator[bytes]:
            for _ in range(100):
                yield b"x" * 10_000

        def part_that_never_ends() -> Iterator[bytes]:
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.log"\r\n\r\n'
            yield from endless()

        found = client.post("/api/v1/diagnoses", content=endless(), headers={"Content-Type": "text/plain"})
        assert found.status_code == 413
        declared = client.post("/api/v1/diagnoses", content=b"x" * 10_001, headers={"Content-Type": "text/plain"})
        assert declared.status_code == 413
        form = {"Content-Type": "multipart/form-data; boundary=b"}
        assert client.post("/api/v1/diagnoses", content=endless(), headers=form).status_code in (413, 422)
        assert client.post("/api/v1/diagnoses", content=part_that_never_ends(), headers=form).status_code == 413
        bomb = {"file": ("a.log.gz", gzip.compress(b"x" * (300 << 20)))}
        assert client.post("/api/v1/diagnoses", files=bomb).status_code in (413, 422)


def test_text_from_logs_stays_text(client: TestClient) -> None:
    anne = signed_in(client)
    evil = '<script>alert(1)</script>\x1b[31m\u202e"><img src=x onerror=alert(1)>'
    text = f'{evil}\nTraceback (most recent call last):\n  File "/home/user/{evil}.py", line 9, in main\nValueError: {evil}\n'
    made = client.post("/api/v1/diagnoses", files={"file": (f"{evil}.log", text.encode())}, headers=anne)
    assert made.status_code == 201, made.text
    page = client.get(f"/api/v1/diagnoses/{made.json()['id']}/diagnosis.html", headers=anne).text
    assert "<script" not in page and "<img" not in page and "\x1b" not in page and "\u202e" not in page
    json.loads(client.get(f"/api/v1/diagnoses/{made.json()['id']}/diagnosis.json", headers=anne).content)


def test_lists_go_on_page_by_page(client: TestClient) -> None:
    carl = signed_in(client, "carl@example.org")
    made = [create(client, carl, project="llm").json()["id"] for _ in range(3)]
    first = client.get("/api/v1/diagnoses?limit=2", headers=carl).json()
    rest = client.get(f"/api/v1/diagnoses?limit=2&after={first['after']}", headers=carl).json()
    assert [item["id"] for item in (*first["items"], *rest["items"])] == made[::-1] and rest["after"] is None
    assert client.get("/api/v1/diagnoses?after=nonsense", headers=carl).status_code == 422
    failures = client.get("/api/v1/failures", headers=carl).json()["items"]
    assert [(item["count"], item["state"]) for item in failures] == [(3, "open")]
    mark = failures[0]["fingerprint"]
    assert client.post(f"/api/v1/failures/{mark}/state", json={"state": "fixed"}, headers=carl).json()["state"] == "fixed"
    create(client, carl)
    assert client.get("/api/v1/failures", headers=carl).json()["items"][0]["state"] == "came back"
    assert client.post(f"/api/v1/failures/{mark}/state", json={"state": "came back"}, headers=carl).status_code == 422
    assert services_of(client).store.failures.list is not None
