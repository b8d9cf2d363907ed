"""What is too old goes by itself, also after a failure."""

from __future__ import annotations

from threading import Event

from firstfault.server.keeper import Keeper
from firstfault.server.settings import Settings


class Away:
    """A store that fails at first, and tells when it was asked for the second time."""

    def __init__(self) -> None:
        self.retention = self
        self.asked = 0
        self.again = Event()

    def expire(self, settings: Settings) -> dict[str, int]:
        self.asked += 1
        if self.asked == 1:
            raise ConnectionError("away")
        self.again.set()
        return {}


def test_a_database_that_was_away_does_not_end_it() -> None:
    store = Away()
    keeper = Keeper(store, Settings(), every_s=0.01)  # type: ignore[arg-type]
    assert store.again.wait(10)
    keeper.close()
    asked = store.asked
    assert not keeper._thread.is_alive() and store.asked == asked
