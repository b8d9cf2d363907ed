"""`/`: hand over what there is of a run."""

from __future__ import annotations

from typing import Any

from litestar import Request, get

from firstfault.server.accounts.allowance import left, tier_of
from firstfault.server.accounts.principal import address_key
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.web.frame import Page, page


@get("/", include_in_schema=False, sync_to_thread=True)
def start(request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal) -> Page:
    """The start page, with what is left for today."""
    tier = tier_of(principal, services.settings)
    remaining = left(principal, address_key(request, services), services)
    return page("start.html", services, principal, left=remaining, tier=tier)


handlers = [start]
