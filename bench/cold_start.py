"""What a whole run of the command line costs from a cold start, beside an interpreter that does nothing.

    python bench/cold_start.py                              the `firstfault` beside this interpreter
    python bench/cold_start.py --command venv/bin/firstfault --runs 40

CPU time (user and system) of the whole process, byte code cached, as an installation has it. The runs take turns, so that
other work on the machine meets all of them; the minimum is what the program needs, the median what a busy machine gives.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

BUDGET_MS = 150
YARDSTICK = "python -c pass"
_LIBRARY = "/opt/venv/lib/python3.11/site-packages"
_OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a total capacity of 23.69 GiB of "
    "which 512.00 MiB is free. Including non-PyTorch memory, this process has 23.17 GiB memory in use. Of the allocated "
    "memory 22.01 GiB is allocated by PyTorch, and 402.77 MiB is reserved by PyTorch but unallocated."
)
_POST = """\
Hi all, my run stops after a few minutes and I do not know why.

My config:

```yaml
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
downcast_bf16: 'no'
gpu_ids: all
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
use_cpu: false
```

and I start it with

```bash
accelerate launch --config_file two.yaml train.py
```

I get:

```
%s```

Any help is welcome, thanks!
"""


def traceback_paste(lines: int) -> str:
    """A traceback of `lines` lines, alone: the paste that most people begin with."""
    frames = [
        '  File "/home/user/project/train.py", line 88, in main',
        "    trainer.train()",
    ]
    for number in range((lines - 4) // 2):
        frames += [
            f'  File "{_LIBRARY}/torch/nn/modules/module.py", line {1700 + number}, in _call_impl',
            "    return forward_call(*args, **kwargs)",
        ]
    return "\n".join(["Traceback (most recent call last):", *frames, _OUT_OF_MEMORY, ""])


def mixed_paste(lines: int) -> str:
    """A post of `lines` lines: words, a configuration in YAML, the command, and a traceback."""
    return _POST % traceback_paste(lines - _POST.count("\n"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", type=Path, default=Path(sys.executable).with_name("firstfault"), help="what to run")
    parser.add_argument("--runs", type=int, default=20, help="of each case (default 20)")
    given = parser.parse_args()
    python = given.command.with_name("python")
    with tempfile.TemporaryDirectory() as folder:
        cases: dict[str, Sequence[str | Path]] = {
            YARDSTICK: [python, "-c", "pass"],
            "--version": [given.command, "--version"],
            "60 lines, a plain traceback": [given.command, _written(folder, "plain.txt", traceback_paste(60))],
            "60 lines, mixed with YAML": [given.command, _written(folder, "mixed.md", mixed_paste(60))],
        }
        costs = measure(cases, given.runs)
    base = min(costs[YARDSTICK])
    print(f"{'CPU ms':<30}{'min':>8}{'median':>8}{'x python':>10}   budget {BUDGET_MS}")
    for name, spent in costs.items():
        least = min(spent)
        print(f"{name:<30}{least:>8.0f}{statistics.median(spent):>8.0f}{least / base:>10.1f}")


def measure(cases: dict[str, Sequence[str | Path]], runs: int) -> dict[str, list[float]]:
    """CPU milliseconds of each run of each case; a first round, not counted, writes the byte code."""
    costs: dict[str, list[float]] = {name: [] for name in cases}
    for round_number in range(runs + 1):
        for name, command in cases.items():
            spent = _cpu_ms(command)
            if round_number:
                costs[name].append(spent)
    return costs


def _cpu_ms(command: Sequence[str | Path]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    # 1 is "a failure was diagnosed", 3 "undetermined".
    if process.returncode not in (0, 1, 3):
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def _written(folder: str, name: str, text: str) -> Path:
    path = Path(folder) / name
    path.write_text(text)
    return path


if __name__ == "__main__":
    main()
