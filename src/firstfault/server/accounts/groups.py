"""What members of a team may do with it. Whoever is not in a team is told that there is none."""

from __future__ import annotations

from datetime import timedelta

from litestar.exceptions import NotFoundException, PermissionDeniedException

from firstfault.server.accounts.people import INVITATION_LASTS, note
from firstfault.server.accounts.principal import requires_account, requires_session
from firstfault.server.records import Invitation, Membership, Owner, Principal, Role, Team
from firstfault.server.store.accounts import plain_email
from firstfault.server.store.store import Store


def create_team(store: Store, principal: Principal, name: str) -> Team:
    """A new team, owned by who asks. ValueError for an empty name."""
    account_id = requires_session(principal)
    if not name.strip():
        raise ValueError("a team has a name")
    made = store.teams.create(name.strip(), account_id)
    note(store, account_id, "make team", made.id)
    return made


def members(store: Store, principal: Principal, team_id: str) -> list[Membership]:
    """Who is in a team that one is in oneself."""
    _role(store, requires_account(principal), team_id)
    return list(store.teams.members(team_id))


def invite(
    store: Store, principal: Principal, team_id: str, email: str | None = None, lasts: timedelta = INVITATION_LASTS
) -> tuple[Invitation, str]:
    """An invitation into a team, and the secret for its link; only owners invite. With an address it is for that account."""
    account_id = _owner_of(store, principal, team_id)
    made = store.invitations.create(lasts, email=plain_email(email) if email else None, team_id=team_id, invited_by=account_id)
    note(store, account_id, "invite", made[0].id, team_id)
    return made


def join(store: Store, principal: Principal, secret: str) -> str:
    """Take up an invitation with the account that one has; the team's id. NotFoundException if it does not work (any more)."""
    account_id = requires_session(principal)
    found = store.invitations.find(secret)
    account = store.accounts.get(account_id)
    mine = found is not None and account is not None and found.email in (None, account.email)
    if found is None or found.team_id is None or not mine or not store.invitations.use(found.id):
        raise NotFoundException("the invitation was used already, is too old, or is for another address")
    store.teams.add(found.team_id, account_id)
    note(store, account_id, "join team", found.team_id)
    return found.team_id


def set_role(store: Store, principal: Principal, team_id: str, account_id: str, role: Role) -> None:
    """Make a member an owner, or the other way round; only owners do. LastOwnerError for the last one."""
    actor = _owner_of(store, principal, team_id)
    if not store.teams.set_role(team_id, account_id, role):
        raise NotFoundException("there is no such member")
    note(store, actor, f"make {role}", account_id, team_id)


def remove_member(store: Store, principal: Principal, team_id: str, account_id: str) -> None:
    """Take somebody out of a team, or leave it: owners remove others, everybody himself. LastOwnerError for the last one."""
    actor = requires_session(principal)
    if _role(store, actor, team_id) != "owner" and actor != account_id:
        raise PermissionDeniedException("only an owner of the team may do that")
    if not store.teams.remove(team_id, account_id):
        raise NotFoundException("there is no such member")
    note(store, actor, "leave team" if actor == account_id else "remove member", account_id, team_id)


def delete_team(store: Store, principal: Principal, team_id: str) -> int:
    """Delete a team with its history; only owners do. How many records there were."""
    actor = _owner_of(store, principal, team_id)
    count = store.retention.erase(Owner("team", team_id))
    store.teams.delete(team_id)
    note(store, actor, "delete team", team_id, f"{count} records")
    return count


def _owner_of(store: Store, principal: Principal, team_id: str) -> str:
    account_id = requires_session(principal)
    if _role(store, account_id, team_id) != "owner":
        raise PermissionDeniedException("only an owner of the team may do that")
    return account_id


def _role(store: Store, account_id: str, team_id: str) -> Role:
    found = next((role for team, role in store.teams.of_account(account_id) if team.id == team_id), None)
    if found is None:
        raise NotFoundException("you are in no such team")
    return found
