"""What each renaming of the attribution bench does to a case, and that the answers follow."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest

_BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    made = {}
    for name in ("perturbations", "renamings"):
        spec = importlib.util.spec_from_file_location(name, _BENCH / f"{name}.py")
        made[name] = importlib.util.module_from_spec(spec)
        sys.modules[name] = made[name]
        spec.loader.exec_module(made[name])
    yield made["renamings"]
    for name in made:
        del sys.modules[name]


def done(bench, name, logs, world=4, **others):
    case = sys.modules["perturbations"].CaseFiles({**logs, **others}, frozenset(logs))
    return bench.RENAMINGS[name](case, world, random.Random(1))


CONSOLE = """[rank3]: ValueError: bad
[default1]:[rank1]: RuntimeError: Connection closed by peer
  rank      : 3 (local_rank: 3)
  -- Process 2 terminated with the following error:
step 3 of 4, version 2.1
"""


def test_ranks_are_permuted_wherever_they_are_named(bench):
    found = done(bench, "ranks permuted", {"console.log": CONSOLE, "logs/attempt_0/3/stderr.log": "x\n"})
    new = found.ranks
    assert sorted(new) == sorted(new.values()) == [0, 1, 2, 3] and any(old != name for old, name in new.items())
    text = found.files.texts["console.log"]
    assert f"[rank{new[3]}]: ValueError" in text and f"[default{new[1]}]:[rank{new[1]}]:" in text
    assert f"rank      : {new[3]} (local_rank: {new[3]})" in text and f"Process {new[2]} terminated" in text
    assert "step 3 of 4, version 2.1" in text
    assert f"logs/attempt_0/{new[3]}/stderr.log" in found.files.texts


def test_ranks_of_several_nodes_keep_their_numbers(bench):
    assert done(bench, "ranks permuted", {"console.log": CONSOLE + "node-1 and node-2\n"}) is None
    assert done(bench, "ranks permuted", {"console.log": "[rank1]: Killing subprocess 17\n"}) is None


def test_hosts_get_other_names_everywhere(bench):
    found = done(bench, "hosts renamed", {"node-1.log": "on node-1\n", "node-2.log": "from node-1\n"})
    (first,) = [path for path in found.files.texts if "from" not in found.files.texts[path]]
    assert found.files.texts[first] == f"on {first.removesuffix('.log')}\n"
    assert not any("node-" in text for pair in found.files.texts.items() for text in pair)


def test_labels_zones_and_orders(bench):
    assert done(bench, "labelled otherwise", {"a.log": "[rank2]: x\n"}).files.texts["a.log"] == "[default2]:[rank2]: x\n"
    logs = {f"{name}.log": "2025-03-04 11:00:30 step\n" for name in "ab"}
    shifted = done(bench, "another time zone", logs).files.texts
    assert sum(text == logs[path] for path, text in shifted.items()) == 1
    assert sorted(done(bench, "files in another order", logs).files.texts) == ["a.log", "b.log"]
