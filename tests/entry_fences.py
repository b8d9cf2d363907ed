"""The tests that entries carry, as the files that a user would hand over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from firstfault.knowledge.pack import body
from firstfault.knowledge.schema import EntryTest, Pack

FILE_NAMES = {"log": "{}.log", "config": "{}.yaml", "command": "{}.sh", "vitals": "{}.jsonl", "script": "{}.py"}


def entry_tests(pack: Pack) -> Iterator[tuple[str, EntryTest, dict[str, str]]]:
    """Id, first fence (which says what must come out) and files of every test; fences of one name are handed over together."""
    for entry_id in sorted(pack.entries):
        for name, group in groupby(body(pack, entry_id).tests, key=lambda test: test.name):
            sources = list(group)
            files = {
                FILE_NAMES[source.kind].format(name if number == 0 else f"{name}-{number}"): source.text
                for number, source in enumerate(sources)
            }
            yield f"{entry_id}/{name}", sources[0], files
