"""Every test under an entry's *Tests* is an investigation, and its info string says what must come out."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import body, load_pack
from firstfault.knowledge.schema import EntryTest
from firstfault.model.diagnosis import Diagnosis

PACK = load_pack()
FILE_NAMES = {"log": "{}.log", "config": "{}.yaml", "command": "{}.sh", "vitals": "{}.jsonl"}
# Fences of one name are handed over together: a log, the configuration, the command.
CASES = [
    pytest.param(tuple(sources), id=f"{entry_id}/{name}")
    for entry_id in sorted(PACK.entries)
    for name, sources in groupby(body(PACK, entry_id).tests, key=lambda test: test.name)
]


def diagnose(sources: tuple[EntryTest, ...], folder: Path) -> Diagnosis:
    for number, source in enumerate(sources):
        name = source.name if number == 0 else f"{source.name}-{number}"
        (folder / FILE_NAMES[source.kind].format(name)).write_text(source.text, encoding="utf-8")
    return investigate(gather([folder], PACK), PACK)


@pytest.mark.parametrize("sources", CASES)
def test_fence_says_what_it_must(sources: tuple[EntryTest, ...], tmp_path: Path) -> None:
    test, diagnosis = sources[0], diagnose(sources, tmp_path)
    wanted, _, argument = test.expect.partition(":")
    if wanted == "none":
        assert diagnosis.verdict == "no_failure", test.where
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
