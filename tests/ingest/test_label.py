from __future__ import annotations

import pytest

from firstfault.ingest.label import find_label, rank_reader
from firstfault.ingest.line_template import line_template
from firstfault.ingest.prefix import parse_prefix


def _labelled(texts):
    return [f"{index % 2}: {text}" for index, text in enumerate(texts)]


def test_srun_labels_count_only_if_nearly_every_line_has_one():
    lines = _labelled(["epoch 1", "epoch 2", "x", "y", "z"])
    assert find_label(lines) == "task"
    assert parse_prefix("1: [INFO] x", label="task").place.rank == 1
    assert find_label([*lines, "a", "b"]) == "none"
    assert parse_prefix("1: x").place.rank is None


def test_rank_keys_of_labelled_sources():
    key = rank_reader("task")
    assert [key(line) for line in (b"3: step 1", b" 2: [rank5]: x", b"[rank1]: x", b"x")] == [3, 5, 1, None]
    assert rank_reader("none")(b"3: step 1") is None


def test_a_label_is_a_node_if_launchers_or_other_ranks_stand_behind_it():
    assert find_label(_labelled(["[rank0]: a", "[rank4]: b", "[rank1]: c", "[rank5]: d"])) == "node"
    assert find_label(_labelled(["W1 torch/distributed/run.py:1] x", "a", "b", "c"])) == "node"
    assert parse_prefix("1: [rank5]: x", label="node").place.rank == 5
    assert parse_prefix("1: x", label="node").place.rank is None


def test_hosts_before_every_line():
    lines = [f"node-{index % 2}: text {index}" for index in range(20)]
    assert find_label(lines) == "host"
    assert parse_prefix(lines[1], label="host").place.host == "node-1"
    assert find_label(["error: x", "note: y", "error: z", "warn: a"]) == "none"


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (("node-1", "node-2"), "host"),
        (("n1.cluster.example", "n2.cluster.example"), "host"),
        (("gpu-alpha", "gpu-beta"), "host"),
        (("gpu7",), "host"),
        (("gpu-alpha",), "none"),
        (("loader", "trainer"), "none"),
        (("rank0", "rank1"), "none"),
        (("epoch1", "epoch2"), "none"),
    ],
)
def test_a_host_is_called_like_one(names, label):
    lines = [f"{names[index % len(names)]}: text" for index in range(20)]
    assert find_label(lines) == label
    assert find_label([*lines, *["text"] * 6]) == "none"


def test_an_empty_line_of_a_host_is_its_line():
    lines = [f"node-{index % 2}: text" for index in range(10)]
    assert find_label([*lines, "node-1:", "node-0:", "node-1:"]) == "host"
    found = parse_prefix("node-1:", label="host")
    assert (found.place.host, found.rest) == ("node-1", "")


def test_rank_keys_behind_a_host():
    key = rank_reader("host")
    assert [key(line) for line in (b"node-1: [rank3]: x", b"node-1: text", b"[rank1]: x")] == [3, None, 1]


def test_a_template_counts_where_lines_carry_it():
    template = line_template("<g${rank}|l${local_rank}> ")
    lines = ["<g4|l0> a", "<g5|l1> b", "launcher speaks", "launcher speaks", "x"]
    assert find_label(lines, template) is template
    assert find_label(["a", "b", "c"], template) == "none"
    found = parse_prefix("<g5|l1>   File", label=template)
    assert (found.place.rank, found.place.local_rank, found.rest, found.rest_start) == (5, 1, "  File", 8)
    assert parse_prefix("<g5|l1> [rank7]: x", label=template).place.rank == 7
    assert [rank_reader(template)(line) for line in (b"<g5|l1> x", b"[rank2]: x", b"x")] == [5, 2, None]
