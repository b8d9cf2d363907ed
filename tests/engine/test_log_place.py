"""Where the log of a rank that was not handed over lies."""

from __future__ import annotations

import pytest

from engine.faults import Log, aligned, attributed
from firstfault.engine.log_place import place_of_log
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan


def with_option(log, key, value):
    report = log.report

    def changed():
        import msgspec

        setting = Setting(family="command", key=key, value=value, span=SourceSpan(log.path, 1, 0), text=f"{key}={value}")
        return msgspec.structs.replace(report(), settings=(setting,))

    log.report = changed
    return log


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("logs/run_x1/attempt_0/0/stderr.log", "logs/run_x1/attempt_0/3/stderr.log"),
        ("out/rank_0.log", "out/rank_3.log"),
        ("job-77_0.out", "job-77_3.out"),
        ("job-0_0.out", ""),
        ("train.log", ""),
    ],
)
def test_beside_the_log_of_another_rank(path, expected):
    assert place_of_log(3, aligned(4, Log(path, rank=0).fault("peer_lost"))) == expected


def test_where_the_launcher_was_told_to_put_it():
    slurm = with_option(Log("slurm.out").fault("peer_lost", rank=0), "--output", "logs/%j_%t.out")
    assert place_of_log(3, aligned(4, slurm)) == "logs/%j_3.out"
    folder = with_option(Log("console.log").fault("peer_lost", rank=0), "--log-dir", "logs/")
    assert place_of_log(3, aligned(4, folder)).startswith("logs/*/attempt_*/LOCAL_RANK/stderr.log")


def test_log_of_a_pod():
    pods = Log("pods.json", kind="kubernetes").fault("peer_lost", rank=0)
    assert place_of_log(3, aligned(4, pods)) == "kubectl logs POD --previous"


def test_absent_suspect_comes_with_its_place():
    logs = [Log(f"rank_{rank}.log", rank=rank).fault("peer_lost") for rank in range(3)]
    found = attributed(4, *logs)
    assert found.suspects == (3,)
    assert found.circumstances == ("What rank 3 printed was not handed over; look at rank_3.log.",)
