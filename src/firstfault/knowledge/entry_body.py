"""Reads the body of an entry: its closed list of sections, the fixes with their code blocks, and the tests.

## headings   those of SECTIONS, in that order; In short, Why it happens, Fix, Verify, Sources and Tests must be there
### headings  below Fix, one for each fix id; its fences carry `LANGUAGE [STACK]` (```diff torch)
## Tests      fences ```KIND NAME expect=WHAT with KIND log, config, command, vitals, script or plan (a command to plan),
              and WHAT one of an entry id, `id:verdict`, none, undetermined, collateral, missing:<fact>. Fences of one NAME
              are handed over together; only the first of them carries `expect`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast, get_args

from firstfault.knowledge.problems import Problems
from firstfault.knowledge.schema import CodeBlock, EntryBody, EntryTest
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Verdict

SECTIONS = (
    "In short",
    "On call",
    "What you see",
    "Why it happens",
    "Tell it apart",
    "Fix",
    "Verify",
    "Prevent",
    "Monitor",
    "At scale",
    "Not this",
    "Sources",
    "Tests",
)
MANDATORY = ("In short", "Why it happens", "Fix", "Verify", "Sources", "Tests")
TEST_KINDS = ("log", "config", "command", "vitals", "script", "answers", "plan")
_FENCE = lazy_pattern(r"(`{3,}|~{3,})\s*([^`]*?)\s*\Z")
_HEADING = lazy_pattern(r"(#{1,6})\s+(.*?)\s*#*\Z")
_EXPECT = lazy_pattern(
    rf"expect=(?:none|undetermined|collateral|missing:[a-z0-9_.]+|[a-z0-9][a-z0-9-]*(?::(?:{'|'.join(get_args(Verdict))}))?)\Z"
)


class _Block(NamedTuple):
    """A line of prose or a heading (level 1 to 6), or a whole fence (level 0 for both others)."""

    line: int
    level: int
    text: str
    info: str | None = None


def read_body(text: str, file: str, first_line: int, title: str, problems: Problems) -> EntryBody:
    """The body of an entry; errors go to `problems` with their line. `first_line` is the line at which the text begins."""
    return _Reader(file, title, problems).read(_blocks(text, file, first_line, problems))


def _blocks(text: str, file: str, first_line: int, problems: Problems) -> Iterator[_Block]:
    lines = iter(enumerate(text.splitlines(), first_line))
    for number, line in lines:
        opening = _FENCE.match(line)
        if opening:
            inner: list[str] = []
            for _, following in lines:
                if following.startswith(opening[1]) and not following.strip(opening[1][0]).strip():
                    break
                inner.append(following)
            else:
                problems.add(f"{file}:{number}", "a fence that is never closed")
            yield _Block(number, 0, "".join(f"{item}\n" for item in inner), opening[2])
            continue
        heading = _HEADING.match(line)
        yield _Block(number, len(heading[1]), heading[2]) if heading else _Block(number, 0, line)


class _Reader:
    def __init__(self, file: str, title: str, problems: Problems) -> None:
        self._file = file
        self._title = title
        self._problems = problems
        self._section = ""
        self._fix = ""
        self._sections: dict[str, list[str]] = {}
        self._fixes: dict[str, list[CodeBlock]] = {}
        self._fix_texts: dict[str, list[str]] = {}
        self._tests: list[EntryTest] = []
        self._lines: dict[str, int] = {}

    def read(self, blocks: Iterator[_Block]) -> EntryBody:
        for block in blocks:
            if block.level:
                self._heading(block)
            elif block.info is None:
                self._prose(block)
            else:
                self._fence(block)
        for name in MANDATORY:
            if not "".join(self._sections.get(name, [])).strip() and name not in ("Tests", "Fix"):
                self._note(self._lines.get(name, 1), f"the section `## {name}` is missing or empty")
            elif name not in self._sections:
                self._note(1, f"the section `## {name}` is missing")
        return EntryBody(
            sections={name: _joined(lines) for name, lines in self._sections.items()},
            fixes={fix: tuple(found) for fix, found in self._fixes.items()},
            fix_texts={fix: _joined(lines) for fix, lines in self._fix_texts.items()},
            tests=tuple(self._tests),
            lines=self._lines,
        )

    def _note(self, line: int, message: str) -> None:
        self._problems.add(f"{self._file}:{line}", message)

    def _heading(self, block: _Block) -> None:
        if block.level == 1:
            if block.text != self._title or self._section:
                self._note(block.line, f"the one level-1 heading repeats the title: # {self._title}")
        elif block.level == 2:
            self._begin_section(block)
        elif block.level == 3 and self._section == "Fix":
            self._fix = block.text
            if self._fix in self._fixes:
                self._note(block.line, f"the fix `{self._fix}` has two headings")
            self._fixes[self._fix], self._fix_texts[self._fix] = [], []
            self._lines[self._fix] = block.line
        else:
            self._note(block.line, f"no heading of level {block.level} belongs here: {block.text}")

    def _begin_section(self, block: _Block) -> None:
        self._fix = ""
        if block.text not in SECTIONS:
            self._note(block.line, f"unknown section `{block.text}`; the list: {', '.join(SECTIONS)}")
        elif block.text in self._sections:
            self._note(block.line, f"the section `{block.text}` stands twice")
        elif any(SECTIONS.index(block.text) < SECTIONS.index(name) for name in self._sections if name in SECTIONS):
            self._note(block.line, f"the section `{block.text}` is out of order: {', '.join(SECTIONS)}")
        self._section = block.text
        self._sections.setdefault(self._section, [])
        self._lines.setdefault(self._section, block.line)

    def _prose(self, block: _Block) -> None:
        if self._fix:
            self._fix_texts[self._fix].append(block.text)
        elif self._section:
            self._sections[self._section].append(block.text)
        elif block.text.strip():
            self._note(block.line, "text before the first section")

    def _fence(self, block: _Block) -> None:
        if self._section == "Tests":
            self._test(block)
        elif self._fix:
            words = (block.info or "").split()
            if not 1 <= len(words) <= 2:
                self._note(block.line, "a fence below a fix carries `LANGUAGE` or `LANGUAGE STACK`")
                return
            self._fixes[self._fix].append(CodeBlock(language=words[0], stack="".join(words[1:]), text=block.text))
        else:
            self._prose(block._replace(text=f"```{block.info}\n{block.text}```"))

    def _test(self, block: _Block) -> None:
        words = (block.info or "").split()
        kind, name, expect = (*words, "", "", "")[:3]
        earlier = next((test for test in self._tests if test.name == name), None)
        if len(words) > 3 or kind not in TEST_KINDS or not name or not (expect or earlier):
            self._note(block.line, f"a test fence reads: {'|'.join(TEST_KINDS)} NAME expect=WHAT")
        elif expect and earlier:
            self._note(block.line, f"the test `{name}` exists already; a further source of it carries no `expect`")
        elif expect and not _EXPECT.match(expect):
            self._note(block.line, f"`{expect}`: write an id, id:verdict, none, undetermined, collateral or missing:fact")
        else:
            wanted = earlier.expect if earlier else expect.removeprefix("expect=")
            where = f"{self._file}:{block.line}"
            self._tests.append(EntryTest(kind=cast(Any, kind), name=name, expect=wanted, text=block.text, where=where))


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n")
