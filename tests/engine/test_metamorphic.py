"""An answer is only as sure as its evidence: without the lines that decide it, it is no longer established, nor is another."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from entry_fences import entry_tests
from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.schema import DECISIVE_WEIGHT

PACK = load_pack()
ROOT = Path(__file__).parents[2]


def fixtures():
    for name, test, files in entry_tests(PACK):
        if test.expect.endswith(":established"):
            yield pytest.param(files, id=name)
    index = tomllib.loads((ROOT / "examples" / "index.toml").read_text(encoding="utf-8"))
    for folder in sorted(ROOT / "examples" / name for name, about in index.items() if about["verdicts"][0] == "established"):
        files = {
            str(file.relative_to(folder)): file.read_text(encoding="utf-8")
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        yield pytest.param(files, id=folder.name)


FIXTURES = list(fixtures())


def diagnose(files, folder):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return investigate(gather([str(folder)], PACK), PACK)


def without(files, folder, places):
    """The files with other words at `places` (path, line)."""
    changed = {}
    for name, text in files.items():
        gone = {line for source, line in places if Path(source) == folder / name}
        lines = text.split("\n")
        changed[name] = "\n".join("taken out" if number in gone else line for number, line in enumerate(lines, start=1))
    return changed


@pytest.mark.parametrize("files", FIXTURES)
def test_without_the_deciding_lines_nothing_is_established(files, tmp_path):
    found = entry = None
    path: tuple[str, ...] = ()
    # Several lines may each decide (nested frames of one call, two records of one kill): all of them go, round after round.
    for number in range(12):
        folder = tmp_path / str(number)
        found = diagnose(files, folder)
        if found.verdict != "established":
            break
        entry = entry or found.entry
        path = path or found.path
        assert found.entry in path, (path, found.path)
        deciding = {key for reason in found.reasons if reason.weight >= DECISIVE_WEIGHT for key in reason.evidence}
        places = {(item.source, item.line) for item in found.evidence if item.id in deciding}
        assert places
        files = without(files, folder, places)
    assert entry is not None and found.verdict != "established"


@pytest.mark.parametrize("files", FIXTURES)
def test_cutting_a_line_never_establishes_something_else(files, tmp_path):
    found = diagnose(files, tmp_path / "run")
    assert found.verdict == "established"
    places = sorted({(item.source, item.line) for item in found.evidence})
    for number, place in enumerate(places):
        weaker = diagnose(without(files, tmp_path / "run", {place}), tmp_path / str(number))
        # The more general entry may stay established by a text of its own: it was true all along.
        assert weaker.verdict != "established" or weaker.entry in found.path, (place, found.entry, weaker.entry)
