"""Launch commands in job scripts, shell text and pasted terminals: launcher, its options, the script and its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from firstfault.ingest.context import Context
from firstfault.ingest.dumps import literal
from firstfault.ingest.launcher_options import FLAGS, MODULES, SLURM_SHORT, TOOLS, option_name
from firstfault.ingest.lines import Line
from firstfault.ingest.shell import assignment, split_commands
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan

MAX_SETTINGS = 5_000
ELIDED = ("...", "…", "<...>", "[...]")
"""Words for what the user left out; the command then has the option `...`, and what it lacks is not known."""
MAX_LINE_CHARS = 16 << 10
MAX_CONTINUED = 200
MAX_NESTING = 4

Value = bool | int | float | str | None

_TRIGGER = lazy_pattern(
    r"\b(?:accelerate|torchrun|deepspeed|python[\d.]*|srun|mpirun|mpiexec|export)\b|^\s*#SBATCH|^\s*[A-Z]\w*="
)
_PROMPT = lazy_pattern(
    r"^\s*(?:\([\w.-]{1,40}\)\s*)?(?:[\w.-]{1,40}@[\w.-]{1,60}[:\s]?[^\s$#%]{0,200}\s?[$#%]|\[[^\]]{0,80}\]\s?[$#%]"
    r"|[$%❯!]|\++)\s*(?=\S)",
    needs=("$", "#", "%", "❯", "!", "+"),
)
_STARTS_WITH_LAUNCHER = lazy_pattern(
    r"^\s*(?:[A-Z_][A-Z0-9_]*=\S*\s+)*(?:accelerate\s+launch|torchrun|deepspeed|srun|mpirun|mpiexec|(?:\S*/)?python[\d.]*)\s"
    r"+(?=\S*[-=./\w]*(?:\.py\b|\s-|-))"
)
_SENTENCE = lazy_pattern(r"[a-z]{2,}[.?!,]\s*$|\s(?:fails|failed|works|hangs|but|and then|because|with the|on the)\s")
_SBATCH = lazy_pattern(r"^\s*#SBATCH\s+(?P<options>[^#]*)", needs="#SBATCH")
_SHELL_KINDS = frozenset({"command", "slurm"})
_PYTHON = lazy_pattern(r"python[\d.]*\Z")
# Programs that run the command that follows them.
_RUNNERS = frozenset(
    {
        "env", "nohup", "time", "exec", "sudo", "stdbuf", "nice", "ionice", "timeout", "numactl", "taskset",
        "conda", "mamba", "uv", "poetry", "pipenv", "docker", "podman", "singularity", "apptainer", "nsys", "ncu",
        "setsid", "catchsegv", "xvfb-run", "kubectl",
    }
)  # fmt: skip
_REMOTE = frozenset({"ssh", "bash", "sh", "pdsh", "zsh"})


def read_command(lines: Sequence[Line], ctx: Context) -> tuple[Setting, ...]:
    """Settings of every launch command found, and of `export` and `#SBATCH` lines; one span for all of one command.

    In a text that is no shell script a command counts only behind a prompt, or if the line begins like one and does not
    go on like a sentence.
    """
    found: list[Setting] = []
    for text, line in _logical_lines(lines):
        if len(found) >= MAX_SETTINGS:
            break
        reader = _Reader(line, ctx, text)
        sbatch = _SBATCH.match(text)
        if sbatch:
            found.extend(reader.sbatch(sbatch["options"]))
            continue
        prompt = _PROMPT.match(text)
        if not prompt and ctx.source.kind not in _SHELL_KINDS and not _looks_like_a_command(text):
            continue
        found.extend(reader.read(text[prompt.end() :] if prompt else text, prompt.end() if prompt else 0))
    return tuple(found[:MAX_SETTINGS])


def without_prompts(text: str) -> str:
    """The text with the prompts of a pasted terminal or notebook taken off (`$ `, `user@host:~$ `, `!`); a script as it is."""
    if text.startswith("#!"):
        return text
    return "".join(row[_behind_prompt(row) :] for row in text.splitlines(keepends=True))


def _behind_prompt(row: str) -> int:
    """Where the command begins: `$ x` has a prompt, `$X` is a variable, `!x` is a notebook's."""
    found = _PROMPT.match(row)
    return found.end() if found and (found[0][-1:].isspace() or found[0].strip() == "!") else 0


def _looks_like_a_command(text: str) -> bool:
    # The frames of a traceback stand in folders that are called like an interpreter.
    return not text.lstrip().startswith('File "') and bool(_STARTS_WITH_LAUNCHER.match(text)) and not _SENTENCE.search(text)


def _logical_lines(lines: Sequence[Line]) -> Iterator[tuple[str, Line]]:
    """Lines of interest with their continuations; a continuation mark becomes blanks, so positions stay true."""
    position = 0
    while position < len(lines):
        first = lines[position]
        position += 1
        text = first.text
        if not (_TRIGGER.search(text) or text.rstrip().endswith("\\")) or len(text) > MAX_LINE_CHARS:
            continue
        for following in lines[position : position + MAX_CONTINUED]:
            if not text.rstrip().endswith("\\"):
                break
            text = f"{text.rstrip()[:-1]}  {following.text}"
            position += 1
        if _TRIGGER.search(text):
            yield text[:MAX_LINE_CHARS], first


