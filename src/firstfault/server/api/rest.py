"""The rest of `/api/v1`: failures, entries, tokens, and who asks."""

from __future__ import annotations

from typing import Any

from litestar import Request, delete, get, post
from litestar.exceptions import NotFoundException, PermissionDeniedException
from litestar.params import FromPath, FromQuery, JSONBody

from firstfault.knowledge.pack import body
from firstfault.knowledge.schema import Entry
from firstfault.server.accounts.allowance import left, tier_of
from firstfault.server.accounts.people import note
from firstfault.server.accounts.principal import address_key, requires, requires_account
from firstfault.server.api.diagnoses import OfState
from firstfault.server.api.views import EntryView, Failures, Me, NewToken, StateChange, TokenWish
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.records import ApiToken, Failure, Owner, Principal
from firstfault.server.services import Services
from firstfault.server.work import RefusedError

MAX_FOUND = 30


@get("/failures", summary="List failures", sync_to_thread=True)
def failures(
    services: GivenServices,
    principal: GivenPrincipal,
    entry: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    of_state: OfState = None,
    after: FromQuery[str | None] = None,
) -> Failures:
    """What failed, how often, and whether it was fixed; the last seen first."""
    requires("read", principal)
    found, page = services.store.failures.list(principal, entry=entry, project=project, state=of_state, after=after)
    return Failures(items=found, after=page.after)


@post("/failures/{fingerprint:str}/state", summary="Say that a failure is fixed", status_code=200, sync_to_thread=True)
def set_state(
    fingerprint: FromPath[str], data: JSONBody[StateChange], services: GivenServices, principal: GivenPrincipal
) -> Failure:
    """`open`, `fixed` or `verified`."""
    requires("manage", principal)
    if data.state == "came back":
        raise RefusedError("that a failure came back is seen, not said", where="state")
    for owner in principal.owners:
        if services.store.failures.set_state(owner, fingerprint, data.state):
            found = services.store.failures.get(owner, fingerprint)
            if found is not None:
                return found
    raise NotFoundException("you have no such failure")


@get("/entries", summary="Search the encyclopedia", sync_to_thread=True)
def entries(services: GivenServices, q: FromQuery[str] = "") -> list[EntryView]:
    """Entries for a pasted message or a few words; all of them without a query. Sections are left out."""
    found = services.finder.search(q)[:MAX_FOUND] if q.strip() else list(services.pack.entries.values())
    return [_view(entry, services, {}) for entry in found]


@get("/entries/{entry_id:str}", summary="One entry", sync_to_thread=True)
def entry(entry_id: FromPath[str], services: GivenServices) -> EntryView:
    """What the encyclopedia says of a cause, its sections in Markdown."""
    found = services.pack.entries.get(entry_id)
    if found is None:
        raise NotFoundException("there is no such entry")
    return _view(found, services, body(services.pack, entry_id).sections)


@get("/me", summary="Who asks", sync_to_thread=True)
def me(request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal) -> Me:
    """And how much is left for today."""
    return Me(
        kind=principal.owner.kind,
        email=principal.email,
        tier=principal.tier,
        scopes=sorted(principal.scopes),
        diagnoses_left_today=left(principal, address_key(request, services), services),
        submission_bytes=tier_of(principal, services.settings).submission_bytes,
    )


@get("/tokens", summary="List tokens", sync_to_thread=True)
def tokens(services: GivenServices, principal: GivenPrincipal) -> list[ApiToken]:
    """The tokens of the account and of its teams, without their secrets."""
    requires_account(principal)
    requires("manage", principal)
    return [token for owner in principal.owners for token in services.store.tokens.list(owner)]


@post("/tokens", summary="Make a token", status_code=201, sync_to_thread=True)
def make_token(data: JSONBody[TokenWish], services: GivenServices, principal: GivenPrincipal) -> NewToken:
    """Its secret is in the answer, and nowhere else. A token cannot have scopes that its maker lacks."""
    return issue_token(data, services, principal)


@delete("/tokens/{token_id:str}", summary="End a token", sync_to_thread=True)
def end_token(token_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> None:
    """It works no longer from now on."""
    revoke_token(token_id, services, principal)


def issue_token(wish: TokenWish, services: Services, principal: Principal) -> NewToken:
    """A token with its secret. NotFoundException for a team of others, PermissionDeniedException for scopes one lacks."""
    account_id = requires_account(principal)
    requires("manage", principal)
    if not wish.scopes or not set(wish.scopes) <= principal.scopes:
        raise PermissionDeniedException("a token has some of your own scopes")
    owner = Owner("team", wish.team_id) if wish.team_id is not None else Owner("account", account_id)
    if owner not in principal.owners:
        raise NotFoundException("you are in no such team")
    token, secret = services.store.tokens.create(owner, account_id, wish.name, wish.scopes, wish.expires_at)
    note(services.store, account_id, "make token", token.id, " ".join(wish.scopes))
    return NewToken(token=token, secret=secret)


def revoke_token(token_id: str, services: Services, principal: Principal) -> None:
    """End a token of the account or of one of its teams. NotFoundException if there is none."""
    account_id = requires_account(principal)
    requires("manage", principal)
    if not any(services.store.tokens.revoke(owner, token_id) for owner in principal.owners):
        raise NotFoundException("you have no such token")
    note(services.store, account_id, "end token", token_id)


def _view(found: Entry, services: Services, sections: dict[str, str]) -> EntryView:
    return EntryView(
        id=found.id,
        title=found.title,
        category=found.category,
        url=services.url(f"/e/{found.category}/{found.id}"),
        refines=found.refines,
        aliases=found.aliases,
        sections=sections,
    )


handlers = [failures, set_state, entries, entry, me, tokens, make_token, end_token]
