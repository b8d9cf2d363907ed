"""Answers are kept whole, listed by owner, and seen by nobody else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from firstfault.errors import UsageError
from firstfault.server.records import Owner, Principal
from firstfault.server.store.store import Store
from server.store.people import ANNE, BEN, answer, person


def test_an_answer_comes_back_as_it_was(store: Store) -> None:
    made = answer(follows="earlier", project="llm")
    store.diagnoses.add(made)
    assert store.diagnoses.get(made.id, ANNE) == made


def test_nobody_else_sees_it_lists_it_or_changes_it(store: Store) -> None:
    made = answer()
    store.diagnoses.add(made)
    assert store.diagnoses.get(made.id, BEN) is None
    assert store.diagnoses.list(BEN)[0] == []
    assert store.failures.list(BEN)[0] == []
    assert not store.diagnoses.delete(made.id, BEN)
    assert not store.diagnoses.set_visibility(made.id, BEN, "link")
    assert not store.failures.set_state(BEN.owner, made.fingerprint, "fixed")
    assert store.diagnoses.delete_all(BEN.owner) == 0
    nobody = Principal(owner=Owner("anonymous", "x"), owners=())
    assert store.diagnoses.list(nobody)[0] == []
    assert store.diagnoses.get(made.id, ANNE) == made


def test_who_has_the_link_sees_it_but_does_not_list_it(store: Store) -> None:
    made = answer()
    store.diagnoses.add(made)
    assert store.diagnoses.set_visibility(made.id, ANNE, "link")
    assert store.diagnoses.get(made.id, BEN) == replace(made, visibility="link")
    assert store.diagnoses.list(BEN)[0] == []
    assert not store.diagnoses.delete(made.id, BEN)


def test_a_team_shares_its_history(store: Store) -> None:
    team = Owner("team", "t1")
    made = replace(answer(), owner=team)
    store.diagnoses.add(made)
    assert store.diagnoses.get(made.id, person("ben", "t1")) == made
    assert store.diagnoses.get(made.id, ANNE) is None


def test_lists_are_filtered_and_go_on(store: Store) -> None:
    for number in range(7):
        store.diagnoses.add(answer(minutes=number, entry="nan-loss" if number % 2 else "cuda-oom", fingerprint=f"f{number}"))
    first, page = store.diagnoses.list(ANNE, limit=4)
    rest, end = store.diagnoses.list(ANNE, limit=4, after=page.after)
    assert [one.fingerprint for one in (*first, *rest)] == [f"f{number}" for number in reversed(range(7))]
    assert end.after is None and first[0].diagnosis == b""
    assert {one.entry for one in store.diagnoses.list(ANNE, entry="nan-loss")[0]} == {"nan-loss"}
    store.failures.set_state(ANNE.owner, "f3", "fixed")
    assert [one.fingerprint for one in store.diagnoses.list(ANNE, state="fixed")[0]] == ["f3"]
    with pytest.raises(UsageError):
        store.diagnoses.list(ANNE, after="nonsense")


def test_the_answers_that_one_continues(store: Store) -> None:
    first = answer()
    second = answer(follows=first.id, minutes=1)
    third = answer(follows=second.id, minutes=2)
    for one in (first, second, third):
        store.diagnoses.add(one)
    assert [one.id for one in store.diagnoses.chain(third.id, ANNE)] == [first.id, second.id]
    assert store.diagnoses.chain(third.id, BEN) == []


def test_deleting(store: Store) -> None:
    first, second = answer(), answer(minutes=1)
    store.diagnoses.add(first)
    store.diagnoses.add(second)
    assert store.diagnoses.delete(second.id, ANNE)
    failure = store.failures.get(ANNE.owner, "f1")
    assert failure is not None and (failure.count, failure.last_id) == (1, first.id)
    assert store.diagnoses.delete_all(ANNE.owner) == 1
    assert store.failures.get(ANNE.owner, "f1") is None


def test_a_healthy_run_is_no_failure(store: Store) -> None:
    store.diagnoses.add(answer(fingerprint="none", verdict="no_failure"))
    assert store.failures.list(ANNE)[0] == []
