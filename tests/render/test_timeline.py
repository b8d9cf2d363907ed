from __future__ import annotations

import pytest

from diagnosis_samples import established, no_failure, symmetric, thousand_ranks
from firstfault.model.diagnosis import Certainty, Diagnosis, Initiating, TimelineEntry
from firstfault.render.timeline import MAX_LANES, build, short


def _diagnosis(*marks: TimelineEntry) -> Diagnosis:
    return Diagnosis(verdict="likely", timeline=marks)


def test_few_ranks_have_a_lane_each_in_rank_order() -> None:
    lanes = build(established()).lanes
    assert [lane.label for lane in lanes] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert [lane.first for lane in lanes] == [False, False, True, False]
    assert [lane.ended_by for lane in lanes] == ["SIGTERM", "SIGTERM", "OutOfMemoryError", "SIGTERM"]


def test_the_failure_stands_left_of_what_followed() -> None:
    lanes = build(established()).lanes
    fault = next(mark.at for mark in lanes[2].marks if mark.kind == "initiating")
    assert all(mark.at > fault for lane in lanes for mark in lane.marks if mark.kind in ("collateral", "stopped"))
    assert [tick.text for tick in build(established()).ticks] == ["10:39:00", "10:41:07", "+4.9 s"]


def test_the_first_failure_and_the_stop_name_an_ending_before_what_followed() -> None:
    timeline = build(
        _diagnosis(
            TimelineEntry(rank=0, kind="initiating", text="ValueError: x"),
            TimelineEntry(rank=0, kind="collateral", text="a report"),
            TimelineEntry(rank=1, kind="stopped", text="SIGTERM"),
            TimelineEntry(rank=1, kind="collateral", text="a report"),
        )
    )
    assert [lane.ended_by for lane in timeline.lanes] == ["ValueError", "SIGTERM"]


@pytest.mark.parametrize(
    ("certainty", "first", "words"),
    [
        ("established", True, "failed first"),
        ("likely", True, "probably failed first"),
        ("undetermined", False, "first failure seen"),
    ],
)
def test_nobody_is_pointed_at_who_is_not_known_to_be_first(certainty: Certainty, first: bool, words: str) -> None:
    diagnosis = Diagnosis(
        verdict="likely",
        initiating=Initiating(rank=1, certainty=certainty),
        timeline=(TimelineEntry(rank=1, kind="initiating", text="x"), TimelineEntry(rank=0, kind="initiating", text="y")),
    )
    timeline = build(diagnosis)
    assert [lane.first for lane in timeline.lanes] == [False, first]
    assert timeline.says("initiating") == words


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2026-11-30 20:35:10,210 [rank 1] step 15/40 loss=1.2394", "step 15/40"),
        ("  0%|          | 2/1650 [00:06<82:24,  3.00s/it]", "2/1650"),
        ("iteration: 40 | loss 2.1", "iteration: 40"),
        ("{'loss': 2.1}", "{'loss': 2.1}"),
    ],
)
def test_progress_is_named_by_its_step(text: str, name: str) -> None:
    assert build(_diagnosis(TimelineEntry(rank=0, kind="progress", text=text))).lanes[0].last_progress == name


def test_what_no_rank_said_has_a_lane_and_one_a_host_if_there_are_several() -> None:
    marks = [TimelineEntry(rank=None, host=host, kind="collateral", text="x") for host in ("node-1", None)]
    assert [lane.label for lane in build(_diagnosis(*marks)).lanes] == ["run"]
    marks.append(TimelineEntry(rank=None, host="node-2", kind="collateral", text="x"))
    assert [lane.label for lane in build(_diagnosis(*marks)).lanes] == ["run", "run node-1", "run node-2"]


def test_a_run_without_ranks_can_be_first() -> None:
    diagnosis = Diagnosis(
        verdict="likely",
        initiating=Initiating(rank=None, certainty="established"),
        timeline=(TimelineEntry(rank=None, kind="initiating", text="x"),),
    )
    assert [(lane.label, lane.first) for lane in build(diagnosis).lanes] == [("run", True)]


def test_ranks_that_went_the_same_way_share_a_lane() -> None:
    lanes = build(symmetric(64)).lanes
    assert [(lane.label, len(lane.ranks), lane.host) for lane in lanes] == [("ranks 0-63", 64, "8 hosts")]


