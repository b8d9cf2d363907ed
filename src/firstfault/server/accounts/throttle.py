"""How often somebody may try: a bucket that fills up again, in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic

MAX_KEYS = 50_000


class ThrottledError(Exception):
    """Too many in a short time; `retry_after_s` seconds from now one more is allowed."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"too many requests: try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


class Throttle:
    """Allows `burst` at once for a key, then `per_minute`. Keys not heard of for longest are forgotten first."""

    def __init__(self, per_minute: float, burst: int, clock: Callable[[], float] = monotonic) -> None:
        self._rate = per_minute / 60
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def take(self, key: str, count: int = 1) -> None:
        """Take `count` for the key; ThrottledError if it has none left."""
        with self._lock:
            now = self._clock()
            level, at = self._levels.pop(key, (float(self._burst), now))
            level = min(float(self._burst), level + (now - at) * self._rate)
            allowed = level >= count
            self._levels[key] = (level - count if allowed else level, now)
            while len(self._levels) > MAX_KEYS:
                self._levels.popitem(last=False)
        if not allowed:
            raise ThrottledError(max((count - level) / self._rate, 1.0))

    def give_back(self, key: str) -> None:
        """Undo a `take`: what was tried was right."""
        with self._lock:
            if key in self._levels:
                level, at = self._levels[key]
                self._levels[key] = (min(float(self._burst), level + 1), at)

    def check(self, key: str) -> None:
        """ThrottledError if nothing is left for the key; nothing is taken."""
        self.take(key, 0 if self._level(key) >= 1 else 1)

    def _level(self, key: str) -> float:
        with self._lock:
            level, at = self._levels.get(key, (float(self._burst), self._clock()))
            return min(float(self._burst), level + (self._clock() - at) * self._rate)
