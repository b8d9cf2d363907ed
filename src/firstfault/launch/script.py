"""The launch commands of a shell script, each with the variables that are set where it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from firstfault.ingest.shell import assignment, split_commands
from firstfault.launch.expansion import defaults_taken, expand, holds_unknown
from firstfault.launch.request import no_files
from firstfault.launch.shell_lines import MAX_TEXT_CHARS, LogicalLine, logical_lines
from firstfault.launch.slurm import BATCH_VARIABLES, batch_options
from firstfault.launch.values import Given
from firstfault.launch.wrapper_table import CONTROL
from firstfault.launch.wrappers import Command, Layer, Read, unwrap_layer
from firstfault.lazy_pattern import lazy_pattern

MAX_COMMANDS = 200
MAX_VARIABLES = 2_000
MAX_EXPANDED_WORDS = 2_000

_OF_INTEREST = lazy_pattern(
    r"\$|=|\b(?:accelerate|torchrun|deepspeed|python[\d.]*|srun|mpirun|mpiexec|export|unset|source|set|for|fi|if|esac|case"
    r"|eval|(?:ba|z|da|k)?sh)\b"
)
_BATCH = lazy_pattern(r"\s*#SBATCH\s+(?P<options>.{1,2000})", needs="#SBATCH")
_WHOLE = lazy_pattern(r"\$(?:\{(?P<name>[A-Za-z_]\w*)(?:\[[@*]\])?\}|(?P<plain>[A-Za-z_]\w*))\Z")
_ARRAY = lazy_pattern(r"(?P<name>[A-Za-z_]\w*)(?P<more>\+?)=\((?P<items>.*)\)\s*;?\s*\Z", re.S)
_DECLARES = ("export", "declare", "typeset", "local", "readonly")
_RANGE = lazy_pattern(r"\{(-?[0-9]{1,6})\.\.-?[0-9]{1,6}\}\Z")


class Variable(msgspec.Struct, frozen=True):
    """The value of a shell variable, the words of an array, and its place; only an exported one reaches a command."""

    value: str
    where: str
    exported: bool = False
    items: tuple[str, ...] | None = None


def read_script(
    text: str, *, name: str, environment: Mapping[str, Given] | None = None, read: Read = no_files
) -> tuple[Command, ...]:
    """The launch commands of the script in their order; `#SBATCH` lines become the SLURM_* variables that sbatch sets."""
    return read_commands(text, Layer(words=(), environment=environment or {}, where=name), read)


def read_commands(text: str, layer: Layer, read: Read) -> tuple[Command, ...]:
    """The launch commands of a text that is run with the layer's variables."""
    shell = _Shell(layer, read)
    for line in logical_lines(text):
        shell.line(line)
    if len(text) > MAX_TEXT_CHARS:
        shell.notes.append(f"only the first {MAX_TEXT_CHARS} characters were read")
    notes = tuple(dict.fromkeys(shell.notes))[:20]
    return tuple(msgspec.structs.replace(command, notes=(*command.notes, *notes)) for command in shell.commands)


def launch_of(commands: Sequence[Command]) -> Command | None:
    """The command that is the training: the last launcher, else the last plain start; the others are named in its notes."""
    chosen = next((command for command in reversed(commands) if command.starts_several), None)
    chosen = chosen or (commands[-1] if commands else None)
    others = [command for command in commands if command is not chosen]
    if chosen is None or not others:
        return chosen
    places = ", ".join(f"{command.where or 'the same line'} ({command.words[0]})" for command in others[:5])
    return msgspec.structs.replace(chosen, notes=(*chosen.notes, f"the text starts {len(others)} more: {places}"))


