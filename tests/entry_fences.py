"""The tests that entries carry, as the files that a user would hand over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from firstfault.knowledge.pack import body
from firstfault.knowledge.schema import EntryTest, Pack

FILE_NAMES = {
    "log": "{}.log", "config": "{}.yaml", "command": "{}.sh", "vitals": "{}.jsonl", "script": "{}.py", "plan": "{}.sh",
}  # fmt: skip


def entry_tests(pack: Pack, *, plans: bool = False) -> Iterator[tuple[str, EntryTest, dict[str, str]]]:
    """Id, first fence (which says what must come out) and files of every test; fences of one name are handed over together.

    With `plans` those of commands to plan, else all others. Answers are no file: `answers_of` gives them.
    """
    for entry_id in sorted(pack.entries):
        for name, group in groupby(body(pack, entry_id).tests, key=lambda test: test.name):
            sources = list(group)
            read = [source for source in sources if source.kind != "answers"]
            files = {
                FILE_NAMES[source.kind].format(name if number == 0 else f"{name}-{number}"): source.text
                for number, source in enumerate(read)
            }
            main = next((source for source in sources if source.kind == "plan"), sources[0])
            if (main.kind == "plan") == plans:
                yield f"{entry_id}/{name}", main, files


def answers_of(pack: Pack, entry_id: str, name: str) -> dict[str, str]:
    """The facts that the test `name` of an entry answers, as `--fact` gives them."""
    lines = [
        line
        for test in body(pack, entry_id).tests
        if test.name == name and test.kind == "answers"
        for line in test.text.split()
    ]
    return dict(line.split("=", 1) for line in lines)
