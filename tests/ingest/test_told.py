"""Words that say a run stands still are told: they ask better questions and decide nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack

PACK = load_pack()
STEPS = "".join(f"step {n}/900 loss={2.4 - n / 1000:.3f}\n" for n in range(30, 52))


def _diagnose(folder: Path, words: str, log: str = STEPS):
    (folder / "post.txt").write_text(words, encoding="utf-8")
    (folder / "run.log").write_text(log, encoding="utf-8")
    return investigate(gather([folder], PACK), PACK)


@pytest.mark.parametrize(
    "words",
    [
        "My training hangs after a while, GPUs are busy and nothing is printed any more.\n",
        "Everything looked fine, and now it has been stuck at this point since lunch.\n",
        "The job stops here without any message, what can I look at?\n",
    ],
)
def test_a_run_that_is_said_to_stand_still_hangs(tmp_path: Path, words: str) -> None:
    found = _diagnose(tmp_path, words)
    assert (found.verdict, found.entry) == ("undetermined", "run-hangs")
    assert found.facts["hang.alive"]["basis"] == "told"


@pytest.mark.parametrize(
    "words",
    ["It does not hang, but is this fast enough for four cards?\n", "We fixed a hang last week. Is this loss curve good?\n"],
)
def test_what_is_denied_is_not_told(tmp_path: Path, words: str) -> None:
    assert "hang.alive" not in _diagnose(tmp_path, words).facts


def test_a_run_that_came_to_its_end_did_not_hang(tmp_path: Path) -> None:
    log = STEPS + "Training completed. Do not forget to share your model on huggingface.co/models =)\n"
    assert _diagnose(tmp_path, "For minutes I thought it was stuck.\n", log).verdict == "no_failure"


def test_the_words_stand_among_the_evidence(tmp_path: Path) -> None:
    words = "My training hangs after a while, GPUs are busy and nothing is printed any more."
    found = _diagnose(tmp_path, words + "\n")
    assert words in [item.text for item in found.evidence]
    assert all(item.text for item in found.evidence)


@pytest.mark.parametrize(
    "words",
    [
        "In the morning the job was gone, this is the end of the file.\n",
        "The pod has disappeared, the log is attached.\n",
        "After two hours it just died without any message.\n",
    ],
)
def test_a_run_that_is_gone_is_asked_how_it_ended(tmp_path: Path, words: str) -> None:
    found = _diagnose(tmp_path, words)
    assert (found.verdict, found.entry) == ("undetermined", "killed-by-signal")
    assert found.missing[0].fact == "exit.code"


@pytest.mark.parametrize("words", ["It has not died yet, but is this speed normal?\n", "Is this loss curve good?\n"])
def test_a_run_that_is_there_is_not_gone(tmp_path: Path, words: str) -> None:
    assert "run.gone" not in _diagnose(tmp_path, words).facts
