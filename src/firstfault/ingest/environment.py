"""Versions, variables, GPUs and memory of the machine, from the tools that print them."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.ingest.context import Context
from firstfault.ingest.line_template import VARIABLE as PREFIX_TEMPLATE
from firstfault.ingest.lines import Line
from firstfault.ingest.nvidia_smi import read_nvidia_smi
from firstfault.ingest.shell import assignment, split_commands
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting
from firstfault.units import parse_size

MAX_SETTINGS = 5_000

_ENVIRONMENT_KINDS = frozenset({"environment", "nvidia_smi"})
_PINNED = lazy_pattern(r"^(?:\[(?:pip3?|conda)\] )?(?P<name>[A-Za-z][\w.-]{0,80})==(?P<version>\d[\w.+!-]{0,60})$", needs="==")
_CONDA = lazy_pattern(r"^\[(?:pip3?|conda)\] (?P<name>[A-Za-z][\w.-]{0,80})\s+(?P<version>\d[\w.+!-]{0,60})\b", needs="] ")
_COLUMNS = lazy_pattern(r"^(?P<name>[A-Za-z][\w.-]{0,80})\s{2,}v?(?P<version>\d+\.[\w.+!-]{1,60})(?:\s{2,}\S+)?\s*$")
_TOOL_ROW = lazy_pattern(r"^(?P<name>[a-z][\w-]{1,40}) v?(?P<version>\d+\.\d[\w.+!-]{0,60})\s*$")
_VERSION_ROW = lazy_pattern(
    r"^\s*(?:- )?`{0,2}(?P<name>[A-Za-z][A-Za-z_ -]{1,30}?)`{0,2} version(?: \(GPU\??\))?: (?P<version>v?\d+\.[\w.+!-]{1,60})",
    needs=" version",
)
_VARIABLE = lazy_pattern(r"^\s*(?:export |declare -x )?[A-Z_][A-Z0-9_]{0,80}=", needs="=")
# In a log a single line counts only for variables that training programs and launchers read.
_TRAINING_VARIABLE = lazy_pattern(
    r"(?:CUDA|NCCL|TORCH|PYTORCH|ACCELERATE|DEEPSPEED|SLURM|OMP|HF|FSDP|GLOO|MASTER|PMI|OMPI|TORCHELASTIC|XLA|HIP|ROCR|NVIDIA)_"
    r"|(?:RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|LD_LIBRARY_PATH|LD_PRELOAD)\Z"
)
_RAM = lazy_pattern(
    r"^\s*(?:- )?(?:System RAM|[Hh]ost (?:ram|RAM|memory)|Total (?:RAM|memory))\s*:?\s+"
    r"(?P<size>[0-9]{1,15}(?:\.[0-9]{1,9})?\s?[KMGT]i?B)\b",
    needs=("System RAM", "ost ram", "ost RAM", "ost memory", "Total RAM", "Total memory"),
)
_FREE = lazy_pattern(r"^Mem:\s+(?P<size>[0-9]{1,15}(?:\.[0-9]{1,9})?[KMGT]i)\s", needs="Mem:")
_GPU_TIMES = lazy_pattern(
    r"(?:^|\s)(?P<count>\d{1,3})\s?x\s+(?P<name>(?:NVIDIA|Tesla|GeForce|Quadro|AMD Instinct)\b[^,(]{0,60})"
)
_GPU_NUMBERED = lazy_pattern(r"^GPU (?P<index>\d{1,3}): (?P<name>[^(\n]{2,80}?)\s*(?:\((?P<note>[^)]*)\).*)?$", needs="GPU ")
_DRIVER = lazy_pattern(r"\b[Dd]river(?: [Vv]ersion)?:? +(?P<version>\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b", needs="river")
_PACKAGE_NAMES = {"pytorch": "torch", "numpy": "numpy", "python": "python", "huggingface_hub": "huggingface-hub"}


def read_environment(lines: Sequence[Line], ctx: Context) -> tuple[Setting, ...]:
    """Packages, variables, GPUs, driver and memory, as `accelerate env`, `collect_env`, pip, `env` and nvidia-smi print them.

    Versions as bare rows (`torch 2.5.1`) count in an environment file only: a log may print any word before a number.
    """
    reader = _Environment(ctx)
    for line in lines:
        reader.read(line)
    return (*reader.settings(), *read_nvidia_smi(lines, ctx))


class _Environment:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._whole = ctx.source.kind in _ENVIRONMENT_KINDS
        self._found: list[Setting] = []
        self._gpus: dict[int, Line] = {}
        self._columns = False

    def read(self, line: Line) -> None:
        """Read one line."""
        if len(self._found) >= MAX_SETTINGS or not line.text.strip():
            return
        text = line.text[:4096]
        if self._package(text, line):
            return
        if _VARIABLE.match(text):
            self._variables(text, line)
        elif ram := _RAM.match(text) or _FREE.match(text):
            size = ram["size"]
            self._add("environment", "host.ram_bytes", parse_size(f"{size}B" if size.endswith("i") else size), line)
        elif "UUID" not in text and (gpu := _GPU_NUMBERED.match(text)):
            self._gpus[int(gpu["index"])] = line
            self._add("environment", f"gpu.{gpu['index']}.name", gpu["name"], line)
        elif self._whole and (gpus := _GPU_TIMES.search(text)):
            self._add("environment", "gpu.count", int(gpus["count"]), line)
            self._add("environment", "gpu.name", gpus["name"].strip(), line)
        if driver := _DRIVER.search(text):
            self._add("environment", "gpu.driver", driver["version"], line)

    def _variables(self, text: str, line: Line) -> None:
        """`NAME=value` words; with other words between them it is a command, and what a shell would expand is unknown."""
        commands = split_commands(text)
        words = commands[0].words if len(commands) == 1 else ()
        if words[:1] == ("export",) or words[:2] == ("declare", "-x"):
            words = words[1 if words[0] == "export" else 2 :]
        pairs = [assignment(word) for word in words]
        if None in pairs:
            return
        for name, value in filter(None, pairs):
            known = "$" not in value or name == PREFIX_TEMPLATE
            if known and (self._whole or _TRAINING_VARIABLE.match(name)):
                self._add("environment", name, value, line)

    def _package(self, text: str, line: Line) -> bool:
        heading = text.split()
        if heading[:2] == ["Package", "Version"]:
            self._columns = True
            return True
        found = _PINNED.match(text) or _CONDA.match(text) or _VERSION_ROW.match(text)
        if not found and (self._columns or self._whole):
            found = _COLUMNS.match(text) or (_TOOL_ROW.match(text) if self._whole else None)
        if not found:
            self._columns = self._columns and set(text.strip()) <= {"-", " "}
            return False
        name = found["name"].strip().lower().replace(" ", "-")
        if name not in ("cuda", "driver", "nvidia-driver", "cuda-runtime"):
            self._add("package", _PACKAGE_NAMES.get(name, name), found["version"], line)
        return name not in ("driver", "nvidia-driver")

    def _add(self, family: str, key: str, value: bool | int | float | str | None, line: Line) -> None:
        self._found.append(
            Setting(
                family=family,
                key=key,
                value=value,
                span=self._ctx.span(line),
                text=line.text.strip()[:500],
                source_id=self._ctx.source_id,
            )
        )

    def settings(self) -> list[Setting]:
        """What was read, with the number of GPUs if they were listed one by one."""
        if self._gpus and sorted(self._gpus) == list(range(len(self._gpus))):
            self._add("environment", "gpu.count", len(self._gpus), self._gpus[0])
        return self._found
