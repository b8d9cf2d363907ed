"""What a person may take along, and how he goes: everything of him, and of the teams that nobody is left in."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from typing import IO

from firstfault.server.accounts.people import note
from firstfault.server.records import Owner
from firstfault.server.store.store import Store


def write_export(store: Store, owners: Sequence[Owner], file: IO[bytes]) -> int:
    """Everything that is kept of these owners as a zip, a folder an owner; how many files it has."""
    count = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for owner in owners:
            for name, content in store.retention.export(owner):
                made.writestr(f"{owner.kind}-{owner.id}/{name}", content)
                count += 1
    return count


def erase_history(store: Store, owner: Owner) -> int:
    """Delete all records of an owner, who stays, and whose tokens go on working; how many there were."""
    count = store.retention.erase(owner, tokens_too=False)
    note(store, owner.id, "erase history", owner.id, f"{count} records")
    return count


def erase_account(store: Store, account_id: str, *, actor: str | None = None) -> int:
    """Delete an account and everything of it; how many records there were.

    A team that nobody else is in goes with it. One that others are in stays: it is theirs, and another becomes its owner if
    this was the last. The audit log keeps the account's id, which is nobody's then.
    """
    count = 0
    for team, _ in store.teams.of_account(account_id):
        others = [member for member in store.teams.members(team.id) if member.account_id != account_id]
        if not others:
            count += store.retention.erase(Owner("team", team.id))
            store.teams.delete(team.id)
            continue
        if all(member.role != "owner" for member in others):
            store.teams.set_role(team.id, others[0].account_id, "owner")
        store.teams.remove(team.id, account_id)
    count += store.retention.erase(Owner("account", account_id))
    store.accounts.delete(account_id)
    note(store, actor or account_id, "erase account", account_id, f"{count} records")
    return count
