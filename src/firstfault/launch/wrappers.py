"""The launch command behind the programs that only run it, with the variables that reach it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from firstfault.ingest.launcher_options import TOOLS
from firstfault.ingest.shell import assignment
from firstfault.launch.python import script_at
from firstfault.launch.request import no_files, program_name
from firstfault.launch.values import Given
from firstfault.launch.wrapper_table import CONTROL, SHELLS, WRAPPERS, Wrapper

MAX_NESTING = 8
MAX_WORDS = 4_000

Read = Callable[[str], str | None]

_PYTHON = re.compile(r"python[\d.]*\Z")
_SEVERAL = frozenset({"torchrun", "deepspeed", "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "accelerate-launch"})
_TORCH = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner")


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One launch command: its words from the launcher on, and the variables that it finds, each with its origin.

    `wrappers` are the programs that were taken off, outermost first; `where` is `run.sh:12`, empty for a typed command.
    """

    words: tuple[str, ...]
    environment: Mapping[str, Given]
    wrappers: tuple[str, ...] = ()
    where: str = ""
    notes: tuple[str, ...] = ()

    @property
    def starts_several(self) -> bool:
        """True for a launcher, False for a plain `python`."""
        name = program_name(self.words[0])
        if name in _SEVERAL or name == "accelerate":
            return True
        return any(module in self.words[1:6] for module in _TORCH)


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known while the programs are taken off: the words left, the variables, and what was passed on the way."""

    words: tuple[str, ...]
    environment: Mapping[str, Given]
    wrappers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    where: str = ""
    depth: int = 0


def unwrap(
    words: Sequence[str], environment: Mapping[str, Given], *, where: str = "", read: Read = no_files
) -> tuple[Command, ...]:
    """The launch commands among the words, which are those of one command line; none if it starts no training.

    `bash -c '...'` and a shell script that `read` finds may hold several. A variable that is not known stays as it is written.
    """
    return _unwrap(Layer(words=tuple(words)[:MAX_WORDS], environment=environment, where=where), read)


def _unwrap(layer: Layer, read: Read) -> tuple[Command, ...]:
    for _ in range(4 * MAX_NESTING):
        layer = _leading(layer)
        if not layer.words:
            return ()
        name = program_name(layer.words[0])
        if is_launcher(layer.words):
            return (_command(layer),)
        if name in SHELLS:
            return _inside_shell(layer, read)
        if name == "sbatch":
            return _inside_batch(layer, read)
        wrapper = WRAPPERS.get(name)
        if wrapper is None:
            return ()
        behind = _behind(layer, name, wrapper)
        if behind is None:
            return ()
        layer = behind
        if wrapper.joins and len(layer.words) == 1 and " " in layer.words[0].strip():
            return _text(layer, layer.words[0], read)
    return ()


def _leading(layer: Layer) -> Layer:
    """Without words of the shell and assignments before the command."""
    words, environment = list(layer.words), dict(layer.environment)
    while words:
        if words[0] in CONTROL:
            words.pop(0)
        elif words[0].startswith("(") and len(words[0]) > 1 and not words[0].startswith("(("):
            words[0] = words[0][1:]
            words[-1] = words[-1].removesuffix(")")
        elif pair := assignment(words[0]):
            environment[pair[0]] = Given(pair[1], "variable", _place(pair[0], layer.where))
            words.pop(0)
        else:
            break
    return msgspec.structs.replace(layer, words=tuple(word for word in words if word), environment=environment)


def is_launcher(words: Sequence[str]) -> bool:
    """True if the words start a training: a launcher, or python with a script or module that is no tool."""
    name = program_name(words[0])
    if name in _SEVERAL:
        return True
    if name == "accelerate":
        return len(words) > 1 and words[1] == "launch"
    if not _PYTHON.match(name):
        return False
    at = script_at(tuple(words))
    if at is None or words[at] in ("-c", "-"):
        return False
    return not (words[at] == "-m" and (at + 1 >= len(words) or words[at + 1] in TOOLS))


def _command(layer: Layer) -> Command:
    return Command(
        words=layer.words,
        environment=layer.environment,
        wrappers=layer.wrappers,
        where=layer.where,
        notes=layer.notes,
    )


def _behind(layer: Layer, name: str, wrapper: Wrapper) -> Layer | None:
    """The layer behind one program; None where its words do not lead to a command."""
    words, environment, notes = layer.words[1:], dict(layer.environment), list(layer.notes)
    if wrapper.verbs:
        at = next((index for index, word in enumerate(words[:6]) if word in wrapper.verbs), None)
        if at is None:
            return None
        words = words[at + 1 :]
    given, words = _own_options(words, wrapper)
    if wrapper.crossing == "none":
        environment = {}
    if wrapper.note and not (name == "sudo" and _has(given, "-E", "--preserve-env")):
        notes.append(wrapper.note)
    if name == "env" and _has(given, "-i", "--ignore-environment", "-"):
        environment = {}
    for option, value in given:
        if option in ("-u", "--unset") and name == "env":
            environment.pop(value, None)
        elif option in ("-e", "--env") and "=" in value:
            variable, _, text = value.partition("=")
            environment[variable] = Given(text, "variable", f"{name} {option} {variable}")
        elif option in ("-e", "--env") and value in layer.environment:
            environment[value] = layer.environment[value]
        elif option == "--gpus" and value:
            notes.append(f"{name} --gpus {value}: the command sees these GPUs, numbered from 0")
            granted = _granted(value)
            if granted is not None:
                environment["CUDA_VISIBLE_DEVICES"] = Given(granted, "derived", f"{name} --gpus {value}")
    if name in ("singularity", "apptainer") and not _has(given, "--nv", "--nvccli", "--rocm"):
        notes.append(f"{name} without --nv: no GPU is visible inside")
    if name == "taskset" and _has(given, "-c", "-a", "-ac", "-ca", "--cpu-list"):
        notes.append("taskset narrows the CPU cores")
    return msgspec.structs.replace(
        layer, words=words, environment=environment, wrappers=(*layer.wrappers, name), notes=tuple(notes), depth=layer.depth + 1
    )


def _granted(value: str) -> str | None:
    """The ids that a container counts its GPUs by, `0,1` for two; None for all of them."""
    count = value.strip("\"'")
    if "device=" in count:
        return ",".join(str(index) for index, _ in enumerate(count.partition("device=")[2].strip("\"'").split(",")))
    return ",".join(map(str, range(int(count)))) if count.isdecimal() and len(count) < 3 else None


def _own_options(words: tuple[str, ...], wrapper: Wrapper) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """The program's options with their values, and the words of the command behind them."""
    given: list[tuple[str, str]] = []
    position, plain = 0, 0
    while position < len(words):
        word = words[position]
        if word == "--":
            position += 1
            if plain >= wrapper.words or wrapper.verbs == ("exec",):
                break
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            position += 1
            if name in wrapper.values and not equals and position < len(words):
                value = words[position]
                position += 1
            given.append((name, value))
        elif plain < wrapper.words:
            plain += 1
            position += 1
        else:
            break
    return given, words[position:]