class _Shell:
    """Variables line by line."""

    def __init__(self, layer: Layer, read: Read) -> None:
        self._layer = layer
        self._read = read
        self._environment = dict(layer.environment)
        self._variables: dict[str, Variable] = {}
        self._branches = 0
        self._all_exported = False
        self.commands: list[Command] = []
        self.notes: list[str] = []

    def line(self, line: LogicalLine) -> None:
        """Take one logical line."""
        where = f"{self._layer.where}:{line.number}" if self._layer.where else ""
        batch = _BATCH.match(line.text)
        if batch:
            self._batch(batch["options"], where)
            return
        if line.cut:
            self.notes.append(f"a quote or list that opens at line {line.number} is not closed")
        if line.text.lstrip().startswith("#") or not _OF_INTEREST.search(line.text):
            return
        if self._array(line.text, where):
            return
        for command in split_commands(line.text):
            if len(self.commands) >= MAX_COMMANDS:
                return
            self._command(command.words, where)

    def _batch(self, options: str, where: str) -> None:
        for name, value in batch_options(options).items():
            for variable in BATCH_VARIABLES.get(name, ()):
                before = self._environment.get(variable)
                if before is not None and before.source == "flag":
                    continue  # an option of sbatch itself
                self._environment[variable] = Given(value, "file", f"#SBATCH {name} at {where}" if where else f"#SBATCH {name}")

    def _array(self, text: str, where: str) -> bool:
        stripped = text.strip()
        for word in _DECLARES:
            stripped = stripped.removeprefix(f"{word} ").lstrip()
        found = _ARRAY.match(stripped)
        if found is None:
            return False
        items: list[str] = []
        for part in found["items"].splitlines():
            for command in split_commands(part):
                items.extend(self._expanded(command.words))
        before = self._variables.get(found["name"])
        if found["more"] and before is not None and before.items is not None:
            items = [*before.items, *items]
        kept = tuple(items[:MAX_EXPANDED_WORDS])
        self._set(found["name"], Variable(" ".join(kept), where, items=kept))
        return True

    def _command(self, raw: tuple[str, ...], where: str) -> None:
        words = list(raw)
        self._count_branches(words)
        while words and words[0] in CONTROL:
            words.pop(0)
        if not words:
            return
        if words[0] == "for" and words[2:3] == ["in"]:
            self._loop(words, where)
        elif words[0] in _DECLARES:
            self._assign_all(words[1:], where, exported=words[0] == "export" or "-x" in words)
        elif words[0] == "set":
            if any(assignment(word) for word in words[1:2]):
                self.notes.append(
                    f"`set {words[1]}` sets a variable in cmd.exe; in a Unix shell, as planned here, it sets none"
                )
            self._all_exported = self._all_exported or "-a" in words or "allexport" in words
        elif words[0] == "unset":
            for name in words[1:]:
                self._variables.pop(name, None)
                self._environment.pop(name, None)
        elif words[0] in ("source", "."):
            self.notes.append(f"variables of {words[1] if len(words) > 1 else 'a file'} are not known here")
        elif all(assignment(word) or re.match(r"[A-Za-z_]\w*\+=", word) for word in words):
            self._assign_all(words, where, exported=self._all_exported)
        else:
            self._run(words, where)

    def _count_branches(self, words: Sequence[str]) -> None:
        self._branches += sum(word in ("if", "case") for word in words[:1])
        if words[0] in ("fi", "esac"):
            self._branches = max(0, self._branches - 1)

    def _loop(self, words: Sequence[str], where: str) -> None:
        """The first turn stands for all."""
        values = self._expanded(words[3:])
        first = values[0] if values else ""
        found = _RANGE.match(first)
        self._variables[words[1]] = Variable(found[1] if found else first, f"{where}, first turn of the loop")
        self.notes.append(f"{words[1]} runs through a loop: planned for its first turn")

    def _assign_all(self, words: Sequence[str], where: str, *, exported: bool) -> None:
        for word in words:
            name, plus, _ = word.partition("+=")
            if plus and name.isidentifier():
                before = self._lookup(name)
                value = word[len(name) + 2 :]
                self._set(name, Variable((before or f"${{{name}}}") + self._put_in(value), where, exported))
            elif pair := assignment(word):
                self._set(pair[0], Variable(self._put_in(pair[1]), where, exported))
            elif exported and word in self._variables:
                self._set(word, msgspec.structs.replace(self._variables[word], exported=True))

    def _set(self, name: str, variable: Variable) -> None:
        """A value that one branch of the script sets differently from another is not known."""
        before = self._variables.get(name)
        if len(self._variables) >= MAX_VARIABLES and before is None:
            return
        if self._branches and before is not None and before.value != variable.value:
            variable = msgspec.structs.replace(variable, value=f"${{{name}}}", items=None)
        exported = variable.exported or (before is not None and before.exported) or name in self._environment
        self._variables[name] = msgspec.structs.replace(variable, exported=exported)
        if exported:
            self._environment[name] = Given(
                variable.value, "variable", f"{name} at {variable.where}" if variable.where else name
            )

    def _run(self, words: Sequence[str], where: str) -> None:
        expanded = self._expanded(words)
        if expanded[:1] == ["eval"]:
            expanded = [word for command in split_commands(" ".join(expanded[1:]))[:1] for word in command.words]
        if not expanded:
            return
        layer = msgspec.structs.replace(
            self._layer, words=tuple(expanded), environment=dict(self._environment), where=where or self._layer.where
        )
        for command in unwrap_layer(layer, self._read):
            self.commands.append(self._noted(command, words))

    def _noted(self, command: Command, words: Sequence[str]) -> Command:
        notes = list(command.notes)
        if self._branches:
            notes.append(
                f"{command.where or 'the command'} stands in a branch of an `if` or `case`: whether it runs is not known"
            )
        if any(word in ("$@", "$*", "${@}") for word in words):
            notes.append("the arguments of the script ($@) are not known: options of the launcher may stand among them")
        nodes = command.environment.get("SLURM_NNODES")
        if (
            nodes is not None
            and nodes.source == "file"
            and str(nodes.value) not in ("0", "1")
            and "srun" not in command.words[:1]
        ):
            notes.append(f"the batch script runs this on the first of its {nodes.value} nodes only ({nodes.where})")
        return msgspec.structs.replace(command, notes=tuple(notes))

    def _expanded(self, words: Sequence[str]) -> list[str]:
        """The words with what is known put in; a word that is one variable falls into the words of its value."""
        found: list[str] = []
        for word in words:
            whole = _WHOLE.match(word) if "$" in word else None
            variable = self._variables.get(whole["name"] or whole["plain"]) if whole else None
            if variable is not None and variable.items is not None:
                found.extend(variable.items)
            elif variable is not None and not (holds_unknown(variable.value) and "(" in variable.value):
                found.extend(variable.value.replace("\\\n", " ").split())
            else:
                found.append(self._put_in(word))
            if len(found) > MAX_EXPANDED_WORDS:
                break
        return found[:MAX_EXPANDED_WORDS]

    def _put_in(self, word: str) -> str:
        taken = defaults_taken(word, self._lookup)
        if taken:
            self.notes.append(f"{', '.join(taken)} is not set as far as is known: the default in the script is taken")
        return expand(word, self._lookup)

    def _lookup(self, name: str) -> str | None:
        variable = self._variables.get(name)
        if variable is not None:
            return variable.value
        given = self._environment.get(name)
        return None if given is None else str(given.value)
