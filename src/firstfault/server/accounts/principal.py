"""Who asks: the holder of a token, a person who is signed in, or a browser without an account."""

from __future__ import annotations

import hmac
import secrets
from datetime import timedelta
from hashlib import sha256
from ipaddress import ip_address, ip_network
from typing import Any

from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie, MutableScopeHeaders
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.types import Message, Scope

from firstfault.server.accounts.throttle import Throttle
from firstfault.server.records import Account, Owner, Principal
from firstfault.server.records import Scope as TokenScope
from firstfault.server.services import Services

ALL_SCOPES: frozenset[TokenScope] = frozenset({"diagnose", "read", "logs", "manage"})
ANONYMOUS_SCOPES: frozenset[TokenScope] = frozenset({"diagnose", "read", "manage"})
ANONYMOUS_LASTS = timedelta(days=365)
PRIVATE = Owner("anonymous", "private")
"""Whose the records of a private console are while nobody is signed in."""
_IPV6_PREFIX = 64
_wrong_tokens = Throttle(per_minute=6, burst=20)


def principal_of(request: ASGIConnection[Any, Any, Any, Any], services: Services) -> Principal:
    """The principal of a request. NotAuthorizedException for a token that is not valid, ThrottledError if many are tried."""
    header = request.headers.get("authorization")
    # A proxy that asks for a password itself passes its own header on.
    if header is not None and not header.casefold().startswith("basic "):
        return _of_token(header, address_key(request, services), services)
    secret = request.cookies.get(session_cookie(services))
    found = services.store.sessions.find(secret) if secret else None
    if found is not None:
        return _of_account(found[1], found[0], services)
    if services.settings.private:
        return Principal(owner=PRIVATE, owners=(PRIVATE,), scopes=ALL_SCOPES)
    key = request.cookies.get(anonymous_cookie(services))
    if not key or len(key) > 100:
        key = secrets.token_urlsafe(32)
        request.scope["state"]["new_anonymous_key"] = key
    owner = Owner("anonymous", sha256(key.encode()).hexdigest())
    return Principal(owner=owner, owners=(owner,), scopes=ANONYMOUS_SCOPES if services.settings.anonymous else frozenset())


def session_cookie(services: Services) -> str:
    """The name of the cookie of who is signed in; `__Host-` ties it to this very host."""
    return _cookie_name("firstfault", services)


def anonymous_cookie(services: Services) -> str:
    """The name of the cookie of a browser without an account."""
    return _cookie_name("firstfault-guest", services)


def cookie(name: str, value: str, lasts: timedelta, services: Services) -> Cookie:
    """A cookie that no script reads and no other site sends along."""
    settings = services.settings
    # A name that begins with `__Host-` wants the path of the whole host.
    path = "/" if name.startswith("__Host-") else settings.path or "/"
    age = int(lasts.total_seconds())
    return Cookie(key=name, value=value, max_age=age, path=path, httponly=True, secure=settings.is_https, samesite="lax")


async def set_anonymous_cookie(message: Message, scope: Scope) -> None:
    """Hook before an answer is sent: a browser that came without a key gets one."""
    key = scope.get("state", {}).get("new_anonymous_key")
    if message["type"] == "http.response.start" and key is not None:
        services: Services = scope["app"].state.services
        made = cookie(anonymous_cookie(services), key, ANONYMOUS_LASTS, services)
        MutableScopeHeaders.from_message(message).add("Set-Cookie", made.to_header(header=""))


def address_key(request: ASGIConnection[Any, Any, Any, Any], services: Services) -> str:
    """A digest of the client's address (of IPv6, of its network) with a key of this console: addresses are not kept."""
    host = request.client.host if request.client else ""
    try:
        found = ip_address(host)
        host = str(ip_network((host, _IPV6_PREFIX), strict=False)) if found.version == 6 else host
    except ValueError:
        pass
    return hmac.digest(services.store.keys.get("address"), host.encode(), "sha256").hex()[:32]


def requires(scope: TokenScope, principal: Principal) -> None:
    """PermissionDeniedException if the principal may not do that."""
    if scope not in principal.scopes:
        raise PermissionDeniedException(f"this needs the scope `{scope}`: sign in, or send a token that has it")


def requires_account(principal: Principal) -> str:
    """The account's id; NotAuthorizedException for who is not signed in."""
    if principal.account_id is None:
        raise NotAuthorizedException("sign in first")
    return principal.account_id


def requires_session(principal: Principal) -> str:
    """The account's id; PermissionDeniedException for a token: it lies in files of machines, and must not open all that."""
    account_id = requires_account(principal)
    if principal.session_id is None:
        raise PermissionDeniedException("this is for who is signed in, not for a token")
    return account_id


def requires_admin(principal: Principal) -> str:
    """The account's id; PermissionDeniedException for who does not run the console, or comes with a token."""
    account_id = requires_account(principal)
    if not principal.is_admin:
        raise PermissionDeniedException("only those who run the console may do that")
    return account_id


def _of_token(header: str, address: str, services: Services) -> Principal:
    _wrong_tokens.check(address)
    kind, _, secret = header.partition(" ")
    found = services.store.tokens.find(secret.strip()) if kind.casefold() == "bearer" else None
    if found is None:
        _wrong_tokens.take(address)
        raise NotAuthorizedException("the token is not valid: Authorization: Bearer ff_...")
    token, account = found
    return Principal(
        owner=token.owner,
        owners=(token.owner,),
        tier=account.tier if account is not None else services.settings.new_accounts_are,
        scopes=frozenset(token.scopes),
        account_id=account.id if account is not None else None,
        token_id=token.id,
    )


def _of_account(account: Account, session_id: str, services: Services) -> Principal:
    own = Owner("account", account.id)
    teams = tuple(Owner("team", team.id) for team, _ in services.store.teams.of_account(account.id))
    return Principal(
        owner=own,
        owners=(own, *teams),
        tier=account.tier,
        scopes=ALL_SCOPES,
        account_id=account.id,
        email=account.email,
        is_admin=account.is_admin,
        session_id=session_id,
    )


def _cookie_name(name: str, services: Services) -> str:
    return f"__Host-{name}" if services.settings.is_https else name
