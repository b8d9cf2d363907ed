from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.errors import UnreadableInputError, UsageError
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.trial.case_folder import new_case
from firstfault.trial.label import read_cases

ALL_CASES = sorted(folder.parent for folder in (Path(__file__).parents[2] / "cases").glob("*/expected.yaml"))
BINARY = [case for case in ALL_CASES if any(b"\0" in path.read_bytes() for path in case.rglob("*") if path.is_file())]
CASES = [case for case in ALL_CASES if case not in BINARY]


def test_a_case_is_redacted_and_reads_back(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "node-02.log").write_text("node-02:1:1 [0] NCCL INFO x\nHF_TOKEN=aaaaBBBB1111\n", encoding="utf-8")
    made = new_case([tmp_path / "logs"], load_pack(), folder=tmp_path / "cases" / "c-1", expected="cuda-oom", rank=3)
    assert [path.name for path in made.files] == ["host-1.log"]
    assert made.files[0].read_text(encoding="utf-8") == "host-1:1:1 [0] NCCL INFO x\nHF_TOKEN=token-1\n"
    (case,) = read_cases(tmp_path / "cases")
    assert (case.label.id, case.label.initiating_rank, case.label.category) == ("cuda-oom", 3, "memory")


def test_what_is_wrong_is_refused(tmp_path):
    (tmp_path / "a.log").write_text("x\n", encoding="utf-8")
    pack = load_pack()
    with pytest.raises(UsageError, match="did you mean cuda-oom"):
        new_case([tmp_path / "a.log"], pack, folder=tmp_path / "c", expected="cuda-oomm", rank=None)
    with pytest.raises(UsageError, match="exists already"):
        new_case([tmp_path / "a.log"], pack, folder=tmp_path, expected="cuda-oom", rank=None)
    (tmp_path / "b.log").write_bytes(b"a\0b")
    with pytest.raises(UnreadableInputError):
        new_case([tmp_path / "b.log"], pack, folder=tmp_path / "c", expected=None, rank=None)


@pytest.mark.parametrize("case", CASES[:: max(1, len(CASES) // 12)], ids=lambda folder: folder.name)
def test_the_answer_stays_once_redacted(case, tmp_path):
    pack = load_pack()
    made = new_case([case / "input"], pack, folder=tmp_path / "c", expected=None, rank=None)
    before, after = (investigate(gather([path], pack), pack) for path in (case / "input", made.folder / "input"))
    assert (before.verdict, before.entry) == (after.verdict, after.entry)
    assert (before.initiating and before.initiating.rank) == (after.initiating and after.initiating.rank)


@pytest.mark.parametrize("case", BINARY, ids=lambda folder: folder.name)
def test_what_cannot_be_masked_stays_out_and_is_named(case, tmp_path):
    files = [path for path in (case / "input").rglob("*") if path.is_file()]
    dumps = [path.name for path in files if b"\0" in path.read_bytes()]
    if len(dumps) == len(files):
        with pytest.raises(UnreadableInputError, match="nothing here is text"):
            new_case([case / "input"], load_pack(), folder=tmp_path / "c", expected=None, rank=None)
        return
    made = new_case([case / "input"], load_pack(), folder=tmp_path / "c", expected=None, rank=None)
    assert all(any(f"{name}: is no text" in said for said in made.left_out) for name in dumps)
    assert not any(b"\0" in path.read_bytes() for path in made.files)
