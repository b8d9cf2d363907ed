"""Text without what identifies people, machines and accounts, or opens doors: each value has one pseudonym in a capsule.

What a diagnosis needs stays: ranks, file names and line numbers, paths of libraries, numbers, exit codes, versions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, MutableMapping

import msgspec

from firstfault.knowledge.redaction import RedactionRule, spans

MAX_LINE_CHARS = 65_536
"""What follows in a longer line is left out: no rule has looked at it."""
_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_BLOCK_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----\s*$", re.ASCII)
_BLOCK_END = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_MAX_BLOCK_LINES = 400
_PSEUDONYM = re.compile(r"‹([a-z]{2,8}-\d{1,9})›", re.ASCII)
_DIGITS = re.compile(r"(\d+)", re.ASCII)
_SHORTEST_NAME = 4
_SECRETS = frozenset({"token", "key", "password", "cookie"})
_Span = tuple[int, int, str]


class Masked(msgspec.Struct, frozen=True):
    """How often a value was masked: its pseudonym (`host-1`), the kind and the rule that found it first. Never the value."""

    pseudonym: str
    kind: str
    rule: str
    times: int


class Redactor:
    """Masks line by line. A value has the same pseudonym in all text of one redactor.

    `learn` may read the text before: then hosts are numbered in the order of their names, and a host that is named clearly
    in one place only is masked everywhere. With `plain`, pseudonyms are `host-1` instead of `‹host-1›`: text that programs
    read again. `names`, by kind and value, are pseudonyms of a text that goes on here; new ones are added to them.
    """

    def __init__(
        self,
        rules: Iterable[RedactionRule],
        *,
        plain: bool = False,
        names: MutableMapping[tuple[str, str], str] | None = None,
        again: bool = False,
    ) -> None:
        self._rules = [(rule, rule.compiled(), re.compile(rule.follows, re.ASCII) if rule.follows else None) for rule in rules]
        self._plain = plain
        self._again = again
        self._names: MutableMapping[tuple[str, str], str] = {} if names is None else names
        self._counts = Counter(name.rpartition("-")[0] for name in self._names.values())
        self._found_by: dict[str, str] = {}
        self._times: Counter[str] = Counter()
        self._hosts: set[str] = set()
        self._known_hosts: re.Pattern[str] | None = None
        self._block_lines = 0
        self._previous = ""

    def learn(self, lines: Iterable[str], hosts: Iterable[str] = ()) -> None:
        """Note the hosts and addresses of the text, and `hosts`, so that pseudonyms sort as the names do."""
        found: dict[str, set[tuple[str, str]]] = {"host": {(host, "host file-name") for host in hosts}, "ip": set()}
        for line in lines:
            line = _without_colours(line)
            for start, end, rule in self._spans(line[:MAX_LINE_CHARS]):
                kind, _ = rule.split(" ")
                if kind in found:
                    found[kind].add((line[start:end], rule))
        for values in found.values():
            for value, rule in sorted(values, key=lambda item: (_natural(item[0]), item)):
                self._name(value, rule)

    def mask(self, line: str) -> str:
        """The line without colours and with every found value replaced; lines of a private key are replaced as a whole."""
        line = _without_colours(line)
        if self._block_lines:
            return self._mask_block(line)
        if _BLOCK_BEGIN.search(line):
            self._block_lines = _MAX_BLOCK_LINES
        cut = line[:MAX_LINE_CHARS]
        pieces, at = [], 0
        for start, end, rule in self._spans(cut):
            pieces += [cut[at:start], self._shown(self._name(cut[start:end], rule))]
            at = end
        pieces.append(cut[at:])
        return "".join(pieces)

    def mask_text(self, text: str) -> str:
        """A whole text, its line ends kept."""
        return "".join(self.mask(line) + end for line, end in lines_of(text))

    def mask_host(self, host: str) -> str:
        """The pseudonym of what is known to be the name of a host."""
        return self._shown(self._name(host, "host host-name"))

    def mask_name(self, name: str) -> str:
        """The name of a file or folder: hosts that the text names, e-mail addresses and tokens in it are masked."""
        stem, dot, suffix = name.rpartition(".")
        return f"{self.mask(stem)}.{suffix}" if dot and stem else self.mask(name)

    def mask_path(self, path: str) -> str:
        """A path: what the text names, and hosts, addresses and tokens in the names of its parts, are masked."""
        folder, slash, name = path.rpartition("/")
        return f"{self.mask(folder + slash)}{self.mask_name(name)}"

    def manifest(self) -> tuple[Masked, ...]:
        """What was masked so far, by kind and number."""
        return tuple(
            Masked(name, name.rpartition("-")[0], self._found_by.get(name, "seen before"), times)
            for name, times in sorted(self._times.items(), key=lambda item: _natural(item[0]))
        )

    def _mask_block(self, line: str) -> str:
        if _BLOCK_END.search(line):
            self._block_lines = 0
            return self.mask(line)
        self._block_lines -= 1
        if self._again and _is_masked(line):
            return line
        return self._shown(self._name(line.strip(), "key private-key-block")) if line.strip() else line

    def _spans(self, line: str) -> list[_Span]:
        """Places to mask from left to right. A secret that overlaps with a place widens it; a name that does leaves it."""
        lowered = line.lower()
        result: list[_Span] = []
        for rule, pattern, follows in self._rules:
            if follows is not None and not follows.search(self._previous):
                continue
            for start, end in spans(rule, pattern, line, lowered):
                touched = [item for item in result if item[0] < end and start < item[1]]
                if not touched:
                    result.append((start, end, f"{rule.kind} {rule.id}"))
                    continue
                if rule.kind not in _SECRETS:
                    continue
                first = touched[0]
                result = [item for item in result if item not in touched]
                result.append((min(start, *(t[0] for t in touched)), max(end, *(t[1] for t in touched)), first[2]))
        if self._hosts:
            for found in self._host_pattern().finditer(line):
                start, end = found.span(1)
                if not any(item[0] < end and start < item[1] for item in result):
                    result.append((start, end, "host known-host"))
        self._previous = line
        return sorted(item for item in result if not (self._again and _is_masked(line[item[0] : item[1]])))

    def _name(self, value: str, rule: str) -> str:
        kind, found_by = rule.split(" ")
        # `gn-08` and `gn-08.cluster.local` are one host.
        key = (kind, _short(value) if kind == "host" else value)
        name = self._names.get(key)
        if name is None:
            self._counts[kind] += 1
            name = self._names[key] = f"{kind}-{self._counts[kind]}"
            self._found_by[name] = found_by
            if kind == "host" and _is_distinct(key[1]):
                self._hosts.add(key[1])
                self._known_hosts = None
        return name

    def _host_pattern(self) -> re.Pattern[str]:
        """Finds the hosts named so far, also as a part of a file's name: `log_gn-08_0`, but not `gn-08-1`."""
        if self._known_hosts is None:
            names = "|".join(map(re.escape, sorted(self._hosts, key=lambda name: (-len(name), name))))
            self._known_hosts = re.compile(rf"(?<![A-Za-z0-9.-])({names})(?![A-Za-z0-9]|-[0-9])", re.ASCII)
        return self._known_hosts

    def _shown(self, name: str) -> str:
        self._times[name] += 1
        return name if self._plain else f"‹{name}›"


def _without_colours(line: str) -> str:
    # Between a name and its value they would hide the value.
    return _COLOURS.sub("", line) if "\x1b[" in line else line


def lines_of(text: str) -> list[tuple[str, str]]:
    """The lines of a text, each with its line end (a lone carriage return ends none)."""
    parts = re.split(r"(\r?\n)", text)
    return [(line, end) for line, end in zip(parts[::2], [*parts[1::2], ""], strict=True) if line or end]


def _is_masked(value: str) -> bool:
    """True if nothing but pseudonyms, and signs between them, is left in the value."""
    return "‹" in value and not any(sign.isalnum() for sign in _PSEUDONYM.sub("", value))


def without_marks(text: str) -> str:
    """Redacted text as the readers of logs take it: `‹host-1›` is `host-1`."""
    return _PSEUDONYM.sub(r"\1", text)


def _short(value: str) -> str:
    return value.partition(".")[0] if value[:1].isalpha() else value


def _is_distinct(name: str) -> bool:
    """True for a name that can hardly be a word of another meaning."""
    return len(name) >= _SHORTEST_NAME and any(c.isdigit() for c in name) and any(c.isalpha() for c in name) and "[" not in name


def _natural(text: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(text) if part]
