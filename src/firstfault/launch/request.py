"""What a plan is made of: the command's words and everything known about the machine that runs it.

The contract of the launchers: `plan_<launcher>(request: Request) -> Plan` is a pure function. It gets words whose first one is
the launcher (`wrappers` has taken off what stands before it) and leaves `rank0` and `processes` to `worker`, which fills them
from the finished start: `complete(plan, request) -> Plan`. A launcher never raises for what the user wrote: it sets `error`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

import msgspec

from firstfault.launch.values import Given
from firstfault.model.plan import PlannedError

Version = tuple[int, ...]


def program_name(word: str) -> str:
    """The name of a program without its folder, and without `.exe`."""
    return word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def no_files(path: str) -> str | None:
    """The reader of a plan that has no file at hand."""
    del path
    return None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as far as it is known. `gpus` counts the physical GPUs, before CUDA_VISIBLE_DEVICES; None is unknown.

    `cores` are physical CPU cores, `cpus` the logical ones that a process may run on. `ports_in_use` are ports of
    this machine that somebody listens on. `mpirun` is `openmpi` or `intel`, empty where there is none.
    """

    gpus: int | None = None
    gpu_name: str | None = None
    driver: str | None = None
    bf16: bool = True
    cores: int | None = None
    cpus: int | None = None
    ports_in_use: Container[int] = frozenset()
    mpirun: str | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One command to plan. `words` begin with the launcher; `environment` is what the launcher finds, each with its origin.

    `read` gives the text of a file, or None where it does not exist; `versions` are of packages (`accelerate`, `torch`,
    `transformers`, `deepspeed`): one that is not there is unknown, an empty text says that it is not installed. `directory` is
    the working directory, `home` the user's. `notes` were made while the command was found; `script` is the file in which the
    command stands, empty for a typed one.
    """

    words: tuple[str, ...]
    environment: Mapping[str, Given] = {}
    machine: Machine = Machine()
    versions: Mapping[str, str] = {}
    read: Callable[[str], str | None] = no_files
    home: str = "~"
    directory: str = "."
    notes: tuple[str, ...] = ()
    script: str = ""

    def variable(self, name: str) -> str | None:
        """The text of an environment variable, None if it is not set."""
        given = self.environment.get(name)
        return None if given is None else str(given.value)

    def version(self, package: str) -> Version | None:
        """The version as numbers (`1.15.0` -> (1, 15, 0)), None if it is not known."""
        text = self.versions.get(package)
        return None if text is None else version_numbers(text)


def version_numbers(text: str) -> Version:
    """The numbers at the start of a version: `2.13.0+cu128` -> (2, 13, 0), `1.8.0.dev0` -> (1, 8, 0)."""
    numbers: list[int] = []
    for part in text.split("+")[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


class ElasticStart(msgspec.Struct, frozen=True, kw_only=True):
    """What torchelastic starts from arguments of `torchrun`, by `torchrun.elastic_start(arguments, request)`.

    `arguments` are torchrun's parsed ones by name (`nproc_per_node`, `rdzv_endpoint`, ...):
    `torchrun_options.default_arguments(request)` gives those of a bare `torchrun` with the PET_* variables read; accelerate
    sets its own above them.
    `config` and `argv` are those of `Spawn`; `env_set` is what the stage adds (OMP_NUM_THREADS).
    """

    nnodes: int | tuple[int, int] | None = None
    node_rank: int | None = None
    nproc_per_node: int | None = None
    world_size: int | None = None
    rdzv_backend: str | None = None
    rdzv_endpoint: str | None = None
    env_set: dict[str, str] = {}
    log: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    error: PlannedError | None = None
    entrypoint: str = "<python>"
    argv: tuple[str, ...] = ()
    config: dict[str, Any] | None = None
