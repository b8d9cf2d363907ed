"""Words of shell text: simple commands with their quoting undone, nothing expanded or run."""

from __future__ import annotations

import re

import msgspec

from firstfault.lazy_pattern import lazy_pattern

MAX_WORDS = 2_000
MAX_COMMANDS = 100

_ASSIGNMENT = lazy_pattern(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)\Z", re.S)
_REDIRECTION = lazy_pattern(r"(?:\d*|&)[<>]")


class SimpleCommand(msgspec.Struct, frozen=True):
    """The words between two operators of the shell, and where the first one starts in the text."""

    words: tuple[str, ...]
    start: int


def split_commands(text: str) -> tuple[SimpleCommand, ...]:
    """The simple commands of a logical line; comments, redirections and operators are left out."""
    splitter = _Splitter()
    for position, character in enumerate(text):
        if not splitter.feed(character, position):
            break
    return splitter.finish()


def assignment(word: str) -> tuple[str, str] | None:
    """Name and value of `NAME=value`."""
    found = _ASSIGNMENT.match(word)
    return (found["name"], found["value"]) if found else None


class _Splitter:
    def __init__(self) -> None:
        self._commands: list[SimpleCommand] = []
        self._words: list[str] = []
        self._word: list[str] = []
        self._quote = ""
        self._depth = 0
        self._escaped = False
        self._in_word = False
        self._start = 0
        self._skip_target = False

    def feed(self, character: str, position: int) -> bool:
        """Take one character; False at a comment or when there is too much."""
        if self._escaped:
            self._escaped = False
            self._take(character, position)
        elif self._quote:
            self._inside_quotes(character, position)
        elif character == "\\":
            self._escaped = True
        elif character in "'\"`":
            self._quote = character
            self._take("`" if character == "`" else "", position)
        elif character == "(" and self._word[-1:] == ["$"]:
            self._depth += 1
            self._take(character, position)
        elif self._depth:
            self._depth -= character == ")"
            self._take(character, position)
        elif character == "#" and not self._in_word:
            return False
        elif character.isspace():
            self._end_word()
        elif character in ";|\n" or (character == "&" and self._word[-1:] != [">"]):
            self._end_command()
        else:
            self._take(character, position)
        return len(self._words) < MAX_WORDS and len(self._commands) < MAX_COMMANDS

    def _inside_quotes(self, character: str, position: int) -> None:
        if character == self._quote:
            self._take("`" if character == "`" else "", position)
            self._quote = ""
        elif character == "\\" and self._quote == '"':
            self._escaped = True
        else:
            self._take(character, position)

    def _take(self, character: str, position: int) -> None:
        if not self._words and not self._in_word:
            self._start = position
        self._in_word = True
        self._word.append(character)

    def _end_word(self) -> None:
        if not self._in_word:
            return
        word = "".join(self._word)
        self._word, self._in_word = [], False
        redirection = _REDIRECTION.match(word)
        if self._skip_target:
            self._skip_target = False
        elif redirection:
            # `> file` names its target in the next word, `2>&1` and `>file` do not.
            self._skip_target = not word[redirection.end() :].strip("<>&")
        else:
            self._words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        if self._words:
            self._commands.append(SimpleCommand(tuple(self._words), self._start))
        self._words, self._skip_target = [], False

    def finish(self) -> tuple[SimpleCommand, ...]:
        """The commands read; an open quote ends with the text."""
        self._end_command()
        return tuple(self._commands)
