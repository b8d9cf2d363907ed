"""The diagnosis of a capsule is that of the files it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.errors import UnreadableInputError
from firstfault.ingest.bundle import gather
from firstfault.ingest.capsule import Capsule, gather_capsule
from firstfault.ingest.capsule_reading import bundle_of, offsets_of
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis

PACK = load_pack()
ROOT = Path(__file__).parents[2]
PICKLED = {"h-001", "h-002", "h-003", "late-rank-with-dumps"}
"""Their evidence stands in pickles, which are no text and stay where they are."""
FOLDERS = [
    *(case / "input" for case in sorted((ROOT / "cases").iterdir()) if (case / "input").is_dir() and case.name not in PICKLED),
    *(folder for folder in sorted((ROOT / "examples").iterdir()) if folder.is_dir() and folder.name not in PICKLED),
]
QUIET = "".join(f"DEBUG shard part-{number:05d} of the corpus came from tier two\n" for number in range(12_000))


def said(found: Diagnosis) -> tuple[object, ...]:
    first = found.initiating
    return (found.verdict, found.entry, first and first.rank, first and first.ranks)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name if folder.name == "input" else folder.name)
def test_every_case_and_example_is_answered_alike(folder: Path) -> None:
    capsule = gather_capsule([folder], PACK)
    assert said(investigate(bundle_of(capsule, PACK), PACK)) == said(investigate(gather([folder], PACK), PACK))


def test_a_large_log_is_answered_alike_and_its_lines_keep_their_numbers(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/alice/train.py", line 9, in main\n    x = 1 / 0\nZeroDivisionError: division by zero\n'
    )
    log = tmp_path / "run.log"
    log.write_text("mail alice@example.org\n" + QUIET + text + QUIET, encoding="utf-8")
    capsule = gather_capsule([log], PACK)
    assert not capsule.sources[0].whole
    whole, kept = investigate(gather([log], PACK), PACK), investigate(bundle_of(capsule, PACK), PACK)
    assert said(kept) == said(whole)
    assert [(item.line, item.text.replace("alice", "user-1")) for item in whole.evidence] == [
        (item.line, item.text) for item in kept.evidence
    ]
    offsets = offsets_of(capsule)
    assert [offsets[(log.name, item.line)] for item in whole.evidence] == [item.offset for item in whole.evidence]


def test_carriage_returns_and_blank_lines_keep_line_numbers(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"a\r\n\r\n 10%|#\r 20%|##\r 30%|###\nRuntimeError: CUDA error: out of memory\n")
    whole = investigate(gather([log], PACK), PACK)
    kept = investigate(bundle_of(gather_capsule([log], PACK), PACK), PACK)
    assert [(item.line, item.text) for item in kept.evidence] == [(item.line, item.text) for item in whole.evidence]


def test_an_empty_capsule_cannot_be_read() -> None:
    with pytest.raises(UnreadableInputError):
        bundle_of(Capsule(sources=()), PACK)
