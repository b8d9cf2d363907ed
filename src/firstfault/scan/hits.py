"""A bounded collection of hits: whatever a log repeats, the first of its kind and the end of the story stay."""

from __future__ import annotations

from collections import Counter, deque

from firstfault.knowledge.schema import Signal
from firstfault.scan.result import Hit

FIRST_HITS = 20_000
FIRST_HITS_PER_SIGNAL = 2_000
LAST_HITS = 5_000
FIRST_TEXT = 16 << 20
LAST_TEXT = 4 << 20


class HitStore:
    """Keeps the first hits, a share for each signal, and the last ones; the first of a signal is never dropped.

    The share keeps one noisy signal from crowding out the others. `dropped` counts what is kept no longer.
    """

    def __init__(self) -> None:
        self._first: list[Hit] = []
        self._first_text = 0
        self._seen: Counter[str] = Counter()
        self._last: deque[Hit] = deque()
        self._last_text = 0
        self.dropped = 0

    def add(self, hit: Hit) -> None:
        """Take a hit; hits come in the order of the stream."""
        seen, size = self._seen[hit.signal.id], len(hit.text) + len(hit.tail)
        self._seen[hit.signal.id] = seen + 1
        room = seen < FIRST_HITS_PER_SIGNAL and len(self._first) < FIRST_HITS and self._first_text + size <= FIRST_TEXT
        if room or not seen:
            self._first.append(hit)
            self._first_text += size
            return
        self._last.append(hit)
        self._last_text += size
        while len(self._last) > LAST_HITS or self._last_text > LAST_TEXT:
            gone = self._last.popleft()
            self._last_text -= len(gone.text) + len(gone.tail)
            self.dropped += 1

    def saturated(self, signal: Signal) -> bool:
        """Whether only the last hits of this signal can still be kept."""
        return self._seen[signal.id] >= FIRST_HITS_PER_SIGNAL

    def sorted(self) -> tuple[Hit, ...]:
        """All hits kept, by offset, then by the place of the match in the line."""
        return tuple(sorted((*self._first, *self._last), key=lambda hit: (hit.offset, hit.start)))
