from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.model.diagnosis import Diagnosis, Evidence, Initiating, Missing
from firstfault.trial.judgement import judge
from firstfault.trial.label import Case, Label


def judged(label, **answer):
    case = Case(name="x-1", input=Path("input"), label=Label(**label))
    return judge(case, Diagnosis(**{"verdict": "likely", "entry": "oom", **answer}))


@pytest.mark.parametrize(
    ("answer", "credit"),
    [
        ({"entry": "oom", "verdict": "established"}, 1.0),
        ({"entry": "also"}, 1.0),
        ({"entry": "parent"}, 0.5),
        ({"entry": "oom", "verdict": "undetermined"}, 0.5),
        ({"entry": "other"}, 0.0),
        ({"entry": None, "verdict": "no_failure"}, 0.0),
    ],
)
def test_credit(answer, credit):
    assert judged({"id": "oom", "accept": ("also",), "partial": ("parent",)}, **answer).credit == credit


def test_uncommitted_answer_is_right_where_the_label_says_so():
    assert judged({"id": "oom", "accept_undetermined": True}, verdict="undetermined").credit == 1.0


@pytest.mark.parametrize(
    ("label", "entry", "wrong"),
    [
        ({"id": "oom"}, "other", True),
        ({"id": "oom", "partial": ("other",)}, "other", False),
        ({"id": "oom", "undecidable": True}, "other", True),
        ({"id": "oom", "undecidable": True, "accept": ("other",)}, "other", True),
        ({"id": None, "negative": True}, "other", True),
    ],
)
def test_established_and_wrong(label, entry, wrong):
    assert judged(label, verdict="established", entry=entry).false_established is wrong


@pytest.mark.parametrize(
    ("label", "rank", "ranks", "right"),
    [
        ({"initiating_rank": 3}, 3, (3,), True),
        ({"initiating_rank": 3}, None, (3,), True),
        ({"initiating_rank": 3, "accept_ranks": (4,)}, 4, (), True),
        ({"initiating_rank": 3}, 2, (2,), False),
        ({"initiating_rank": 3}, None, (2, 3), False),
        ({"initiating_rank": 3}, None, (), False),
        ({"initiating_rank": 0, "single_process": True}, None, (), True),
        ({"initiating_rank": "all"}, None, (0, 1), True),
        ({"initiating_rank": "all"}, 1, (1,), False),
        ({"initiating_rank": None}, None, (), True),
        ({"initiating_rank": None}, 2, (2,), False),
        ({"initiating_rank": None, "single_process": True}, 0, (0,), True),
        ({"initiating_rank": None, "accept_ranks": (1, 2)}, 1, (1, 5), True),
        ({"initiating_rank": None, "accept_ranks": (1, 2)}, 5, (1, 5), False),
    ],
)
def test_rank(label, rank, ranks, right):
    initiating = Initiating(rank=rank, ranks=ranks)
    assert judged({"id": "oom", **label}, initiating=initiating).rank_right is right


def test_line_may_be_cut_or_an_alternative_but_is_no_single_word():
    label = {"id": "oom", "initiating_line": "loss  = model(**batch).loss of the step", "initiating_line_alt": ("second",)}

    def cited(text):
        return judged(label, evidence=(Evidence(id="e1", source="a", line=1, offset=0, text=text),)).line_cited

    assert (
        cited("12: loss = model(**batch).loss of the step")
        and cited("the second line")
        and cited("loss = model(**batch).loss of")
    )
    assert not cited("loss")
    assert judged({"id": "oom"}).line_cited is None


@pytest.mark.parametrize(
    ("verdict", "entry", "why", "points"),
    [
        ("undetermined", "oom", "the uncut traceback decides", 1.0),
        ("undetermined", None, "the uncut traceback decides", 0.5),
        ("undetermined", "other", "the uncut traceback decides", 0.0),
        ("likely", "oom", "the uncut traceback decides", 0.5),
        ("established", "oom", "the uncut traceback decides", 0.0),
        ("undetermined", "oom", "the weather decides", 0.0),
    ],
)
def test_undecidable_case_wants_the_right_question(verdict, entry, why, points):
    label = {"id": "oom", "undecidable": True, "missing_keywords": ("Traceback",)}
    answer = judged(label, verdict=verdict, entry=entry, missing=(Missing(fact="oom.phase", why=why, command="cat log"),))
    assert answer.asked_right == points


def test_healthy_run_is_right_only_as_no_failure():
    assert judged({"id": None, "negative": True}, verdict="no_failure", entry=None).credit == 1.0
    assert judged({"id": None, "negative": True}, verdict="undetermined", entry=None).credit == 0.0
