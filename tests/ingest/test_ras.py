"""Answers of NCCL's RAS service: text as src/ras/client_support.cc of NCCL 2.24 to 2.30 writes it, and JSON."""

from __future__ import annotations

from pathlib import Path

from firstfault.ingest.ras import read_ras
from firstfault.model.ras import RasQuery
from reader_lines import context, lines

RAS = Path(__file__).parents[1] / "data" / "hangs" / "ras"


def _of(text: str) -> tuple[RasQuery, ...]:
    return read_ras(lines(text), context())


def test_an_outlier_and_those_that_are_not_named() -> None:
    (query,) = _of((RAS / "ras-1.txt").read_text(encoding="utf-8"))
    (comm,) = query.comms
    high, low = comm.levels["AllReduce"]
    assert (comm.comm, comm.size) == ("78db921d1c117b4a", 8)
    assert (high.count, high.size, high.ranks) == (64, 7, ())
    assert (low.count, low.size, low.ranks[0].rank, low.ranks[0].pid) == (60, 1, 5, 1650386)


def test_several_outliers_are_listed_below_their_level() -> None:
    text = (RAS / "ras-1.txt").read_text(encoding="utf-8").partition("  7 ranks")[0]
    (query,) = _of(
        text + "  6 ranks have launched up to operation 64\n  2 ranks have not launched any operations\n"
        "  Rank 5 -- GPU 1 (NVML 3) managed by process 12 on node 10.0.0.2\n  Rank 6 -- [process information not found]\n"
    )
    low = query.comms[0].levels["AllReduce"][1]
    assert (low.count, [(rank.rank, rank.pid) for rank in low.ranks]) == (0, [(5, 12), (6, None)])


def test_dead_processes_and_missing_ranks() -> None:
    text = (RAS / "ras-1.txt").read_text(encoding="utf-8").partition("Errors\n======")[0]
    (query,) = _of(
        text + "Errors\n======\n\nDEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
        "  Process 3487 on node 10.0.0.2 managing GPU 5\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n"
        "  Missing communicator data from 1 rank\n  The missing rank:\n"
        "  Rank 21 -- GPU 5 managed by process 3487 on node 10.0.0.2\n"
    )
    assert query.dead == (("10.0.0.2", 3487),)
    assert query.comms[0].missing[0].rank == 21


def test_json() -> None:
    (query,) = _of((RAS / "ras.json").read_text(encoding="utf-8"))
    low, high = query.comms[0].levels["AllReduce"]
    assert (low.count, low.ranks[0].rank, high.count, high.size) == (88, 2, 91, 2)
    assert "Broadcast" not in query.comms[0].levels
    assert query.dead == (("10.0.0.2", 22),)


def test_broken_json_is_passed_over() -> None:
    assert _of('{\n  "nccl_version": "2.28.9",\n  "communicators": [\n') == ()
    assert (
        _of('{\n  "nccl_version": "2.28.9",\n  "communicators": [3, {"ranks": [{"rank": "x"}]}]\n}\n')[0].comms[0].levels == {}
    )
