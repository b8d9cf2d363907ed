from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.prefix import join_places, parse_prefix, rank_key
from firstfault.model.event import Place


@pytest.mark.parametrize(
    ("line", "rank", "local", "rest"),
    [
        ('[rank3]:   File "x"', 3, None, '  File "x"'),
        ("[rank3]: Traceback (most recent call last):", 3, None, "Traceback (most recent call last):"),
        (
            "[rank3]:[E603 17:48:01.005538748 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank 3]  failure",
            3,
            None,
            "failure",
        ),
        ("[E ProcessGroupNCCL.cpp:1537] [Rank 7] Watchdog", 7, None, "Watchdog"),
        ("[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 7] Timeout", 7, None, "Timeout"),
        ("[rank5]:[E603 17:48:01.1 F.cpp:1] [PG ID 2 PG GUID 11(tp) Rank 1] x", 5, None, "x"),
        ("[rank2] INFO step 1", 2, None, "INFO step 1"),
        ('[default3]:  File "x"', None, 3, '  File "x"'),
        ("[trainer2]:Traceback", None, 2, "Traceback"),
        ("[default3]:[rank1]:   File", 1, 3, "  File"),
        ("(RANK 3) hello", 3, None, "hello"),
        ("[1,3]<stderr>:hello", 3, None, "hello"),
        ("[1,3]<stdout>:  hello", 3, None, " hello"),
        ("[prterun-node-1-812@1,3]<stderr>:hello", 3, None, "hello"),
        ("[1,3][node-2:812]<stderr>:hello", 3, None, "hello"),
        ("Tue Mar  4 10:22:41 2025[1,3]<stdout>:hello", 3, None, "hello"),
        ("(RayTrainWorker pid=41) [rank3]: hello", 3, None, "hello"),
        ("(RayTrainWorker pid=41, ip=10.0.0.3) [rank: 2] hello", 2, None, "hello"),
        ("[2024-01-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 4] step=1", 4, None, "step=1"),
        ("2025-03-19 09:50:04,010 - fit - INFO - [rank 2] step 760", 2, None, "step 760"),
        ("2025-03-19 09:50:04,010 - fit - INFO - rank=2 loading", 2, None, "loading"),
        ("2025-03-19 09:50:04,010 - fit - INFO - rank 2: loading", 2, None, "loading"),
        ("[2024-06-01 10:00:00] INFO     [olmo.eval:12, rank=3] loading", 3, None, "loading"),
        ("2024-06-01 10:00:00.123 | INFO     | trainer:fit:10 - [rank 1] x", 1, None, "x"),
        ("[test] rank 0: init done", 0, None, "init done"),
        ("rank 2 step 0 loss", 2, None, "step 0 loss"),
        ("[pod/trainer-worker-2/pytorch] [rank5]: Traceback", 5, None, "Traceback"),
    ],
)
def test_layouts_that_name_a_rank(line, rank, local, rest):
    found = parse_prefix(line)
    assert (found.place.rank, found.place.local_rank, found.rest) == (rank, local, rest)
    assert line[found.rest_start :] == found.rest
    assert rank_key(line.encode()) in (rank if rank is not None else local, None)


@pytest.mark.parametrize(
    "line",
    [
        "rank 1 failed to connect to the store",
        "[0]: first entry of a report",
        "[gpu2]: text behind a blank is not torchrun's",
        '  File "rank3.py", line 1',
        "[rank5]",
        "step 4 of rank 3",
        "[train/loss] 0.3",
    ],
)
def test_what_only_speaks_of_a_rank_names_no_writer(line):
    if line == "[rank5]":
        assert parse_prefix(line).place.rank == 5
    else:
        assert parse_prefix(line).place.rank is None


def test_a_rank_inside_another_group_is_not_the_global_one():
    assert parse_prefix("[E F.cpp:1] [PG 3 Rank 7] Timeout").place.rank is None


