"""Whose request it is: sessions are ours to give, and pages of other sites ask for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from firstfault.server.accounts.principal import session_cookie
from firstfault.server.app import create_app
from firstfault.server.settings import load_settings
from server.consoles import PASSWORD, services_of

ANNE = {"email": "anne@example.org", "password": PASSWORD}
BEN = {"email": "ben@example.org", "password": PASSWORD}
BASE = "https://console.test"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient[Any]]:
    """Behind https, where the cookies have their real names."""
    given = {"database_url": f"sqlite:///{tmp_path / 'console.db'}", "workers": 1, "base_url": BASE}
    with TestClient(create_app(load_settings(environment={}, given=given)), base_url=BASE) as opened:
        opened.headers.update({"Accept": "text/html"})
        yield opened


def session_of(client: TestClient[Any]) -> str:
    return str(client.cookies.get(session_cookie(services_of(client))))


def test_a_session_that_somebody_put_into_the_browser_is_none(client: TestClient[Any]) -> None:
    name = session_cookie(services_of(client))
    assert name == "__Host-firstfault"
    client.cookies.set(name, "fixed-by-somebody-else", domain="console.test", path="/")
    assert client.get("/account").status_code == 401
    made = client.post("/sign-up", data=ANNE, follow_redirects=False)
    assert made.status_code == 303 and session_of(client) != "fixed-by-somebody-else"
    header = made.headers["set-cookie"].lower()
    assert "httponly" in header and "secure" in header and "samesite=lax" in header and "path=/;" in f"{header};"
    assert services_of(client).store.sessions.find("fixed-by-somebody-else") is None


def test_signing_in_ends_the_session_that_the_browser_came_with(client: TestClient[Any]) -> None:
    client.post("/sign-up", data=ANNE)
    first = session_of(client)
    client.post("/sign-in", data=ANNE)
    second = session_of(client)
    assert first != second and client.get("/account").status_code == 200
    sessions = services_of(client).store.sessions
    assert sessions.find(first) is None and sessions.find(second) is not None
    client.post("/sign-up", data=BEN)
    assert sessions.find(second) is None and sessions.find(session_of(client)) is not None
    client.post("/sign-in", data={**ANNE, "password": "wrong wrong wrong"})
    assert client.get("/account").status_code == 200, "a wrong password signs nobody out"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://console.test.evil.example"},
        {"Origin": "null"},
        {"Referer": "https://evil.example/console.test"},
        {"Referer": "https://console.test@evil.example/"},
        {"Sec-Fetch-Site": "cross-site", "Origin": BASE, "Referer": f"{BASE}/"},
    ],
)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/account/password", "/h/delete", "/", "/teams", "/account/tokens"])
def test_a_page_of_another_site_can_ask_for_nothing(client: TestClient[Any], path: str, headers: dict[str, str]) -> None:
    assert client.post(path, data=ANNE, headers=headers).status_code == 403


def test_browsers_are_let_say_that_a_form_is_our_own(client: TestClient[Any]) -> None:
    assert client.get("/sign-in").headers["referrer-policy"] == "same-origin"
    for headers in ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, {"Origin": BASE}, {"Referer": f"{BASE}/sign-in"}):
        assert client.post("/sign-out", headers=headers, follow_redirects=False).status_code == 303
