"""A bucket for each key that fills up again."""

from __future__ import annotations

import pytest

from firstfault.server.accounts import throttle as module
from firstfault.server.accounts.throttle import Throttle, ThrottledError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_and_then_a_rate_for_each_key() -> None:
    clock = Clock()
    throttle = Throttle(per_minute=6, burst=3, clock=clock)
    for _ in range(3):
        throttle.take("a")
    with pytest.raises(ThrottledError) as refused:
        throttle.take("a")
    assert refused.value.retry_after_s == pytest.approx(10)
    throttle.take("b")
    clock.now = 10.5
    throttle.take("a")
    with pytest.raises(ThrottledError):
        throttle.take("a")
    clock.now = 10_000
    for _ in range(3):
        throttle.take("a")
    with pytest.raises(ThrottledError):
        throttle.take("a")


def test_what_was_right_is_given_back_and_looking_costs_nothing() -> None:
    throttle = Throttle(per_minute=1, burst=1, clock=Clock())
    for _ in range(5):
        throttle.check("a")
        throttle.take("a")
        throttle.give_back("a")
    throttle.give_back("a")
    throttle.take("a")
    with pytest.raises(ThrottledError):
        throttle.check("a")
    throttle.give_back("never seen")


def test_memory_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_KEYS", 3)
    throttle = Throttle(per_minute=1, burst=1, clock=Clock())
    for key in "abcd":
        throttle.take(key)
    throttle.take("a")
    with pytest.raises(ThrottledError):
        throttle.take("d")