def _has(given: Sequence[tuple[str, str]], *names: str) -> bool:
    return any(name in names for name, _ in given)


def _inside_shell(layer: Layer, read: Read) -> tuple[Command, ...]:
    """The commands of `bash -c TEXT` or of a script file."""
    name, words = program_name(layer.words[0]), layer.words[1:]
    position = 0
    while position < len(words) and words[position].startswith("-"):
        if "c" in words[position] and not words[position].startswith("--"):
            text = next((word for word in words[position + 1 :] if not word.startswith("-")), "")
            return _text(msgspec.structs.replace(layer, wrappers=(*layer.wrappers, f"{name} -c")), text, read)
        position += 2 if words[position] in ("-o", "+o") else 1
    if position >= len(words):
        return ()
    text = read(words[position]) or ""
    inner = msgspec.structs.replace(layer, wrappers=(*layer.wrappers, name), where=words[position])
    return _text(inner, text, read) if text else ()


def _inside_batch(layer: Layer, read: Read) -> tuple[Command, ...]:
    """The commands of the script that `sbatch` is given, or of `--wrap`; its options become the job's SLURM_* variables."""
    from firstfault.launch.slurm import BATCH_VARIABLES, read_srun

    job = read_srun(layer.words)
    environment = dict(layer.environment)
    for name, value in job.options.items():
        for variable in BATCH_VARIABLES.get(name, ()):
            environment[variable] = Given(value, "flag", f"sbatch {name}")
    inner = msgspec.structs.replace(layer, environment=environment, wrappers=(*layer.wrappers, "sbatch"))
    if "--wrap" in job.options:
        return _text(inner, job.options["--wrap"], read)
    text = read(job.program[0]) if job.program else None
    return _text(msgspec.structs.replace(inner, where=job.program[0]), text, read) if text else ()


def _text(layer: Layer, text: str, read: Read) -> tuple[Command, ...]:
    from firstfault.launch.script import read_commands

    if layer.depth >= MAX_NESTING:
        return ()
    return read_commands(text, msgspec.structs.replace(layer, words=(), depth=layer.depth + 1), read)


def unwrap_layer(layer: Layer, read: Read) -> tuple[Command, ...]:
    """Like `unwrap`, within a text that is read already."""
    return _unwrap(layer, read)


def _place(name: str, where: str) -> str:
    return f"{name} at {where}" if where else name
