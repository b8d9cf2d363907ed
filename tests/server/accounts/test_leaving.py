"""Who goes takes along what is his, and leaves nothing but what belongs to others."""

from __future__ import annotations

import io
import zipfile

from msgspec.structs import replace

from firstfault.server.accounts import groups
from firstfault.server.accounts.leaving import erase_account, erase_history, write_export
from firstfault.server.records import Owner
from server.store.people import answer


def test_a_zip_of_all_owners(store, join_in) -> None:
    anne = join_in("anne")
    team = groups.create_team(store, anne, "pretraining")
    anne = join_in("anne")
    for owner in anne.owners:
        store.diagnoses.add(replace(answer(), owner=owner))
    file = io.BytesIO()
    count = write_export(store, anne.owners, file)
    with zipfile.ZipFile(file) as opened:
        names = opened.namelist()
    assert len(names) == count == len(set(names))
    assert {name.partition("/")[0] for name in names} == {f"account-{anne.account_id}", f"team-{team.id}"}


def test_a_history_goes_and_its_owner_stays(store, join_in) -> None:
    anne = join_in("anne")
    store.diagnoses.add(replace(answer(), owner=anne.owner))
    assert erase_history(store, anne.owner) == 2
    assert store.diagnoses.list(anne)[0] == [] and store.accounts.get(anne.account_id) is not None


def test_an_account_goes_with_the_teams_that_nobody_else_is_in(store, join_in) -> None:
    anne, ben = join_in("anne"), join_in("ben")
    alone, shared = (groups.create_team(store, anne, name) for name in ("alone", "shared"))
    groups.join(store, ben, groups.invite(store, anne, shared.id)[1])
    for owner in (anne.owner, Owner("team", alone.id), Owner("team", shared.id), ben.owner):
        store.diagnoses.add(replace(answer(), owner=owner))
    assert erase_account(store, anne.account_id) == 4
    assert store.accounts.get(anne.account_id) is None and store.sessions.list(anne.account_id) == []
    ben = join_in("ben")
    assert store.teams.of_account(ben.account_id) == [(shared, "owner")]
    assert {one.owner for one in store.diagnoses.list(ben)[0]} == {ben.owner, Owner("team", shared.id)}
    assert store.diagnoses.list(replace(anne, owners=(anne.owner, Owner("team", alone.id))))[0] == []
