"""`/data`: what this console keeps, where, for how long and for whom: said from its real settings."""

from __future__ import annotations

from litestar import get
from sqlalchemy import make_url

from firstfault.knowledge.redaction import redaction_rules
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.settings import Settings
from firstfault.server.store.retention import ALLOWANCE_DAYS, AUDIT_DAYS
from firstfault.server.web.frame import Page, page


@get("/data", include_in_schema=False, sync_to_thread=True)
def show(services: GivenServices, principal: GivenPrincipal) -> Page:
    """The page on data."""
    rules = redaction_rules(services.pack)
    kinds: dict[str, int] = {}
    for rule in rules:
        kinds[rule.kind] = kinds.get(rule.kind, 0) + 1
    return page(
        "data.html",
        services,
        principal,
        place_of_store=where_stored(services.settings),
        kinds=kinds,
        rules=len(rules),
        audit_days=AUDIT_DAYS,
        allowance_days=ALLOWANCE_DAYS,
    )


def where_stored(settings: Settings) -> str:
    """The kind and the place of the database, never its user or password."""
    found = make_url(settings.database_url)
    if found.get_backend_name() == "sqlite":
        return "a SQLite database on the machine that runs this console"
    return f"a {found.get_backend_name().replace('postgresql', 'PostgreSQL')} database" + (
        " on another machine of the operator"
        if found.host not in (None, "", "localhost", "127.0.0.1")
        else " on the same machine"
    )


handlers = [show]
