"""Every fence under an entry's *Tests* is an investigation, and its info string says what must come out."""

from __future__ import annotations

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather_text
from firstfault.knowledge.pack import body, load_pack
from firstfault.knowledge.schema import EntryTest
from firstfault.model.diagnosis import Diagnosis

PACK = load_pack()
FILE_NAMES = {"log": "{}.log", "config": "{}.yaml", "command": "{}.sh", "vitals": "{}.jsonl"}
CASES = [
    pytest.param(test, id=f"{entry_id}/{test.name}") for entry_id in sorted(PACK.entries) for test in body(PACK, entry_id).tests
]


def diagnose(test: EntryTest) -> Diagnosis:
    bundle = gather_text(test.text, name=FILE_NAMES[test.kind].format(test.name), pack=PACK)
    return investigate(bundle, PACK)


@pytest.mark.parametrize("test", CASES)
def test_fence_says_what_it_must(test: EntryTest) -> None:
    diagnosis = diagnose(test)
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
