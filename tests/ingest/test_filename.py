from __future__ import annotations

import pytest

from firstfault.ingest.filename import places_of
from firstfault.model.event import Place


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("logs/rank_3.log", Place(rank=3)),
        ("logs/rank-12.log.gz", Place(rank=12)),
        ("rank3.out", Place(rank=3)),
        ("out/rank_2/stderr.log", Place(rank=2)),
        ("logs/none_ab12/attempt_1/3/stderr.log", Place(local_rank=3, attempt=1)),
        ("logs/none_ab12/attempt_0/0/error.json", Place(local_rank=0, attempt=0)),
        ("logs/node-2/none_ab12/attempt_0/1/stdout.log", Place(local_rank=1, attempt=0, host="node-2")),
        ("log_node-7_15.txt", Place(rank=15, host="node-7")),
        ("node-02-rank-8.log", Place(rank=8, host="node-02")),
        ("node-02-dmesg.txt", Place(host="node-02")),
        ("local_rank_2.log", Place(local_rank=2)),
        ("trainer-worker-2.log", Place()),
        ("slurm-90112.out", Place()),
        ("slurm-90112_3.out", Place()),
        ("train-0.log", Place()),
        ("accelerate_config.yaml", Place()),
        ("frank_3.log", Place()),
        ("logs\\rank_1.log", Place(rank=1)),
    ],
)
def test_what_one_path_says(path, place):
    assert places_of([path]) == (place,)


def test_a_bare_number_is_a_rank_only_in_a_set_that_starts_at_zero():
    assert [p.rank for p in places_of(["x/train-0.log", "x/train-1.log", "x/train-2.log"])] == [0, 1, 2]
    assert [p.rank for p in places_of(["x/train-1.log", "x/train-2.log"])] == [None, None]
    assert [p.rank for p in places_of(["x/train-0.log", "y/train-1.log"])] == [None, None]
    assert [p.rank for p in places_of(["slurm-7_0.out", "slurm-7_1.out"])] == [0, 1]
    assert [p.rank for p in places_of(["checkpoint-0.json", "checkpoint-1.json"])] == [None, None]


def test_pods_and_hosts_are_never_ranks():
    places = places_of(["worker-0.log", "worker-1.log", "node-0.log", "node-1.log"])
    assert [place.rank for place in places] == [None] * 4
    assert [place.host for place in places] == [None, None, "node-0", "node-1"]
