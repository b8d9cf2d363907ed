"""The bounded collection of hits."""

from __future__ import annotations

from firstfault.scan import hits as hits_module
from firstfault.scan.hits import HitStore
from firstfault.scan.result import Hit
from scan_signals import signal

NOISE, RARE = signal("noise", "noise: ", "noise: "), signal("rare", "rare: ", "rare: ")


def hit(offset: int, one=NOISE, text: str = "text") -> Hit:
    return Hit(signal=one, offset=offset, line=1, text=text)


def test_first_and_last_stay_and_the_rest_is_counted() -> None:
    store = HitStore()
    for offset in range(10_000):
        store.add(hit(offset))
    kept = [one.offset for one in store.sorted()]
    assert kept == [*range(hits_module.FIRST_HITS_PER_SIGNAL), *range(5000, 10_000)]
    assert store.dropped == 10_000 - len(kept)


def test_noise_does_not_crowd_out_a_rare_signal() -> None:
    store = HitStore()
    for offset in range(5000):
        store.add(hit(offset))
    store.add(hit(5000, RARE))
    store.add(hit(5001, RARE))
    for offset in range(6000, 16_000):
        store.add(hit(offset))
    assert [one.offset for one in store.sorted() if one.signal is RARE] == [5000, 5001]


def test_long_texts_are_bounded_by_their_size() -> None:
    store = HitStore()
    for offset in range(4000):
        store.add(hit(offset, text="x" * 8192))
    size = sum(len(one.text) for one in store.sorted())
    assert size <= hits_module.FIRST_TEXT + hits_module.LAST_TEXT
    assert store.sorted()[-1].offset == 3999


def test_the_first_of_a_signal_is_never_dropped() -> None:
    store = HitStore()
    for offset in range(3000):
        store.add(hit(offset, text="x" * 8192))
    store.add(hit(3000, RARE, "y" * 8192))
    for offset in range(4000, 9000):
        store.add(hit(offset, text="x" * 8192))
    assert RARE in [one.signal for one in store.sorted()]
