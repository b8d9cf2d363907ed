"""Who may do what: allowances, rates, tokens, other sites, a private console."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from litestar.testing import TestClient

from firstfault.server.accounts import principal as principal_module
from firstfault.server.accounts.throttle import Throttle
from server.consoles import PASSWORD, console, services_of, signed_in

TEXT = {"Content-Type": "text/plain"}
LOG = "Traceback (most recent call last):\nValueError: x\n"


def post(client: TestClient, headers: dict[str, str] | None = None):
    return client.post("/api/v1/diagnoses", content=LOG, headers={**TEXT, **(headers or {})})


def test_without_an_account_three_a_day_also_for_who_deletes_his_cookie(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        first = post(client)
        assert first.status_code == 201 and first.json()["allowance_left"] == 2
        assert first.json()["visibility"] == "link"
        assert "httponly" in first.headers["set-cookie"].lower()
        assert client.get("/api/v1/me").json()["diagnoses_left_today"] == 2
        client.cookies.clear()
        assert [post(client).status_code for _ in range(3)] == [201, 201, 429]
        refused = post(client)
        assert refused.json()["hint"] and refused.json()["status"] == 429
        assert post(client, signed_in(client)).json()["allowance_left"] == 19


def test_a_guest_has_a_history_of_his_own(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        made = post(client).json()["id"]
        assert [item["id"] for item in client.get("/api/v1/diagnoses").json()["items"]] == [made]
        client.cookies.clear()
        assert client.get("/api/v1/diagnoses").json()["items"] == []
        assert client.delete(f"/api/v1/diagnoses/{made}").status_code == 404


def test_a_console_may_refuse_guests(tmp_path: Path) -> None:
    with console(tmp_path, anonymous=False) as client:
        assert post(client).status_code == 403
        assert post(client, signed_in(client)).status_code == 201


def test_a_private_console_counts_nothing(tmp_path: Path) -> None:
    with console(tmp_path, private=True) as client:
        answers = [post(client) for _ in range(5)]
        assert {answer.status_code for answer in answers} == {201}
        assert answers[-1].json()["allowance_left"] is None
        client.cookies.clear()
        assert len(client.get("/api/v1/diagnoses").json()["items"]) == 5


def test_too_many_requests_are_told_when_to_come_again(tmp_path: Path) -> None:
    tiers = {"anonymous": {"requests_a_minute": 3}, "new": {}}
    with console(tmp_path, tiers=tiers) as client:
        codes = [client.get("/api/v1/me") for _ in range(4)]
        assert [answer.status_code for answer in codes] == [200, 200, 200, 429]
        assert int(codes[-1].headers["retry-after"]) >= 1


def test_a_token_does_what_its_scopes_say_and_no_more(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        anne = signed_in(client)
        made = client.post("/api/v1/tokens", json={"name": "ci", "scopes": ["diagnose"]}, headers=anne)
        assert made.status_code == 201
        secret, token = made.json()["secret"], made.json()["token"]
        ci = {"Authorization": f"Bearer {secret}"}
        assert secret.startswith(token["prefix"]) and "digest" not in made.text
        assert post(client, ci).status_code == 201
        assert client.get("/api/v1/diagnoses", headers=ci).status_code == 403
        assert client.post("/api/v1/tokens", json={"name": "x", "scopes": ["manage"]}, headers=ci).status_code == 403
        assert (
            client.post("/api/v1/tokens", json={"name": "x", "scopes": ["read"], "team_id": "t"}, headers=anne).status_code
            == 404
        )
        assert client.delete(f"/api/v1/tokens/{token['id']}", headers=anne).status_code == 204
        assert post(client, ci).status_code == 401
        assert all(secret not in str(line) for line in services_of(client).store.audit.list())


def test_tokens_cannot_be_guessed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(principal_module, "_wrong_tokens", Throttle(per_minute=6, burst=5))
    with console(tmp_path) as client:
        codes = [client.get("/api/v1/me", headers={"Authorization": f"Bearer ff_{n}"}).status_code for n in range(7)]
        assert codes == [401] * 5 + [429] * 2


def test_a_page_of_another_site_changes_nothing(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}):
            assert post(client, headers).status_code == 403
        assert post(client, {"Referer": "https://evil.example/page"}).status_code == 403
        assert post(client, {"Origin": "null", "Referer": "http://console.test/"}).status_code == 403
        assert post(client, {"Referer": "http://console.test/"}).status_code == 201
        for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://console.test"}):
            assert post(client, headers).status_code == 201


def test_every_answer_keeps_to_itself(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        headers = client.get("/api/v1/me").headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_entries_are_found_by_a_message_and_by_words(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        by_message = client.get(
            "/api/v1/entries", params={"q": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."}
        )
        assert any(entry["id"].startswith("cuda-oom") for entry in by_message.json()[:5])
        by_words = client.get("/api/v1/entries", params={"q": "loss is nan"})
        assert any("nan" in entry["id"] for entry in by_words.json()[:5])
        one = client.get("/api/v1/entries/cuda-oom").json()
        assert one["sections"]["In short"]
        assert client.get("/api/v1/entries/nothing").status_code == 404


def test_the_api_describes_itself_and_tells_its_health(tmp_path: Path) -> None:
    with console(tmp_path, base_url="https://example.org/tools/ff/") as client:
        schema = client.get("/tools/ff/openapi/openapi.json").json()
        assert "/tools/ff/api/v1/diagnoses" in schema["paths"]
        assert client.get("/tools/ff/healthz").json() == {"status": "ok"}
        made = client.post("/tools/ff/api/v1/diagnoses", content=LOG, headers=TEXT)
        assert made.json()["url"].startswith("/tools/ff/d/")
        assert "secure" in made.headers["set-cookie"].lower() and "__Host-" in made.headers["set-cookie"]
        assert 'firstfault_diagnoses_total{verdict="' in client.get("/tools/ff/metrics").text


def test_a_token_ends_no_session_and_deletes_no_account(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        anne = signed_in(client)
        store = services_of(client).store
        account = store.accounts.by_email("anne@example.org")
        assert account is not None
        secret = store.sessions.create(account.id, timedelta(days=1))
        assert client.post("/account/sessions/end", data={}, headers=anne).status_code == 403
        for _ in range(2):
            client.post("/account/delete", data={"password": PASSWORD}, headers=anne)
        assert store.sessions.find(secret) is not None
        assert store.accounts.by_email("anne@example.org") is not None