@pytest.mark.parametrize(
    ("line", "host", "pid", "rest"),
    [
        ("node-1:123:456 [3] NCCL INFO x", "node-1", 123, "NCCL INFO x"),
        ("[2025-01-01 10:00:00] node-1:123:456 [3] misc/x.cc:12 NCCL WARN x", "node-1", 123, "misc/x.cc:12 NCCL WARN x"),
        ("[pod/trainer-0/main] 2025-05-11T13:10:00.020Z   File", "trainer-0", None, "  File"),
        ("Jan 14 09:12:40 node-11 kernel: NVRM: x", "node-11", None, "NVRM: x"),
        ("2025-01-14T09:12:40+0000 node-11 kernel: x", "node-11", None, "x"),
        ("E1104 08:41:17.402000 21930 torch/distributed/elastic/multiprocessing/api.py:869] failed", None, 21930, "failed"),
        ("W0605 09:12:31.501000 139665687570304 torch/distributed/run.py:749] x", None, None, "x"),
        ("V1104 02:13:07.771000 21492 torch/_dynamo/guards.py:3100] [11/7] x", None, 21492, "x"),
        ("(RayTrainWorker pid=123, ip=10.0.0.1) Traceback", "10.0.0.1", 123, "Traceback"),
        ("(worker1 pid=123, ip=10.0.0.3)   File", "10.0.0.3", 123, "  File"),
        ("(RayTrainWorker pid=123) x", None, 123, "x"),
        ("(pid=123) x", None, 123, "x"),
    ],
)
def test_hosts_and_processes(line, host, pid, rest):
    found = parse_prefix(line)
    assert (found.place.host, found.place.pid, found.rest) == (host, pid, rest)
    assert found.place.rank is None  # a CUDA device and a pod's number are no ranks


def test_a_word_before_a_colon_is_no_host():
    assert parse_prefix("2024-01-01 12:00:00 INFO trainer: starting").place.host is None
    assert parse_prefix("[train/loss] 0.3").place.host is None


def test_times_are_kept_with_their_kind():
    assert parse_prefix("[ 7010.100000] NVRM: Xid").place.time.kind == "boot"
    assert parse_prefix("[Tue Jan 14 09:12:40 2025] NVRM: Xid").place.time.kind == "wall"
    assert parse_prefix("[rank3]:[E603 17:48:01.005538748 F.cpp:2268] x").place.time.kind == "yearless"


def test_the_line_wins_over_the_file_name():
    joined = join_places(Place(rank=1, host="node-1", attempt=2), Place(rank=3))
    assert joined == Place(rank=3, host="node-1", attempt=2)


def test_rank_keys_are_read_behind_other_prefixes():
    assert rank_key(b"[default1]:[rank5]: x") == 5
    assert rank_key(b"[default1]:2025-01-01 x") == 1
    assert rank_key(b"[pod/a-1/main] [rank2]: x") == 2
    assert rank_key(b"2025-01-01 00:00:00 - x - INFO - [rank 6] step 1") == 6
    assert rank_key(b"\x1b[31m[rank7]: red") == 7
    assert rank_key(b"plain step 4/40") is None
    assert rank_key(b"(RayTrainWorker pid=41, ip=10.0.0.3) [rank4]: x") == 4
    assert rank_key(b"(RayTrainWorker pid=41) step 4/40") is None
    assert rank_key(b"[1,3]<stdout>:step 4/40") == 3


@given(st.text(max_size=120))
def test_any_text_is_split_without_loss(text):
    found = parse_prefix(text)
    assert text.endswith(found.rest)
    rank_key(text.encode("utf-8", "surrogatepass"))


def test_a_hostile_line_costs_little():
    for line in ("[" * 200_000, "1" * 200_000, "[PG 0 " + "x " * 100_000, " " * 200_000, "a." * 100_000, "[rank1]:" * 50_000):
        parse_prefix(line)
        rank_key(line.encode())


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 30])
def test_absurd_numbers_name_nobody(digits):
    for line in (
        f"E1104 08:41:17.402000 {digits} torch/elastic/api.py:869] x",
        f"[PG 0 Rank {digits}] x",
        f"[rank{digits}]: x",
    ):
        place = parse_prefix(line).place
        assert (place.rank, place.pid) == (None, None)