def test_a_thousand_ranks_fit_a_screen_and_the_first_keeps_its_lane() -> None:
    timeline = build(thousand_ranks())
    assert [lane.label for lane in timeline.lanes] == ["kernel node-87", "999 ranks", "rank 700"]
    assert [lane.first for lane in timeline.lanes] == [False, False, True]
    assert timeline.hidden == 0


def test_lanes_that_differ_are_cut_and_the_rest_is_counted() -> None:
    kinds = ("collateral", "stopped", "silent", "progress")
    marks = [
        TimelineEntry(rank=rank, kind=kinds[(rank >> shift) % 4], text=f"text {'x' * rank}")
        for rank in range(64)
        for shift in (0, 2, 4)
    ]
    timeline = build(_diagnosis(*marks, TimelineEntry(rank=63, kind="initiating", text="first")))
    assert len(timeline.lanes) <= MAX_LANES
    assert any(63 in lane.ranks and lane.ended_by == "first" for lane in timeline.lanes)
    assert timeline.hidden == 64 - sum(len(lane.ranks) for lane in timeline.lanes) > 0


def test_unknown_times_give_an_order_and_no_axis() -> None:
    timeline = build(
        _diagnosis(
            TimelineEntry(rank=0, kind="stopped", text="SIGTERM"),
            TimelineEntry(rank=0, kind="progress", text="step 3"),
            TimelineEntry(rank=1, kind="initiating", text="ValueError: x"),
        )
    )
    assert not timeline.timed
    assert timeline.ticks == ()
    assert [mark.kind for mark in timeline.lanes[0].marks] == ["progress", "stopped"]


def test_one_sign_of_progress_a_rank_does_not_claim_when_it_began() -> None:
    timeline = build(
        _diagnosis(
            TimelineEntry(rank=0, kind="progress", time="10:00:00", text="step 800"),
            TimelineEntry(rank=0, kind="initiating", time="10:00:10", text="ValueError"),
        )
    )
    assert timeline.lanes[0].marks[0].at > 0.2


def test_a_run_without_failure_is_drawn_to_its_end() -> None:
    timeline = build(no_failure())
    assert timeline.timed
    assert [tick.text for tick in timeline.ticks] == ["09:00:01", "11:14:59"]


def test_dates_count_when_all_times_have_one() -> None:
    timeline = build(
        _diagnosis(
            TimelineEntry(rank=0, kind="initiating", time="2026-03-01 23:59:58,500", text="ValueError"),
            TimelineEntry(rank=1, kind="stopped", time="2026-03-02T00:00:01.500Z", text="SIGTERM"),
        )
    )
    assert timeline.ticks[-1].text == "+3.0 s"


@pytest.mark.parametrize("time", ["2026-13-45 10:00:00", "not a time", "99", ""])
def test_a_time_that_is_none_leaves_the_mark_in_its_order(time: str) -> None:
    timeline = build(_diagnosis(TimelineEntry(rank=0, kind="initiating", time=time, text="x")))
    assert not timeline.timed
    assert len(timeline.lanes) == 1


def test_a_lone_lane_without_times_tells_nothing() -> None:
    assert not build(_diagnosis(TimelineEntry(rank=0, kind="initiating", text="x"))).tells
    assert not build(_diagnosis()).tells
    assert build(established()).tells


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory.", "OutOfMemoryError"),
        ("[rank3]: KeyError: 'x'", "KeyError"),
        ("[Rank 0] Watchdog caught", "Watchdog caught"),
        ("exit code -9", "exit code -9"),
        ("failed (exitcode: 1) local_rank: 0", "exit code 1"),
        ("Sending process 11456 closing signal SIGTERM", "SIGTERM"),
        ("[rank1]:[E1103 02:17:40.104401289 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught", "Watchdog caught"),
        ("", ""),
    ],
)
def test_an_ending_is_named_shortly(text: str, name: str) -> None:
    assert short(text) == name


def test_a_suspect_is_pointed_at_although_another_rank_was_seen_first() -> None:
    suspected = Diagnosis(
        verdict="undetermined",
        initiating=Initiating(rank=1, ranks=(1,), certainty="likely"),
        timeline=(
            TimelineEntry(rank=0, kind="initiating", what="a collective timed out", text="Watchdog caught it"),
            TimelineEntry(rank=1, kind="silent", text="no error of its own"),
        ),
    )
    built = build(suspected)
    assert [lane.first for lane in built.lanes] == [False, True]
    assert built.says("initiating") == "first failure seen"
    assert built.lanes[0].ended_by == "a collective timed out"
