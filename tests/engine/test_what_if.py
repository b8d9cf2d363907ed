from __future__ import annotations

import pytest

from engine.runs import Stated, entry, pack_of, spec, told
from firstfault.engine.what_if import decides_alone

PACK = pack_of(entry("oom", ["a"]))


@pytest.mark.parametrize(
    ("condition", "decides"),
    [
        ('oom.phase == "load"', True),
        ('not oom.phase == "load"', True),
        ("oom.total_bytes > 5", True),
        ("oom.free_bytes > 0.1 * oom.total_bytes", False),
        ('oom.phase == "load" and oom.free_bytes > 1', True),
    ],
)
def test_fact_decides_alone_if_one_of_its_values_settles_the_condition(condition, decides):
    asked = "oom.total_bytes" if "total" in condition else "oom.phase"
    fact = spec(asked, "int") if "bytes" in asked else spec(asked, "enum", values=("load", "forward"))
    assert decides_alone(condition, fact, Stated(PACK)) is decides


def test_what_is_known_counts():
    fact = spec("oom.total_bytes", "int")
    assert decides_alone("oom.free_bytes > 0.1 * oom.total_bytes", fact, Stated(PACK, told("oom.free_bytes", 3)))
