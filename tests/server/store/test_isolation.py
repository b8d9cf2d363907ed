"""Whatever people do in whatever order: nobody sees, changes or deletes what is not his."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firstfault.server.records import Owner, Principal, StoredDiagnosis
from firstfault.server.store.schema import metadata
from firstfault.server.store.store import Store, open_store
from server.store.people import answer

# The same id as an account, as a team and as a guest: three owners that have nothing to do with each other.
OWNERS = [Owner(kind, name) for kind in ("account", "team", "anonymous") for name in ("1", "2")]
PEOPLE = [
    Principal(owner=owner, owners=(owner, Owner("team", "2")) if owner == Owner("account", "1") else (owner,))
    for owner in OWNERS
]
ACTIONS = ("add", "get", "list", "delete", "share", "unshare", "failures", "state", "chain", "delete all", "export", "erase")
STEPS = st.lists(
    st.tuples(st.sampled_from(PEOPLE), st.sampled_from(ACTIONS), st.integers(0, 9), st.sampled_from(["f1", "f2"])),
    min_size=5,
    max_size=40,
)


class World:
    """What the store should hold, and a step done to both."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.kept: dict[str, StoredDiagnosis] = {}
        self.made: list[str] = []

    def step(self, who: Principal, action: str, number: int, fingerprint: str) -> None:
        store = self.store
        wanted = self.made[number % len(self.made)] if self.made else "none"
        target = self.kept.get(wanted)
        mine = target is not None and target.owner in who.owners
        if action == "add":
            follows = wanted if number % 2 else None
            one = replace(answer(minutes=len(self.made)), owner=who.owner, fingerprint=fingerprint, follows=follows)
            store.diagnoses.add(one)
            self.kept[one.id] = one
            self.made.append(one.id)
        elif action == "get":
            shared = target is not None and target.visibility == "link"
            assert store.diagnoses.get(wanted, who) == (target if mine or shared else None)
        elif action == "list":
            found, _ = store.diagnoses.list(who, fingerprint=fingerprint if number % 2 else None)
            due = [one.id for one in self.of(who) if number % 2 == 0 or one.fingerprint == fingerprint]
            assert [one.id for one in found] == due
        elif action == "delete":
            assert store.diagnoses.delete(wanted, who) == mine
            if mine:
                del self.kept[wanted]
        elif action in ("share", "unshare"):
            visibility = "link" if action == "share" else "owner"
            assert store.diagnoses.set_visibility(wanted, who, visibility) == mine
            if target is not None and mine:
                self.kept[wanted] = replace(target, visibility=visibility)
        elif action == "chain":
            for one in store.diagnoses.chain(wanted, who):
                assert one.owner in who.owners or one.visibility == "link"
        else:
            self.step_over_all(who, action, fingerprint)

    def step_over_all(self, who: Principal, action: str, fingerprint: str) -> None:
        store = self.store
        own = [one for one in self.kept.values() if one.owner == who.owner]
        if action == "failures":
            due = {(one.owner, one.fingerprint) for one in self.of(who)}
            assert {(one.owner, one.fingerprint) for one in store.failures.list(who)[0]} == due
        elif action == "state":
            has = any(one.fingerprint == fingerprint for one in own)
            assert store.failures.set_state(who.owner, fingerprint, "fixed") == has
            assert (store.failures.get(who.owner, fingerprint) is not None) == has
        elif action == "export":
            names = {name for name, _ in store.retention.export(who.owner) if name.startswith("diagnoses/")}
            assert names == {f"diagnoses/{one.id}.{kind}.json" for one in own for kind in ("diagnosis", "capsule")}
        else:
            if action == "delete all":
                assert store.diagnoses.delete_all(who.owner) == len(own)
            else:
                assert store.retention.erase(who.owner) >= len(own)
            for one in own:
                del self.kept[one.id]

    def of(self, who: Principal) -> list[StoredDiagnosis]:
        found = [one for one in self.kept.values() if one.owner in who.owners]
        return sorted(found, key=lambda one: one.created_at, reverse=True)


@contextmanager
def emptied(store: Store) -> Iterator[Store]:
    yield store
    with store.access.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared(request: pytest.FixtureRequest) -> Iterator[Store]:
    """One store for all the examples, emptied after each."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'console.db'}"
        if request.param == "postgresql":
            url = request.getfixturevalue("postgresql") + "/postgres"
        opened = open_store(url)
        yield opened
        opened.close()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_nobody_sees_or_changes_what_is_not_his(shared: Store, steps: list[tuple[Principal, str, int, str]]) -> None:
    with emptied(shared) as store:
        world = World(store)
        for who, action, number, fingerprint in steps:
            world.step(who, action, number, fingerprint)
        for who in PEOPLE:
            assert [one.id for one in store.diagnoses.list(who)[0]] == [one.id for one in world.of(who)]
