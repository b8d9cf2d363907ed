"""Allowances, idempotency keys and the console's own keys hold when several ask at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from threading import Barrier

import pytest

from firstfault.server.store.allowances import AllowanceSpentError
from firstfault.server.store.store import Store
from server.store.people import ANNE, BEN

DAY = date(2026, 3, 1)
ASKING = 8


def at_once(ask: Callable[[int], object]) -> list[object]:
    gate = Barrier(ASKING)

    def wait_and_ask(number: int) -> object:
        gate.wait(10)
        return ask(number)

    with ThreadPoolExecutor(ASKING) as pool:
        return list(pool.map(wait_and_ask, range(ASKING)))


def test_the_last_of_an_allowance_is_given_once(store: Store) -> None:
    def take(_: int) -> bool:
        try:
            store.allowances.take("anne", DAY, 3)
        except AllowanceSpentError:
            return False
        return True

    assert sorted(at_once(take)) == [False] * (ASKING - 3) + [True] * 3
    assert store.allowances.left("anne", DAY, 3) == 0
    assert store.allowances.left("anne", date(2026, 3, 2), 3) == 3


def test_who_drops_one_of_two_keys_gets_no_more(store: Store) -> None:
    assert store.allowances.take(["cookie-1", "address-1"], DAY, 2) == 1
    assert store.allowances.take(["cookie-2", "address-1"], DAY, 2) == 0
    with pytest.raises(AllowanceSpentError):
        store.allowances.take(["cookie-3", "address-1"], DAY, 2)
    assert store.allowances.left("cookie-3", DAY, 2) == 2
    assert store.allowances.take("anne", DAY, None) is None


def test_one_of_those_who_use_a_key_at_once_gets_it(store: Store) -> None:
    won = at_once(lambda number: store.submissions.remember(ANNE.owner, "key", "digest", f"d{number}"))
    assert won.count(True) == 1
    assert store.submissions.find(ANNE.owner, "key") == ("digest", f"d{won.index(True)}")
    assert store.submissions.find(BEN.owner, "key") is None
    store.submissions.forget(ANNE.owner, "key")
    assert store.submissions.find(ANNE.owner, "key") is None


def test_all_get_the_same_key_of_the_console(store: Store) -> None:
    keys = at_once(lambda _: store.keys.get("address"))
    assert len(set(keys)) == 1 and len(keys[0]) == 32
    assert store.keys.get("other") != keys[0]
