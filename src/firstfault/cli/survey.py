"""What this machine tells about itself: GPUs by `nvidia-smi`, versions by the folders of an interpreter or by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence

from firstfault.errors import UsageError
from firstfault.launch.request import Machine

PACKAGES = ("accelerate", "torch", "transformers", "deepspeed")
_SECONDS = 20
_MAX_TABLE_CHARS = 1 << 20
_QUERY = ("--query-gpu=name,driver_version", "--format=csv,noheader")
_ASK = (
    "import importlib.metadata as m\n"
    f"for name in {PACKAGES!r}:\n"
    "    try:\n        print(name, m.version(name))\n    except m.PackageNotFoundError:\n        print(name)\n"
)


def survey_machine(gpus: int | None) -> Machine:
    """The machine with `gpus` GPUs, else with those that nvidia-smi lists; unknown where there is no nvidia-smi."""
    name = driver = None
    if gpus is None:
        rows = _rows(("nvidia-smi", *_QUERY))
        if rows is not None:
            gpus = len(rows)
            name, _, driver = (part.strip() for part in rows[0].rpartition(",")) if rows else (None, "", None)
    cpus = os.cpu_count()
    return Machine(gpus=gpus, gpu_name=name, driver=driver, cpus=cpus, ports_in_use=PortsInUse())


class PortsInUse:
    """The ports that somebody listens on: the tables of the kernel are read when one is asked about, which takes its time."""

    def __contains__(self, port: object) -> bool:
        return port in listening_ports()


def listening_ports(tables: Sequence[str] = ("/proc/net/tcp", "/proc/net/tcp6")) -> frozenset[int]:
    """The ports that somebody listens on, by the tables of the kernel; none where there are no such tables."""
    ports: set[int] = set()
    for table in tables:
        try:
            with open(table, encoding="ascii") as file:  # noqa: PTH123
                rows = [row.split() for row in file.read(_MAX_TABLE_CHARS).splitlines()[1:]]
        except (OSError, ValueError):
            continue
        # Columns: number, local address:port in hexadecimal, remote one, state; 0A is LISTEN.
        ports.update(int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == "0A")
    return frozenset(ports)


def installed_versions(command: Sequence[str], python: str | None, given: str | None) -> dict[str, str]:
    """Versions by package: those given, else what `python` answers, else the folders beside the command's own program."""
    if given is not None:
        return _given(given)
    if python is not None:
        return _asked(python)
    program = find_program(command[0]) or find_program("python")
    return _beside(program) if program else {}


def _given(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(sign and name.strip() for name, sign, _ in pairs):
        raise UsageError(f"--versions takes NAME=VERSION,... and not {text}", hint="Such as --versions accelerate=1.15.0")
    return {name.strip(): version.strip() for name, _, version in pairs}


def _asked(python: str) -> dict[str, str]:
    rows = _rows((python, "-c", _ASK))
    if rows is None:
        raise UsageError(f"{python} does not answer", hint="--python takes a Python interpreter, such as .venv/bin/python")
    return {name: version for name, _, version in (row.partition(" ") for row in rows) if name in PACKAGES}


def _rows(command: tuple[str, ...]) -> list[str] | None:
    """The lines that a program prints; None if it is not there or fails."""
    import subprocess

    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return [row for row in done.stdout.splitlines() if row.strip()] if done.returncode == 0 else None


def find_program(program: str) -> str | None:
    """The path of a program as the shell finds it."""
    if "/" in program:
        return program if os.path.isfile(program) else None  # noqa: PTH113 - pathlib costs a fifth of the cold start
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = f"{folder}/{program}"
        if os.path.isfile(path):  # noqa: PTH113
            return path
    return None


def _beside(program: str) -> dict[str, str]:
    """Versions by the folders of the environment that the program belongs to; nothing where it has none."""
    library = f"{os.path.dirname(os.path.dirname(os.path.abspath(program)))}/lib"  # noqa: PTH100, PTH120
    found: dict[str, str] = {}
    for python in _names(library):
        if not python.startswith("python"):
            continue
        for name in _names(f"{library}/{python}/site-packages"):
            package, _, version = name.removesuffix(".dist-info").partition("-")
            if name.endswith(".dist-info") and package in PACKAGES:
                found.setdefault(package, version)
    return found


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []
