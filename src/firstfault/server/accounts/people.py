"""Signing up, in and out; what people do is written to the audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from firstfault.lazy_pattern import lazy_pattern
from firstfault.server.accounts.passwords import hash_password, is_outdated, is_password
from firstfault.server.accounts.throttle import Throttle
from firstfault.server.records import Account, AuditLine, Principal
from firstfault.server.settings import Settings
from firstfault.server.store.accounts import TakenError, plain_email
from firstfault.server.store.store import Store

INVITATION_LASTS = timedelta(days=14)
MAX_EMAIL_CHARS = 320
_by_address = Throttle(per_minute=6, burst=20)
_by_account = Throttle(per_minute=6, burst=30)
"""Somebody who tries from many addresses keeps the person out only while he tries."""
_sign_ups = Throttle(per_minute=1, burst=10)
_EMAIL = lazy_pattern(r"[^\s@]{1,64}@[^\s@.]+(?:\.[^\s@.]+)+\Z")


class SignUpError(ValueError):
    """The account cannot be made; the text says why, for the person who asked."""


class SignInError(ValueError):
    """The address and the password do not belong together, or the account is disabled."""


def sign_up(
    store: Store,
    settings: Settings,
    email: str,
    password: str,
    invitation: str | None = None,
    *,
    address: str | None = None,
) -> Account:
    """A new account, as far as the console allows it. SignUpError, or TakenError for a known e-mail address.

    ThrottledError if too many were made from one network address (its key).
    """
    found = store.invitations.find(invitation) if invitation else None
    if settings.sign_up == "off" or (settings.sign_up == "invitation" and not invitation):
        raise SignUpError(
            "this console takes no new accounts" + (" without an invitation" if settings.sign_up == "invitation" else "")
        )
    if address is not None:
        _sign_ups.take(address)
    if invitation and found is None:
        raise SignUpError("the invitation was used already, or is too old")
    if found is not None and found.email not in (None, plain_email(email)):
        raise SignUpError("the invitation is for another address")
    if found is not None and not store.invitations.use(found.id):
        raise SignUpError("the invitation was used already, or is too old")
    try:
        account = make_account(store, email, password, settings.new_accounts_are)
    except (SignUpError, TakenError):
        if found is not None:
            store.invitations.give_back(found.id)
        raise
    if found is not None and found.team_id is not None:
        store.teams.add(found.team_id, account.id)
    return account


def sign_in(
    store: Store, settings: Settings, email: str, password: str, agent: str = "", *, address: str
) -> tuple[Account, str]:
    """The account and the secret for its cookie. SignInError says the same whatever is wrong.

    ThrottledError if too many were wrong from this address (its key), or for this account.
    """
    _by_address.take(address)
    _by_account.take(plain_email(email))
    account = store.accounts.by_email(email)
    kept = store.accounts.password_hash(account.id) if account is not None else None
    if not is_password(kept, password) or account is None or kept is None or account.disabled:
        if account is not None:
            note(store, account.id, "sign in refused", account.id)
        raise SignInError("the address and the password do not belong together")
    if is_outdated(kept):
        store.accounts.change(account.id, password=hash_password(password))
    _by_address.give_back(address)
    _by_account.give_back(plain_email(email))
    note(store, account.id, "sign in", account.id)
    return account, store.sessions.create(account.id, timedelta(days=settings.session_days), agent)


def sign_out(store: Store, principal: Principal) -> None:
    """End the session of who asks."""
    if principal.account_id is not None and principal.session_id is not None:
        store.sessions.end(principal.account_id, principal.session_id)
        note(store, principal.account_id, "sign out", principal.account_id)


def confirm_password(store: Store, principal: Principal, password: str) -> tuple[str, str]:
    """The ids of the account and the session of who is signed in, and knows his password.

    SignInError for a wrong password or without a session, ThrottledError after many.
    """
    account_id, session_id = principal.account_id, principal.session_id
    if account_id is None or session_id is None:
        raise SignInError("sign in first")
    _by_account.take(account_id)
    if not is_password(store.accounts.password_hash(account_id), password):
        raise SignInError("that is not the present password")
    _by_account.give_back(account_id)
    return account_id, session_id


def change_password(store: Store, principal: Principal, old: str, new: str) -> str:
    """Set a new password, end all other sessions, and give this one a new secret, which is returned for its cookie.

    SignInError for a wrong old password or without a session, ThrottledError after many, SignUpError for a bad new one.
    """
    account_id, session_id = confirm_password(store, principal, old)
    set_password(store, account_id, new, but=session_id)
    note(store, account_id, "change password", account_id)
    secret = store.sessions.rotate(account_id, session_id)
    if secret is None:
        raise SignInError("the session ended")
    return secret


def set_password(store: Store, account_id: str, new: str, *, but: str | None = None) -> None:
    """Set a password and end all sessions of the account `but` one. SignUpError for a bad one."""
    store.accounts.change(account_id, password=_hashed(new))
    store.sessions.end(account_id, but=but)


def make_account(
    store: Store, email: str, password: str, tier: str, *, is_admin: bool = False, actor: str | None = None
) -> Account:
    """A new account. SignUpError for what is no address or no good password, TakenError for a known address."""
    address = plain_email(email)
    if len(address) > MAX_EMAIL_CHARS or not _EMAIL.match(address):
        raise SignUpError("that is no e-mail address")
    account = store.accounts.create(address, _hashed(password), tier, is_admin=is_admin)
    note(store, actor or account.id, "make account", account.id)
    return account


def _hashed(password: str) -> str:
    try:
        return hash_password(password)
    except ValueError as error:
        raise SignUpError(str(error)) from error


def note(store: Store, actor: str, action: str, target: str, detail: str = "") -> None:
    """Write a line of the audit log."""
    store.audit.add(AuditLine(at=datetime.now(UTC), actor=actor, action=action, target=target, detail=detail))
