"""`firstfault admin` against a database on disk, as an operator types it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from firstfault.cli.main import run
from firstfault.server.accounts.people import sign_in
from firstfault.server.records import Owner
from firstfault.server.settings import Settings
from firstfault.server.store.store import Store, open_store
from server.store.people import answer, person

PASSWORD = "correct horse battery"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'console.db'}"


@pytest.fixture
def store(url: str):
    opened = open_store(url)
    yield opened
    opened.close()


def typed(url: str, *words: str, given: str = "", monkeypatch: pytest.MonkeyPatch | None = None) -> int:
    if monkeypatch is not None:
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
    return run(["admin", "--database", url, *words])


@pytest.fixture
def anne(url: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    assert typed(url, "create-account", "Anne@Example.org", "--admin", given=PASSWORD + "\n", monkeypatch=monkeypatch) == 0
    account = store.accounts.by_email("anne@example.org")
    assert account is not None and account.is_admin
    return account.id


def test_an_account_is_made_with_a_password_from_standard_input(url: str, store: Store, monkeypatch, capsys) -> None:
    assert typed(url, "create-account", "Anne@example.org", given=PASSWORD + "\n", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == "anne@example.org has an account, tier new\n"
    assert sign_in(store, Settings(), "anne@example.org", PASSWORD, address="a")[0].email == "anne@example.org"


def test_a_new_password_ends_the_sessions(anne: str, url: str, store: Store, monkeypatch) -> None:
    _, secret = sign_in(store, Settings(), "anne@example.org", PASSWORD, address="b")
    assert typed(url, "set-password", "anne@example.org", given="another long word\n", monkeypatch=monkeypatch) == 0
    assert store.sessions.find(secret) is None
    assert sign_in(store, Settings(), "anne@example.org", "another long word", address="b")[0].id == anne


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("create-account", "anne@example.org"), PASSWORD),
        (("create-account", "nobody"), PASSWORD),
        (("create-account", "ben@example.org"), "short"),
        (("create-account", "ben@example.org", "--tier", "gold"), PASSWORD),
        (("set-tier", "anne@example.org", "gold"), ""),
        (("make-admin", "ben@example.org"), ""),
        (("invite", "--team", "nothing"), ""),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(words, given, anne: str, url: str, store: Store, monkeypatch) -> None:
    assert typed(url, *words, given=given, monkeypatch=monkeypatch) == 2
    assert store.accounts.count() == 1


def test_accounts_are_changed(anne: str, url: str, store: Store, capsys) -> None:
    _, session = sign_in(store, Settings(), "anne@example.org", PASSWORD, address="c")
    token = store.tokens.create(Owner("account", anne), anne, "ci", ("read",))[1]
    assert typed(url, "set-tier", "anne@example.org", "trusted") == 0
    assert typed(url, "make-admin", "anne@example.org", "--undo") == 0
    assert typed(url, "disable", "anne@example.org") == 0
    account = store.accounts.get(anne)
    assert account is not None and (account.tier, account.is_admin, account.disabled) == ("trusted", False, True)
    assert store.sessions.find(session) is None and store.tokens.find(token) is None
    assert typed(url, "disable", "anne@example.org", "--undo") == 0
    assert store.tokens.find(token) is not None
    assert typed(url, "revoke-tokens", "anne@example.org") == 0
    assert store.tokens.find(token) is None
    capsys.readouterr()
    assert typed(url, "accounts") == 0
    assert "trusted     anne@example.org" in capsys.readouterr().out
    assert typed(url, "audit", "--actor", "command line") == 0
    actions = [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()]
    assert actions == ["revoke", *["change account"] * 4, "make account"]


def test_an_invitation_is_a_link(anne: str, url: str, store: Store, capsys) -> None:
    capsys.readouterr()
    assert typed(url, "invite", "Ben@example.org") == 0
    secret = capsys.readouterr().out.strip().partition("?invitation=")[2]
    found = store.invitations.find(secret)
    assert found is not None and found.email == "ben@example.org"


def test_everything_is_exported_once_and_erased(anne: str, url: str, store: Store, tmp_path: Path, capsys) -> None:
    made = answer(person(anne))
    store.diagnoses.add(made)
    file = tmp_path / "anne.zip"
    assert typed(url, "export", "anne@example.org", str(file)) == 0
    assert typed(url, "export", "anne@example.org", str(file)) == 2
    with zipfile.ZipFile(file) as opened:
        names = {name.partition("/")[2] for name in opened.namelist()}
        assert {"account.json", "diagnoses.json", f"diagnoses/{made.id}.capsule.json"} <= names
        text = " ".join(opened.read(name).decode() for name in opened.namelist())
        assert json.loads(opened.read(f"account-{anne}/account.json"))[0]["email"] == "anne@example.org"
    assert "argon2" not in text
    assert typed(url, "erase", "anne@example.org", "--yes") == 0
    assert store.accounts.count() == 0 and store.diagnoses.get(made.id, person(anne)) is None


def test_the_database_is_brought_up_to_date_and_counted(tmp_path: Path, capsys) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert typed(url, "migrate") == 0
    assert capsys.readouterr().out.startswith("empty -> 0")
    assert typed(url, "migrate") == 0
    before, after = capsys.readouterr().out.split(" -> ")
    assert before == after.strip()
    assert typed(url, "stats") == 0
    assert "diagnoses             0" in capsys.readouterr().out
    assert typed(url, "expire") == 0
    assert typed("mysql://x/y", "stats") == 2
