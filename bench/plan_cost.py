"""What `firstfault plan` costs from a cold start, and what `accelerate launch` itself costs until the script runs.

    python bench/plan_cost.py [--python INTERPRETER] [--runs 20]

CPU time (user and system) of whole processes, byte code cached, the runs in turn; the minimum of each. The second figure needs
an interpreter with accelerate.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

BUDGET_MS = 110
CONFIG = (
    'compute_environment: LOCAL_MACHINE\ndistributed_type: "NO"\nmixed_precision: "no"\nnum_machines: 1\nnum_processes: 1\n'
)
LAUNCH = ("launch", "--config_file", "config.yaml", "script.py")


def cpu_ms(command: tuple[str, ...], folder: Path) -> float:
    """CPU time of one run and its children."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "cache")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    known = ("--gpus", "4", "--versions", "accelerate=1.15.0", "--")
    commands = {
        "an interpreter that does nothing": (sys.executable, "-c", "pass"),
        f"firstfault plan (budget {BUDGET_MS} ms)": (sys.executable, "-m", "firstfault", "plan", *known, "accelerate", *LAUNCH),
    }
    if options.python:
        commands["accelerate launch"] = (options.python, "-m", "accelerate.commands.accelerate_cli", *LAUNCH)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
        (folder / "script.py").touch()
        best = {label: cpu_ms(command, folder) for label, command in commands.items()}
        for number in range(options.runs):
            for label, command in commands.items():
                if label != "accelerate launch" or number < 2:
                    best[label] = min(best[label], cpu_ms(command, folder))
    for label, spent in best.items():
        print(f"{label:<40}{spent:8.0f} ms CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
