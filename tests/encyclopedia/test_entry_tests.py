"""Every test under an entry's *Tests* is an investigation, and its info string says what must come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from entry_fences import answers_of, entry_tests
from firstfault.engine.handed_over import shows_run
from firstfault.engine.investigate import investigate
from firstfault.engine.plan_findings import with_findings
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.schema import EntryTest
from firstfault.launch.plan import plan
from plan_fences import request_of

PACK = load_pack()
CASES = [pytest.param(test, files, answers_of(PACK, *name.split("/")), id=name) for name, test, files in entry_tests(PACK)]
PLANS = [pytest.param(test, files, id=name) for name, test, files in entry_tests(PACK, plans=True)]


@pytest.mark.parametrize(("test", "files", "answers"), CASES)
def test_fence_says_what_it_must(test: EntryTest, files: dict[str, str], answers: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    bundle = gather([tmp_path], PACK)
    diagnosis = investigate(bundle, PACK, answers)
    wanted, _, argument = test.expect.partition(":")
    if wanted == "none":
        # A command alone shows no run: nothing is found in it, and nothing says that a run went well.
        assert diagnosis.verdict == ("no_failure" if shows_run(bundle) else "undetermined"), test.where
        assert diagnosis.entry is None, test.where
    elif wanted == "undetermined":
        assert diagnosis.verdict == "undetermined", test.where
    elif wanted == "missing":
        assert argument in {missing.fact for missing in diagnosis.missing[:1]}, test.where
    elif wanted == "collateral":
        assert diagnosis.collateral, test.where
    else:
        assert diagnosis.entry == wanted, (test.where, diagnosis.verdict, diagnosis.path)
        if argument:
            assert diagnosis.verdict == argument, test.where


@pytest.mark.parametrize(("test", "files"), PLANS)
def test_plan_finds_what_it_must(test: EntryTest, files: dict[str, str]) -> None:
    request = request_of(test.text, files)
    found = with_findings(plan(request), request, PACK).findings
    wanted, _, verdict = test.expect.partition(":")
    if wanted == "none":
        assert not found, test.where
    else:
        assert wanted in {finding.entry for finding in found}, (test.where, found)
        if verdict:
            assert verdict in {finding.verdict for finding in found if finding.entry == wanted}, test.where
