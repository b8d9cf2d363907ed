from __future__ import annotations

from firstfault.trial.judgement import Judgement
from firstfault.trial.scoreboard import scoreboard


def row(case, **more):
    stated = {"kind": "decidable", "verdict": "likely", "entry": "oom", "wanted": "oom", "credit": 1.0, "rank_right": True}
    return Judgement(case=case, set=case[0], category="memory", **{**stated, **more})


def test_figures_tables_and_the_wrong_ones():
    text = scoreboard(
        [
            row("a-1", verdict="established"),
            row("a-2", credit=0.0, entry="other", verdict="established", false_established=True, rank_right=False),
            row("b-1", credit=0.5, entry="parent"),
            row("b-2", kind="undecidable", asked_right=1.0),
            row("b-3", kind="negative", credit=0.0, wanted=None),
        ]
    )
    assert "5 cases: 3 decidable, 1 undecidable, 1 healthy" in text
    assert "right entry                  1 of 3  (33.3 %)" in text
    assert "established and wrong        1" in text
    assert "established and wrong (1): a-2" in text and "more general entry (1): b-1" in text and "wrong rank (1): a-2" in text
    assert "nothing failed, not said (1): b-3" in text
    assert max(map(len, text.splitlines())) <= 100


def test_confusion_counts_what_was_taken_for_what():
    rows = [row(f"a-{n}", credit=0.0, entry="other") for n in range(2)] + [
        row("b-1", credit=0.5, entry=None, verdict="undetermined")
    ]
    text = scoreboard(rows, confusion=True)
    assert "   2  oom -> other" in text and "   1  oom -> undetermined" in text
    assert "no entry was taken for another" in scoreboard([row("a-1")], confusion=True)
