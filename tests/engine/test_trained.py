from __future__ import annotations

import pytest

from firstfault.engine.derive.trained import devices_trained
from firstfault.ingest.printed import read_printed
from reader_lines import context, lines

BEGINS = """\
  Instantaneous batch size per device = {each}
  Total train batch size (w. parallel, distributed & accumulation) = {total}
  Gradient Accumulation steps = {steps}
"""


def trained(text: str) -> int | None:
    found = devices_trained(read_printed(lines(text), context("run.log")))
    return None if found is None else found.devices


@pytest.mark.parametrize(
    ("each", "total", "steps", "devices"),
    [(8, "64", 2, 4), (8, "8", 1, 1), (4, "1,024", 1, 256), (8, "12", 1, None), (0, "8", 1, None)],
)
def test_devices_follow_from_the_batch(each: int, total: str, steps: int, devices: int | None) -> None:
    assert trained(BEGINS.format(each=each, total=total, steps=steps)) == devices


def test_runs_that_differ_and_missing_lines_say_nothing() -> None:
    assert trained(BEGINS.format(each=8, total=64, steps=2) + BEGINS.format(each=8, total=32, steps=2)) is None
    assert trained("  Total train batch size (w. parallel, distributed & accumulation) = 64\n") is None
