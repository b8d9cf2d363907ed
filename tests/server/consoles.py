"""A console for a test: the real application on a real database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from litestar.testing import TestClient

from firstfault.server.app import create_app
from firstfault.server.services import Services
from firstfault.server.settings import load_settings

PASSWORD = "correct horse battery"


@contextmanager
def console(folder: Path, **settings: Any) -> Iterator[TestClient[Any]]:
    """A client without an account."""
    given = {"database_url": f"sqlite:///{folder / 'console.db'}", "workers": 1, **settings}
    made = load_settings(environment={}, given=given)
    with TestClient(create_app(made), base_url="http://console.test") as client:
        yield client


def services_of(client: TestClient[Any]) -> Services:
    """What the handlers of a console use."""
    found: Services = client.app.state.services
    return found


def signed_in(client: TestClient[Any], email: str = "anne@example.org") -> dict[str, str]:
    """Headers of a person with an account and a token that may do everything."""
    from firstfault.server.accounts.people import sign_up
    from firstfault.server.records import Owner

    services = services_of(client)
    account = services.store.accounts.by_email(email) or sign_up(services.store, services.settings, email, PASSWORD)
    scopes = ("diagnose", "read", "logs", "manage")
    _, secret = services.store.tokens.create(Owner("account", account.id), account.id, "test", scopes)
    return {"Authorization": f"Bearer {secret}"}
