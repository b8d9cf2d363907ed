"""Hold `plan` against a grid recorded from the real launchers: `python bench/launch_grid.py FILE.jsonl [--all]`.

Prints every value that differs and ends with `N/M`, the rows (for a grid of versions: rows x versions) without a difference.
`--all` also compares what the contract does not promise: messages of the launchers and the call that starts the processes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import yaml

from firstfault.launch.plan import plan_known
from firstfault.launch.request import Machine, Request
from firstfault.launch.values import Given
from firstfault.model.plan import Plan

HOME = "<tmp>/home"
DIRECTORY = "<dir>"
CONFIG = f"{DIRECTORY}/config.yaml"
CORES, CPUS = 16, 2
"""Physical cores and logical CPUs of the machine on which the grids were recorded, as the recording gave them."""

PROMISED = (
    "launcher", "starter", "nnodes", "node_rank", "nproc_per_node", "world_size", "rdzv_backend", "rdzv_endpoint", "env_set",
    "env_removed", "error", "warnings", "rank0",
)  # fmt: skip
BESIDES = ("log", "spawn")
SHORTENED_CHARS = 150
"""The grid of versions has messages and warnings of the launcher in one list, each cut behind at least so many characters."""
AGENT = ("TORCHELASTIC_SIGNALS_TO_HANDLE",)
ABSENT = {"torch_xla": "", "transformer_engine": "", "msamp": "", "torchao": "", "sagemaker": "", "nvidia-ml-py": ""}


def request_of(case: dict[str, Any], versions: dict[str, str]) -> Request:
    """The request that a row of the grid describes."""
    files: dict[str, str] = {}
    words: list[str] = []
    tool = case.get("tool", "accelerate")
    if tool == "accelerate":
        words = ["accelerate", "launch"]
        if "yaml" in case:
            words += ["--config_file", CONFIG]
            files[CONFIG] = _text(case["yaml"])
        if "default_yaml" in case:
            files[f"{HOME}/.cache/huggingface/accelerate/default_config.yaml"] = _text(case["default_yaml"])
    else:
        words = [tool]
    words += [*case.get("cli", ()), "train.py", *case.get("script_args", ())]
    environment = {name: Given(value, "variable", name) for name, value in case.get("env", {}).items()}
    machine = Machine(
        gpus=case["gpus"],
        gpu_name=case.get("gpu_name"),
        driver=case.get("driver"),
        bf16=case.get("bf16", True),
        cores=CORES,
        cpus=CPUS,
        ports_in_use=frozenset(case.get("ports_in_use", ())),
        mpirun=(case.get("mpirun") or "") if "mpirun" in case else None,
    )
    known = {**ABSENT, **versions, **({"deepspeed": ""} if case.get("deepspeed") is False else {})}
    return Request(
        words=tuple(words),
        environment=environment,
        machine=machine,
        versions=known,
        read=files.get,
        home=HOME,
        directory=DIRECTORY,
    )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else yaml.safe_dump(content)


def differences(recorded: dict[str, Any], plan: Plan, names: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    """The values of a row that the plan does not have: name, recorded, planned."""
    planned = msgspec.to_builtins(plan)
    if "log" not in recorded and "warnings" in recorded:
        said = [*plan.warnings, *(text for text in plan.log if not text.startswith("transformers."))]
        planned["warnings"] = [_shortened(text, other) for text, other in zip_longest(said, recorded["warnings"]) if text]
    elif "worker_envs" in (recorded.get("spawn") or {}):
        # What torchelastic's agent puts into its own environment was recorded with these rows only.
        planned["env_set"] |= {name: plan.processes[0].env[name] for name in AGENT}
        recorded = {**recorded, "spawn": {**recorded["spawn"], "argv": recorded["spawn"]["argv"][0]}}
    elif recorded.get("rank0") and _hides_gpus(recorded, plan):
        recorded = {**recorded, "rank0": {key: one for key, one in recorded["rank0"].items() if key != "visible_gpus"}}
    for name in names:
        if name in recorded:
            yield from _differ(name, recorded[name], planned[name])


def _hides_gpus(recorded: dict[str, Any], plan: Plan) -> bool:
    """True for `--virtual_local_rank`, with which torchelastic's agent gives each worker its one GPU.

    In rows without `worker_envs` the agent was not run: rank 0 was recorded in front of it (with it, tr-deep-088 says 1).
    """
    config = (recorded.get("spawn") or {}).get("config") or (plan.spawn.config if plan.spawn else None) or {}
    return bool(config.get("virtual_local_rank"))


def _shortened(text: str, recorded: str | None) -> str:
    """The text, cut where the recorded one was cut."""
    return recorded if recorded and len(recorded) > SHORTENED_CHARS and text.startswith(recorded) else text


def _differ(name: str, recorded: Any, planned: Any) -> Iterator[tuple[str, Any, Any]]:
    if name == "error" and recorded and planned:
        recorded = {key: value for key, value in recorded.items() if key != "raised_in"}
    if name == "rank0":
        if not recorded or "skipped" in recorded:
            return
        recorded = {key: value for key, value in recorded.items() if value != "None"}
    if name == "spawn" and recorded:
        recorded = {key: value for key, value in recorded.items() if key in ("argv", "config", "entrypoint")}
    if isinstance(recorded, dict) and isinstance(planned, dict):
        whole = name in ("env_set", "spawn.config")
        keys = sorted({*recorded, *planned}) if whole else sorted(recorded)
        for key in keys:
            yield from _differ(f"{name}.{key}", recorded.get(key), planned.get(key))
    elif not _same(recorded, planned):
        yield name, recorded, planned


def _same(recorded: Any, planned: Any) -> bool:
    if isinstance(planned, str) and "*" in planned and isinstance(recorded, (str, int)):
        before, _, after = planned.partition("*")
        return str(recorded).startswith(before) and str(recorded).endswith(after)
    if isinstance(recorded, list) and isinstance(planned, (list, tuple)):
        return len(recorded) == len(planned) and all(_same(one, other) for one, other in zip(recorded, planned, strict=True))
    return bool(recorded == planned)


def rows(path: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], dict[str, str]]]:
    """Name, case, recorded values and versions of every comparison in the file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "by_version" not in row:
            yield row["id"], row["case"], row, row["versions"]
            continue
        for version, recorded in row["by_version"].items():
            yield f"{row['id']} {version}", row["case"], recorded, {"accelerate": version}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    names = PROMISED + (BESIDES if options.all else ())
    right = total = 0
    for name, case, recorded, versions in rows(options.file):
        total += 1
        plan = plan_known(request_of(case, versions))
        found = list(differences(recorded, plan, names))
        right += not found
        for key, was, planned in found:
            print(f"{name}: {key}: recorded {was!r}, planned {planned!r}")
    print(f"{right}/{total}")
    return int(right != total)


if __name__ == "__main__":
    sys.exit(main())
