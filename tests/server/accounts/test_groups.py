"""Teams: owners decide, members see, all others are told that there is none."""

from __future__ import annotations

import pytest
from litestar.exceptions import NotAuthorizedException, NotFoundException, PermissionDeniedException
from msgspec.structs import replace

from firstfault.server.accounts import groups
from firstfault.server.records import Owner, Principal
from firstfault.server.store.accounts import LastOwnerError
from server.store.people import answer


@pytest.fixture
def people(join_in):
    return [join_in(name) for name in ("anne", "ben", "carl")]


def test_a_team_is_joined_by_invitation_and_shares_its_history(store, people, join_in) -> None:
    anne, ben, carl = people
    team = groups.create_team(store, anne, " pretraining ")
    secret = groups.invite(store, anne, team.id, "Ben@example.org")[1]
    with pytest.raises(NotFoundException):
        groups.join(store, carl, secret)
    assert groups.join(store, ben, secret) == team.id
    with pytest.raises(NotFoundException):
        groups.join(store, ben, secret)
    assert [one.email for one in groups.members(store, ben, team.id)] == ["anne@example.org", "ben@example.org"]
    made = replace(answer(), owner=Owner("team", team.id))
    store.diagnoses.add(made)
    assert store.diagnoses.get(made.id, join_in("ben")) == made
    assert store.diagnoses.get(made.id, join_in("carl")) is None
    groups.remove_member(store, anne, team.id, ben.account_id)
    assert store.diagnoses.get(made.id, join_in("ben")) is None


def test_members_do_not_decide_and_strangers_learn_nothing(store, people) -> None:
    anne, ben, carl = people
    team = groups.create_team(store, anne, "pretraining")
    groups.join(store, ben, groups.invite(store, anne, team.id)[1])
    asked = (
        lambda who: groups.invite(store, who, team.id),
        lambda who: groups.set_role(store, who, team.id, who.account_id, "owner"),
        lambda who: groups.remove_member(store, who, team.id, anne.account_id),
        lambda who: groups.delete_team(store, who, team.id),
    )
    for ask in asked:
        with pytest.raises(PermissionDeniedException):
            ask(ben)
        with pytest.raises(NotFoundException):
            ask(carl)
        with pytest.raises(PermissionDeniedException):
            ask(replace(anne, session_id=None, token_id="t"))
        with pytest.raises(NotAuthorizedException):
            ask(Principal(owner=Owner("anonymous", "x"), owners=(Owner("team", team.id),)))
    with pytest.raises(NotFoundException):
        groups.members(store, carl, team.id)


def test_roles_and_leaving(store, people) -> None:
    anne, ben, carl = people
    team = groups.create_team(store, anne, "pretraining")
    groups.join(store, ben, groups.invite(store, anne, team.id)[1])
    with pytest.raises(LastOwnerError):
        groups.remove_member(store, anne, team.id, anne.account_id)
    with pytest.raises(NotFoundException):
        groups.set_role(store, anne, team.id, carl.account_id, "owner")
    groups.set_role(store, anne, team.id, ben.account_id, "owner")
    groups.remove_member(store, anne, team.id, anne.account_id)
    store.diagnoses.add(replace(answer(), owner=Owner("team", team.id)))
    assert groups.delete_team(store, ben, team.id) == 2
    with pytest.raises(NotFoundException):
        groups.members(store, ben, team.id)
    with pytest.raises(ValueError):
        groups.create_team(store, ben, "  ")
