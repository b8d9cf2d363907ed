"""Who asks, over HTTP: cookies, tokens, guests; and what each may do."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException

from firstfault.server.accounts.people import sign_in, sign_up
from firstfault.server.accounts.principal import requires, requires_account, requires_admin, requires_session
from firstfault.server.records import Owner, Principal
from server.consoles import PASSWORD, console, services_of

OWNER = Owner("account", "a1")


def test_guards() -> None:
    guest = Principal(owner=Owner("anonymous", "x"), owners=())
    token = Principal(owner=OWNER, owners=(OWNER,), account_id="a1", scopes=frozenset({"read"}), token_id="t")
    signed_in = Principal(owner=OWNER, owners=(OWNER,), account_id="a1", session_id="s")
    admin = Principal(owner=OWNER, owners=(OWNER,), account_id="a1", session_id="s", is_admin=True)
    for guard in (requires_account, requires_session, requires_admin):
        with pytest.raises(NotAuthorizedException):
            guard(guest)
    assert requires_account(token) == requires_session(signed_in) == requires_admin(admin) == "a1"
    for guard, who in ((requires_session, token), (requires_admin, token), (requires_admin, signed_in)):
        with pytest.raises(PermissionDeniedException):
            guard(who)
    requires("read", token)
    with pytest.raises(PermissionDeniedException):
        requires("manage", token)


def test_a_session_cookie_is_who_signed_in_until_the_account_is_disabled(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        services = services_of(client)
        account = sign_up(services.store, services.settings, "anne@example.org", PASSWORD)
        _, secret = sign_in(services.store, services.settings, "anne@example.org", PASSWORD, address="x")
        client.cookies.set("firstfault", secret)
        assert client.get("/api/v1/me").json()["email"] == "anne@example.org"
        services.store.accounts.change(account.id, disabled=True)
        assert client.get("/api/v1/me").json()["email"] is None


def test_a_cookie_for_plain_http_is_none_on_https(tmp_path: Path) -> None:
    with console(tmp_path, base_url="https://testserver") as client:
        services = services_of(client)
        sign_up(services.store, services.settings, "anne@example.org", PASSWORD)
        secret = services.store.sessions.create(services.store.accounts.list()[0].id, timedelta(days=1))
        assert client.get("/api/v1/me", headers={"Cookie": f"firstfault={secret}"}).json()["email"] is None
        assert client.get("/api/v1/me", headers={"Cookie": f"__Host-firstfault={secret}"}).json()["email"] == "anne@example.org"


def test_the_password_that_a_proxy_asks_for_is_no_token(tmp_path: Path) -> None:
    with console(tmp_path, private=True) as client:
        assert client.get("/api/v1/me", headers={"Authorization": "Basic b3BlbjpzZXNhbWU="}).status_code == 200
        assert client.get("/api/v1/me", headers={"Authorization": "Token ff_x"}).status_code == 401


def test_a_token_of_a_team_sees_the_team_and_not_its_maker(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        services = services_of(client)
        account = sign_up(services.store, services.settings, "anne@example.org", PASSWORD)
        team = services.store.teams.create("pretraining", account.id)
        _, secret = services.store.tokens.create(Owner("team", team.id), account.id, "ci", ("read", "manage"))
        headers = {"Authorization": f"Bearer {secret}"}
        assert client.get("/api/v1/me", headers=headers).json()["kind"] == "team"
        assert client.post("/api/v1/tokens", json={"name": "x", "scopes": ["read"]}, headers=headers).status_code == 404


def test_the_address_is_not_kept(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        client.post("/api/v1/diagnoses", content="x\n", headers={"Content-Type": "text/plain"})
        client.get("/api/v1/me")
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("console.db*"))
    assert kept and b"testclient" not in kept and b"127.0.0.1" not in kept
