"""Signing up, in and out; the password, the sessions, the tokens, and the account's end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from litestar import Request, get, post
from litestar.params import FromPath, FromQuery

from firstfault.server.accounts.allowance import left, tier_of
from firstfault.server.accounts.leaving import erase_account
from firstfault.server.accounts.passwords import SHORTEST
from firstfault.server.accounts.people import (
    SignInError,
    SignUpError,
    change_password,
    confirm_password,
    sign_in,
    sign_out,
    sign_up,
)
from firstfault.server.accounts.principal import address_key, cookie, requires_account, requires_session, session_cookie
from firstfault.server.api.rest import issue_token, revoke_token
from firstfault.server.api.views import TokenWish
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.records import Principal, Scope
from firstfault.server.services import Services
from firstfault.server.store.accounts import TakenError
from firstfault.server.web.frame import Form, Page, field, go, page, ticked

SCOPES: dict[Scope, str] = {
    "diagnose": "submit evidence",
    "read": "read the history",
    "logs": "send log records (OTLP)",
    "manage": "change, share and delete",
}
_AnyRequest = Request[Any, Any, Any]


@get("/sign-in", include_in_schema=False, sync_to_thread=True)
def sign_in_page(services: GivenServices, principal: GivenPrincipal, invitation: FromQuery[str] = "") -> Page:
    """The form; with an invitation it leads on to that."""
    return page("sign_in.html", services, principal, email="", error="", invitation=invitation)


@post("/sign-in", include_in_schema=False, sync_to_thread=True)
def do_sign_in(data: Form, request: _AnyRequest, services: GivenServices, principal: GivenPrincipal) -> Page:
    """A session in a cookie, and the one before ends; the same refusal whatever was wrong."""
    email, invitation = field(data, "email"), field(data, "invitation")
    agent = request.headers.get("user-agent", "")
    address = address_key(request, services)
    try:
        _, secret = sign_in(services.store, services.settings, email, _password(data), agent, address=address)
    except SignInError as error:
        shown = {"email": email, "error": str(error), "invitation": invitation}
        return page("sign_in.html", services, principal, status_code=401, **shown)
    _end_earlier(principal, services)
    return _with_session(go(services, f"/join?invitation={invitation}" if _is_secret(invitation) else "/h"), secret, services)


@get("/sign-up", include_in_schema=False, sync_to_thread=True)
def sign_up_page(services: GivenServices, principal: GivenPrincipal, invitation: FromQuery[str] = "") -> Page:
    """The form, as far as this console takes new accounts."""
    return _sign_up_page(services, principal, invitation)


@post("/sign-up", include_in_schema=False, sync_to_thread=True)
def do_sign_up(data: Form, request: _AnyRequest, services: GivenServices, principal: GivenPrincipal) -> Page:
    """An account and its first session."""
    email, invitation, address = field(data, "email"), field(data, "invitation"), address_key(request, services)
    try:
        sign_up(services.store, services.settings, email, _password(data), invitation or None, address=address)
    except TakenError:
        known = "there is an account with this address already: sign in, or ask the operator for a new password"
        return _sign_up_page(services, principal, invitation, email=email, error=known, status_code=409)
    except SignUpError as error:
        return _sign_up_page(services, principal, invitation, email=email, error=str(error), status_code=422)
    agent = request.headers.get("user-agent", "")
    _, secret = sign_in(services.store, services.settings, email, _password(data), agent, address=address)
    _end_earlier(principal, services)
    return _with_session(go(services, "/account"), secret, services)


@post("/sign-out", include_in_schema=False, sync_to_thread=True)
def do_sign_out(services: GivenServices, principal: GivenPrincipal) -> Page:
    """The session is over."""
    sign_out(services.store, principal)
    answer = go(services, "/")
    answer.set_cookie(cookie(session_cookie(services), "", timedelta(0), services))
    return answer


@get("/account", include_in_schema=False, sync_to_thread=True)
def show(request: _AnyRequest, services: GivenServices, principal: GivenPrincipal) -> Page:
    """The account with its sessions, tokens and teams."""
    return _account_page(request, services, principal)


@post("/account/password", include_in_schema=False, sync_to_thread=True)
def set_password(data: Form, request: _AnyRequest, services: GivenServices, principal: GivenPrincipal) -> Page:
    """A new password; all other sessions end."""
    try:
        secret = change_password(services.store, principal, str(data.get("old", "")), _password(data))
    except (SignInError, SignUpError) as error:
        return _account_page(request, services, principal, status_code=422, error=str(error))
    return _with_session(go(services, "/account"), secret, services)


@post("/account/sessions/end", include_in_schema=False, sync_to_thread=True)
def end_session(data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """One session, or all but this one, end."""
    account_id = requires_session(principal)
    one = field(data, "session")
    if one:
        services.store.sessions.end(account_id, one)
    else:
        services.store.sessions.end(account_id, but=principal.session_id)
    return go(services, "/account")


@post("/account/tokens", include_in_schema=False, status_code=200, sync_to_thread=True)
def make_token(data: Form, request: _AnyRequest, services: GivenServices, principal: GivenPrincipal) -> Page:
    """A token; its secret is on this page and nowhere else."""
    requires_account(principal)
    wanted = ticked(data, "scope")
    scopes = tuple(scope for scope in SCOPES if scope in wanted)
    if not scopes:
        return _account_page(request, services, principal, status_code=422, error="a token may do at least one thing")
    wish = TokenWish(name=field(data, "name") or "token", scopes=scopes, team_id=field(data, "team") or None)
    made = issue_token(wish, services, principal)
    return _account_page(request, services, principal, secret=made.secret)


@post("/account/tokens/{token_id:str}/end", include_in_schema=False, sync_to_thread=True)
def end_token(token_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> Page:
    """The token works no longer."""
    revoke_token(token_id, services, principal)
    return go(services, "/account")


@post("/account/delete", include_in_schema=False, sync_to_thread=True)
def delete(data: Form, request: _AnyRequest, services: GivenServices, principal: GivenPrincipal) -> Page:
    """The account and all of its history are gone; the password says that it is really its owner who asks."""
    try:
        account_id, _ = confirm_password(services.store, principal, _password(data))
    except SignInError as error:
        return _account_page(request, services, principal, status_code=422, error=str(error))
    erase_account(services.store, account_id)
    answer = go(services, "/")
    answer.set_cookie(cookie(session_cookie(services), "", timedelta(0), services))
    return answer


def _account_page(
    request: _AnyRequest,
    services: Services,
    principal: Principal,
    *,
    status_code: int = 200,
    error: str = "",
    secret: str = "",
) -> Page:
    account_id = requires_account(principal)
    store = services.store
    return page(
        "account.html",
        services,
        principal,
        status_code=status_code,
        error=error,
        secret=secret,
        shortest=SHORTEST,
        scopes=SCOPES,
        tier=tier_of(principal, services.settings),
        left=left(principal, address_key(request, services), services),
        sessions=store.sessions.list(account_id),
        tokens=[token for owner in principal.owners for token in store.tokens.list(owner)],
        teams=store.teams.of_account(account_id),
    )


def _sign_up_page(
    services: Services, principal: Principal, invitation: str, *, email: str = "", error: str = "", status_code: int = 200
) -> Page:
    invited = services.store.invitations.find(invitation) if invitation else None
    team = bool(invited and invited.team_id)
    shown = {"email": email or (invited.email if invited and invited.email else ""), "error": error, "shortest": SHORTEST}
    closed = services.settings.sign_up == "off" or (services.settings.sign_up == "invitation" and invited is None)
    return page(
        "sign_up.html",
        services,
        principal,
        status_code=status_code,
        invitation=invitation,
        team=team,
        closed=closed,
        **shown,
    )


def _with_session(answer: Page, secret: str, services: Services) -> Page:
    lasts = timedelta(days=services.settings.session_days)
    answer.set_cookie(cookie(session_cookie(services), secret, lasts, services))
    return answer


def _end_earlier(principal: Principal, services: Services) -> None:
    """Whoever knew the secret that this browser came with learns nothing from the new one."""
    if principal.account_id is not None and principal.session_id is not None:
        services.store.sessions.end(principal.account_id, principal.session_id)


def _password(form: dict[str, Any]) -> str:
    # As it was typed: blanks count.
    return str(form.get("password", ""))


def _is_secret(text: str) -> bool:
    return bool(text) and text.replace("-", "").replace("_", "").isalnum()


handlers = [
    sign_in_page,
    do_sign_in,
    sign_up_page,
    do_sign_up,
    do_sign_out,
    show,
    set_password,
    end_session,
    make_token,
    end_token,
    delete,
]
