"""Teams: who is in one, who may come in, and how it ends."""

from __future__ import annotations

from typing import Any

from litestar import Request, get, post
from litestar.params import FromPath, FromQuery

from firstfault.server.accounts import groups
from firstfault.server.accounts.people import INVITATION_LASTS
from firstfault.server.accounts.principal import requires_account
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.records import Principal, Role
from firstfault.server.services import Services
from firstfault.server.web.frame import Form, Page, address_of, field, go, page
from firstfault.server.work import RefusedError


@post("/teams", include_in_schema=False, sync_to_thread=True)
def make(data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """A new team, owned by who asks."""
    name = field(data, "name")
    if not name:
        raise RefusedError("a team has a name", where="name")
    made = groups.create_team(services.store, principal, name[:200])
    return go(services, f"/teams/{made.id}")


@get("/teams/{team_id:str}", include_in_schema=False, sync_to_thread=True)
def show(team_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> Page:
    """Who is in the team, and for its owners, who was invited."""
    return _team_page(team_id, services, principal)


@post("/teams/{team_id:str}/invite", include_in_schema=False, status_code=200, sync_to_thread=True)
def invite(
    team_id: FromPath[str], data: Form, request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal
) -> Page:
    """An invitation; its link is on this page and nowhere else."""
    _, secret = groups.invite(services.store, principal, team_id, field(data, "email") or None)
    link = f"{address_of('/join', request, services)}?invitation={secret}"
    return _team_page(team_id, services, principal, link=link)


@post("/teams/{team_id:str}/revoke", include_in_schema=False, sync_to_thread=True)
def revoke(team_id: FromPath[str], data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """An invitation is taken back."""
    _, role = _membership(team_id, services, principal)
    if role == "owner":
        services.store.invitations.revoke(field(data, "invitation"), team_id)
    return go(services, f"/teams/{team_id}")


@post("/teams/{team_id:str}/role", include_in_schema=False, sync_to_thread=True)
def set_role(team_id: FromPath[str], data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """A member becomes an owner, or the other way round."""
    role: Role = "owner" if field(data, "role") == "owner" else "member"
    groups.set_role(services.store, principal, team_id, field(data, "account"), role)
    return go(services, f"/teams/{team_id}")


@post("/teams/{team_id:str}/remove", include_in_schema=False, sync_to_thread=True)
def remove(team_id: FromPath[str], data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """Somebody leaves the team."""
    gone = field(data, "account")
    groups.remove_member(services.store, principal, team_id, gone)
    return go(services, "/account" if gone == principal.account_id else f"/teams/{team_id}")


@post("/teams/{team_id:str}/delete", include_in_schema=False, sync_to_thread=True)
def delete(team_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> Page:
    """The team and its history are gone."""
    groups.delete_team(services.store, principal, team_id)
    return go(services, "/account")


@get("/join", include_in_schema=False, sync_to_thread=True)
def join_page(services: GivenServices, principal: GivenPrincipal, invitation: FromQuery[str] = "") -> Page:
    """What an invitation is for; who has no account yet is led to a form for one."""
    found = services.store.invitations.find(invitation) if invitation else None
    team = found is not None and found.team_id is not None
    return page("join.html", services, principal, invitation=invitation, works=found is not None, team=team)


@post("/join", include_in_schema=False, sync_to_thread=True)
def join(data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """The account comes into the team."""
    team_id = groups.join(services.store, principal, field(data, "invitation"))
    return go(services, f"/teams/{team_id}")


def _membership(team_id: str, services: Services, principal: Principal) -> tuple[str, str]:
    """The team's name and the role of who asks; as if there were no such team for who is not in it."""
    account_id = requires_account(principal)
    groups.members(services.store, principal, team_id)
    mine = services.store.teams.of_account(account_id)
    return next((team.name, role) for team, role in mine if team.id == team_id)


def _team_page(team_id: str, services: Services, principal: Principal, *, link: str = "") -> Page:
    name, role = _membership(team_id, services, principal)
    return page(
        "team.html",
        services,
        principal,
        team_id=team_id,
        name=name,
        role=role,
        members=groups.members(services.store, principal, team_id),
        invitations=services.store.invitations.list(team_id) if role == "owner" else [],
        link=link,
        lasts=INVITATION_LASTS.days,
    )


handlers = [make, show, invite, revoke, set_role, remove, delete, join_page, join]
