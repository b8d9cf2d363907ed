"""What is masked before text leaves the machine: the rules of `signals/redaction.toml`, shared by Python and the browser.

A rule finds `before` + `value` + `after` and masks `value` alone; the search goes on right behind it. All three stay in the
subset of regular expressions that means the same in Python (with re.ASCII), JavaScript and RE2.
"""

from __future__ import annotations

import re

import msgspec

from firstfault.knowledge.problems import Problems
from firstfault.knowledge.regex_subset import SubsetError, widest_repeat
from firstfault.knowledge.schema import Pack
from firstfault.knowledge.toml_table import Document, Table

KINDS = ("token", "key", "password", "cookie", "email", "user", "account", "host", "ip", "mac", "bucket")
"""The words of pseudonyms: `‹token-1›`."""
_OPEN, _CLOSE = "«", "»"


class RedactionRule(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of value to mask. At least one of `literals` (lower case) stands in every line that it finds something in.

    A value that `unless` matches as a whole, or in which one of `holds` is not found, stays. `examples` hold the masked part
    between « and »; in `harmless` the rule finds nothing. With `follows`, the line before must hold a match of that.
    """

    id: str
    kind: str
    value: str
    before: str = ""
    after: str = ""
    follows: str = ""
    literals: tuple[str, ...] = ()
    ignore_case: bool = False
    unless: str = ""
    holds: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()

    @property
    def pattern(self) -> str:
        """The whole expression; its only group is the value."""
        return f"(?:{self.before})({self.value})(?:{self.after})"

    def compiled(self) -> re.Pattern[str]:
        """`pattern` with the meaning that it has in a browser."""
        return re.compile(self.pattern, re.ASCII | (re.IGNORECASE if self.ignore_case else 0))


def read_rules(text: str, file: str, problems: Problems) -> tuple[RedactionRule, ...]:
    """The rules of the TOML text, in order; errors go to `problems`, and a faulty rule is left out."""
    document = Document(text, file, problems)
    root = document.root()
    root.raw("rule", list, "an array of tables")
    root.finish()
    return tuple(rule for table in document.tables("rule") if (rule := _read_rule(table)))


def redaction_rules(pack: Pack) -> tuple[RedactionRule, ...]:
    """The rules that the pack carries."""
    return msgspec.msgpack.decode(pack.redaction, type=tuple[RedactionRule, ...])


def kept(rule: RedactionRule, value: str) -> bool:
    """True for a value that the rule finds but leaves as it is."""
    flags = re.ASCII | (re.IGNORECASE if rule.ignore_case else 0)
    if rule.unless and re.fullmatch(rule.unless, value, flags):
        return True
    return any(not re.search(part, value, re.ASCII) for part in rule.holds)


def _read_rule(table: Table) -> RedactionRule | None:
    known = len(table.document.problems)
    rule = RedactionRule(
        id=table.required_text("id"),
        kind=table.choice("kind", KINDS),
        value=table.required_text("value"),
        before=table.text("before"),
        after=table.text("after"),
        follows=table.text("follows"),
        literals=table.texts("literals"),
        ignore_case=table.flag("ignore_case"),
        unless=table.text("unless"),
        holds=table.texts("holds"),
        examples=table.texts("examples"),
        harmless=table.texts("harmless"),
    )
    table.finish()
    if len(table.document.problems) > known:
        return None
    _check(rule, table)
    return rule if len(table.document.problems) == known else None


def _check(rule: RedactionRule, table: Table) -> None:
    whole = f"(?:{rule.before})(?:{rule.value})(?:{rule.after})"
    for key, part in (
        ("value", whole),
        ("unless", rule.unless),
        ("follows", rule.follows),
        *(("holds", part) for part in rule.holds),
    ):
        try:
            widest_repeat(part)
        except SubsetError as error:
            table.note(str(error), key)
            return
    if any(literal != literal.lower() for literal in rule.literals):
        table.note("`literals` are written in lower case: they are sought in the lower-cased line", "literals")
    if not rule.examples:
        table.note("a rule has `examples`, each with the masked part between « and »", "examples")
    for example in rule.examples:
        line = example.replace(_OPEN, "").replace(_CLOSE, "")
        wanted = re.findall(f"{_OPEN}(.+?){_CLOSE}", example)
        if not wanted or found_values(rule, line) != wanted:
            table.note(f"the rule masks {found_values(rule, line)} of the example {example!r}", "examples")
    for line in rule.harmless:
        if found := found_values(rule, line):
            table.note(f"the rule masks {found} of the harmless {line!r}", "harmless")


def found_values(rule: RedactionRule, line: str) -> list[str]:
    """What one rule alone masks of a line, from left to right."""
    return [line[start:end] for start, end in spans(rule, rule.compiled(), line, line.lower())]


def spans(rule: RedactionRule, pattern: re.Pattern[str], line: str, lowered: str) -> list[tuple[int, int]]:
    """The places of the values that the rule masks; `pattern` is the compiled rule, `lowered` the line in lower case."""
    if rule.literals and not any(literal in lowered for literal in rule.literals):
        return []
    result, at = [], 0
    while found := pattern.search(line, at):
        start, end = found.span(1)
        if start == end:
            at = max(found.end(), at + 1)
            continue
        if kept(rule, found[1]):
            # Another value may begin inside of the one that stays.
            at = max(start, found.start() + 1)
            continue
        result.append((start, end))
        at = end
    return result