class _Reader:
    """The settings of one logical line."""

    def __init__(self, line: Line, ctx: Context, text: str) -> None:
        self._line = line
        self._ctx = ctx
        self._text = " ".join(text.split())[:1000]
        self._span = ctx.span(line)
        self._found: list[Setting] = []

    def sbatch(self, options: str) -> list[Setting]:
        """Settings of an `#SBATCH` line, under the long names of the options."""
        for command in split_commands(options):
            for name, value in _options(command.words):
                self._add("command", f"#SBATCH {SLURM_SHORT.get(name, name)}", value)
        return self._found

    def read(self, text: str, start: int = 0, depth: int = 0) -> list[Setting]:
        """Settings of the commands of the line."""
        for command in split_commands(text):
            at = self._line.offset + (start + command.start if depth == 0 else 0)
            self._span = SourceSpan(self._ctx.source.path, self._line.number, at)
            self._command(list(command.words), depth)
        return self._found

    def _add(self, family: str, key: str, value: Value) -> None:
        self._found.append(
            Setting(family=family, key=key, value=value, span=self._span, text=self._text, source_id=self._ctx.source_id)
        )

    def _command(self, words: list[str], depth: int) -> None:
        exported = words[:1] == ["export"] or words[:2] == ["declare", "-x"] or words[:1] == ["setenv"]
        if exported:
            words = [*(["=".join(words[1:3])] if words[0] == "setenv" else words[1:])]
        variables: list[tuple[str, str]] = []
        while words and (pair := assignment(words[0])):
            variables.append(pair)
            words.pop(0)
        position, remote = _launcher_at(words)
        if remote is not None and depth < MAX_NESTING:
            before = len(self._found)
            self.read(remote, depth=depth + 1)
            if len(self._found) == before:
                return
        elif position is None and not (variables and not words):
            return
        elif position is not None:
            variables += [pair for word in words[:position] if (pair := assignment(word))]
            if not self._launch(words[position:]):
                return
        for name, value in variables:
            self._add("environment", name, value)

    def _launch(self, words: list[str]) -> bool:
        """Read a launcher and what it starts; False if it starts no training."""
        outer: str | None = None
        outer_options: list[tuple[str, Value]] = []
        launcher, words = _launcher(words)
        if launcher in ("srun", "mpirun"):
            inner, _ = _launcher_at(words)
            if inner is None:
                return False
            outer_options = list(_options(words[:inner], launcher))
            outer = launcher
            launcher, words = _launcher(words[inner:])
        options, script, arguments = _split(launcher, words)
        if script is None or (launcher == "python" and (script in TOOLS or "-c" in dict(options))):
            return False
        if outer and launcher == "python":
            launcher = outer
            self._add_launcher(launcher, script, outer_options)
        else:
            self._add_launcher(launcher, script, options)
            if outer:
                self._add("command", "wrapper", outer)
                for name, value in outer_options:
                    self._add("command", f"{outer} {name}", value)
        for name, value in _options(arguments):
            self._add("arguments", name.lstrip("-").replace("-", "_"), value)
        return True

    def _add_launcher(self, launcher: str, script: str, options: list[tuple[str, Value]]) -> None:
        self._add("command", "launcher", launcher)
        self._add("command", "script", script)
        for name, value in options:
            self._add("command", name, value)


def _launcher_at(words: list[str]) -> tuple[int | None, str | None]:
    """Where the launcher stands behind programs that only run it, and the quoted command of a remote or nested shell."""
    for position, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name in ("torchrun", "deepspeed", "srun", "mpirun", "mpiexec") or _PYTHON.match(name):
            return position, None
        if name == "accelerate":
            return (position, None) if words[position + 1 : position + 2] == ["launch"] else (None, None)
        if name in _REMOTE and position == 0:
            quoted = [part for part in words[1:] if " " in part]
            return None, quoted[0] if quoted else None
        if position == 0 and name not in _RUNNERS and not word.startswith("-") and "=" not in word:
            return None, None
    return None, None


def _launcher(words: list[str]) -> tuple[str, list[str]]:
    """The launcher at the start of the words, and its own words; `python -m` of a launcher is that launcher."""
    name = words[0].rpartition("/")[2]
    rest = words[1:]
    if name == "accelerate":
        return name, rest[1:]
    if name == "mpiexec":
        return "mpirun", rest
    if _PYTHON.match(name):
        flags = 0
        while flags < len(rest) and rest[flags] in FLAGS["python"]:
            flags += 1
        if rest[flags : flags + 1] == ["-m"] and rest[flags + 1 : flags + 2] and rest[flags + 1] in MODULES:
            return MODULES[rest[flags + 1]], rest[flags + 2 :]
        return "python", rest
    return name, rest


def _split(launcher: str, words: list[str]) -> tuple[list[tuple[str, Value]], str | None, list[str]]:
    """Options of the launcher, the script, and the words behind it."""
    options: list[tuple[str, Value]] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word in ELIDED:
            options.append(("...", True))
            continue
        if not word.startswith("-") or word == "-":
            return options, word, words[position:]
        name, equals, value = word.partition("=")
        name = option_name(launcher, name)
        if launcher == "python" and name == "-m" and position < len(words):
            return options, words[position], words[position + 1 :]
        if equals:
            options.append((name, literal(value)))
        elif name in FLAGS[launcher] or position >= len(words):
            options.append((name, True))
        else:
            options.append((name, literal(words[position])))
            position += 1
    return options, None, []


def _options(words: Sequence[str], launcher: str = "") -> Iterator[tuple[str, Value]]:
    """Options and `key=value` words; a word behind an option that takes one is its value."""
    flags = FLAGS.get(launcher, frozenset())
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        name, equals, value = word.partition("=")
        if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            name = option_name(launcher, name) if launcher else name
            if equals:
                yield name, literal(value)
            elif name not in flags and position < len(words) and _is_value(words[position]):
                yield name, literal(words[position])
                position += 1
            else:
                yield name, True
        elif equals and re.fullmatch(r"\+{0,2}[\w.@/]+", name):
            yield name.lstrip("+"), literal(value)


def _is_value(word: str) -> bool:
    return not word.startswith("-") or word[1:2].isdigit()
