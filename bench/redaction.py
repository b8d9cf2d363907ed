"""How much of what should be masked is masked, how much else is, and whether the answers stay the same.

    python bench/redaction.py [CASES]

The labelled lines are those of tests/data/redaction/; CASES is a folder of labelled cases, each diagnosed twice.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.ingest.redact import Redactor
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.redaction import redaction_rules
from firstfault.knowledge.schema import Pack
from firstfault.trial.case_folder import new_case
from firstfault.trial.label import read_cases

DATA = Path(__file__).parents[1] / "tests" / "data" / "redaction"


class Labelled(msgspec.Struct, frozen=True):
    """A line, the kind of what it shows, and the text that must not stay (`secret`) or must stay (`harmless`)."""

    kind: str
    line: str
    secret: str = ""
    harmless: str = ""


def labelled(name: str) -> list[Labelled]:
    decoder = msgspec.json.Decoder(Labelled)
    return [decoder.decode(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def wrong(items: list[Labelled], pack: Pack) -> tuple[list[Labelled], list[Labelled]]:
    """Secrets that stay, and harmless values that do not; every line is masked by itself."""
    rules = redaction_rules(pack)
    missed, lost = [], []
    for item in items:
        redactor = Redactor(rules)
        masked = redactor.mask_text(item.line)
        if item.secret and item.secret in masked:
            missed.append(item)
        if item.harmless and item.harmless not in masked:
            lost.append(item)
    return missed, lost


def main() -> int:
    pack = load_pack()
    for path in sorted(DATA.glob("*.jsonl")):
        items = labelled(path.name)
        missed, lost = wrong(items, pack)
        secrets = [item for item in items if item.secret]
        harmless = [item for item in items if item.harmless]
        print(
            f"{path.name}: {len(secrets)} secrets of {len(Counter(item.kind for item in secrets))} kinds, "
            f"recall {1 - len(missed) / len(secrets):.2%}; "
            f"{len(harmless)} harmless, false masks {len(lost) / len(harmless):.2%}"
        )
        for item in (*missed, *lost):
            print(f"  {'missed' if item.secret else 'masked'} {item.kind}: {item.line!r}")
    return compare(Path(sys.argv[1]), pack) if len(sys.argv) > 1 else 0


def compare(folder: Path, pack: Pack) -> int:
    """Diagnose every case as it is and redacted; 1 if an answer differs."""
    differ = 0
    cases = read_cases(folder)
    for case in cases:
        before = answer(case.input, pack)
        with tempfile.TemporaryDirectory() as scratch:
            made = new_case([case.input], pack, folder=Path(scratch) / "case", expected=None, rank=None)
            after = answer(made.folder / "input", pack)
        if before != after:
            differ += 1
            print(f"  {case.name}: {before} became {after}")
    print(f"{len(cases)} cases, {differ} with another entry, rank or verdict once redacted")
    return int(differ > 0)


def answer(path: Path, pack: Pack) -> tuple[str, str | None, int | None]:
    found = investigate(gather([path], pack), pack)
    return found.verdict, found.entry, found.initiating.rank if found.initiating else None


if __name__ == "__main__":
    sys.exit(main())
