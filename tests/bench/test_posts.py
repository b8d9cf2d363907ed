from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

_BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(_BENCH))
    try:
        yield importlib.import_module("posts")
    finally:
        sys.path.remove(str(_BENCH))
        for name in ("posts", "post_words"):
            sys.modules.pop(name, None)


def test_quotations_never_establish(bench):
    for post in bench.posts(100, seed=7):
        assert not bench.is_wrong(post, bench.diagnose(post.text, post.name)), post.text


def test_a_seed_gives_one_set_of_posts(bench):
    one, other = list(bench.posts(5, seed=3)), list(bench.posts(5, seed=3))
    assert one == other
    assert one != list(bench.posts(5, seed=4))


def test_an_answer_that_rests_on_a_quotation_is_wrong(bench):
    log = "step 1 loss 2.1\nstep 2 loss 2.2\n" + "\n".join(
        ("Traceback (most recent call last):", '  File "/home/user/t.py", line 9, in step', "    run(batch)")
    )
    text = f"{log}\nRuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float\n"
    diagnosis = bench.diagnose(text, "run.log")
    assert diagnosis.verdict == "established"
    assert not bench.is_wrong(bench.Post(text, "run.log", printed=[(0, len(text))]), diagnosis)
    assert bench.is_wrong(bench.Post(text, "run.log"), diagnosis)
