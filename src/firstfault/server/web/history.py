"""`/h`: what failed, how often, whether it was fixed; and everything of an owner to take along or to delete."""

from __future__ import annotations

import io
import zipfile
from typing import cast
from urllib.parse import urlencode

from litestar import Response, get, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath, FromQuery

from firstfault.server.accounts.leaving import erase_history
from firstfault.server.accounts.principal import requires
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.records import Failure, Owner, Principal, State
from firstfault.server.services import Services
from firstfault.server.web.frame import Form, Page, field, go, page
from firstfault.server.work import RefusedError

STATES = ("open", "fixed", "verified", "came back")
SAID = STATES[:3]
"""The states that a person may set: that a failure came back is seen."""


@get("/h", include_in_schema=False, sync_to_thread=True)
def index(
    services: GivenServices,
    principal: GivenPrincipal,
    entry: FromQuery[str] = "",
    project: FromQuery[str] = "",
    of_state: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
) -> Page:
    """The failures that the principal may see, the last seen first, filtered."""
    requires("read", principal)
    wanted = {"entry": entry.strip(), "project": project.strip(), "state": of_state if of_state in STATES else ""}
    found, more = services.store.failures.list(
        principal,
        entry=wanted["entry"] or None,
        project=wanted["project"] or None,
        state=cast(State, wanted["state"]) if wanted["state"] else None,
        after=after,
    )
    asked = {"entry": entry, "project": project, "of_state": of_state, "after": more.after}
    return page(
        "history.html",
        services,
        principal,
        failures=found,
        wanted=wanted,
        after=urlencode({key: value for key, value in asked.items() if value}) if more.after else "",
        known=sorted({one.entry for one in found if one.entry}),
        teams=_team_names(principal, services),
    )


@get("/h/{fingerprint:str}", include_in_schema=False, sync_to_thread=True)
def show(
    fingerprint: FromPath[str], services: GivenServices, principal: GivenPrincipal, after: FromQuery[str | None] = None
) -> Page:
    """One failure and all its answers."""
    requires("read", principal)
    failure = _failure(fingerprint, principal, services)
    found, more = services.store.diagnoses.list(principal, fingerprint=fingerprint, after=after)
    known = services.pack.entries.get(failure.entry or "")
    link = services.url(f"/e/{known.category}/{known.id}") if known else ""
    return page("failure.html", services, principal, failure=failure, found=found, after=more.after, entry_link=link)


@post("/h/{fingerprint:str}/state", include_in_schema=False, sync_to_thread=True)
def set_state(fingerprint: FromPath[str], data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """Somebody says that it is open, fixed or verified."""
    requires("manage", principal)
    state = field(data, "state")
    if state not in SAID:
        raise RefusedError(f"a failure is said to be {', '.join(SAID)}", where="state")
    failure = _failure(fingerprint, principal, services)
    services.store.failures.set_state(failure.owner, fingerprint, cast(State, state))
    back = field(data, "back")
    return go(services, f"/d/{back}" if back.isalnum() else f"/h/{fingerprint}")


@post("/h/delete", include_in_schema=False, sync_to_thread=True)
def delete_all(data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """All answers and runs of the principal's own are gone; those of teams stay."""
    requires("manage", principal)
    if field(data, "sure") != "yes":
        raise RefusedError("nothing was deleted: tick the box first")
    erase_history(services.store, principal.owner)
    return go(services, "/h")


@get("/h/export", include_in_schema=False, sync_to_thread=True)
def export(services: GivenServices, principal: GivenPrincipal) -> Response[bytes]:
    """Everything that is kept of the principal, as a zip file."""
    requires("read", principal)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in services.store.retention.export(principal.owner):
            archive.writestr(name, data)
    headers = {"Content-Disposition": 'attachment; filename="firstfault.zip"', "Cache-Control": "private, no-store"}
    return Response(packed.getvalue(), media_type="application/zip", headers=headers)


def _failure(fingerprint: str, principal: Principal, services: Services) -> Failure:
    for owner in principal.owners:
        found = services.store.failures.get(owner, fingerprint)
        if found is not None:
            return found
    raise NotFoundException("There is no such failure in your history.")


def _team_names(principal: Principal, services: Services) -> dict[Owner, str]:
    if principal.account_id is None:
        return {}
    return {Owner("team", team.id): team.name for team, _ in services.store.teams.of_account(principal.account_id)}


handlers = [index, show, set_state, delete_all, export]
