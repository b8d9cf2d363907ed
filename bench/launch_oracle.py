"""Record what the real `accelerate launch` decides, with pretended GPUs and the spawn intercepted.

`python bench/launch_oracle.py < CASES.jsonl > ROWS.jsonl`, in an interpreter that has torch and accelerate. A case is that of
`launch_grid.py`: gpus, yaml, default_yaml, cli, script_args, env, ports_in_use. Each runs in a forked child.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

CORES, CPUS = 16, 2
KEPT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "TMPDIR")
LAUNCHERS = (
    "simple_launcher",
    "multi_gpu_launcher",
    "deepspeed_launcher",
    "tpu_launcher",
    "tpu_pod_launcher",
    "sagemaker_launcher",
)


class Captured(BaseException):
    """The spawn that did not happen; no handler of the launcher catches it."""


def main() -> None:
    _pretend_packages()
    import accelerate.commands.accelerate_cli
    import accelerate.commands.launch
    import torch
    import torch.distributed.run

    version = {"accelerate": accelerate.__version__, "torch": torch.__version__.split("+")[0]}
    for line in sys.stdin:
        case = json.loads(line)
        row = _in_child(case)
        print(json.dumps({"case": case, "versions": version, **row}), flush=True)


def _in_child(case: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer = json.dumps(record(case))
        except BaseException as error:
            answer = json.dumps({"oracle_failed": f"{type(error).__name__}: {error}"})
        with os.fdopen(writing, "w") as out:
            out.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer_of_child:
        answer = answer_of_child.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def _pretend_packages() -> None:
    """A DeepSpeed that is only a name: the launcher asks it for one file name."""
    package, launcher, runner = (
        types.ModuleType(name) for name in ("deepspeed", "deepspeed.launcher", "deepspeed.launcher.runner")
    )
    runner.DEEPSPEED_ENVIRONMENT_NAME = ".deepspeed_env"  # type: ignore[attr-defined]
    sys.modules.update({"deepspeed.launcher": launcher, "deepspeed.launcher.runner": runner})
    del package


def record(case: dict[str, Any]) -> dict[str, Any]:
    """The row of one case."""
    top = Path(tempfile.mkdtemp())
    home, here = top / "home", top / "work"
    home.mkdir()
    here.mkdir()
    os.chdir(here)
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    os.environ.clear()
    os.environ.update({**kept, "HOME": str(home), **case.get("env", {})})
    os.environ.pop("PYTHONPATH", None)
    caller = dict(os.environ)
    words = _words(case, home, here)
    found: dict[str, Any] = {"launcher": None, "env_removed": [], "warnings": [], "log": []}
    _pretend_machine(case)
    _intercept(found, caller, here)
    _listen(found)
    try:
        from accelerate.commands.accelerate_cli import main as accelerate_main

        sys.argv = ["accelerate", "launch", *words]
        accelerate_main()
        found["error"] = {"type": "none", "message": "nothing was started"}
    except Captured:
        found["error"] = None
    except SystemExit as error:
        found["error"] = {"type": "SystemExit", "message": "".join(found.pop("stderr", [])), "code": error.code}
    except Exception as error:
        found["error"] = {
            "type": type(error).__name__,
            "message": str(error).replace(str(home), "<tmp>/home").replace(str(here), "<dir>"),
        }
    if found["error"] is not None:
        found["env_set"] = {}
    return found


def _words(case: dict[str, Any], home: Path, here: Path) -> list[str]:
    words: list[str] = []
    if "yaml" in case:
        (here / "config.yaml").write_text(_text(case["yaml"]), encoding="utf-8")
        words += ["--config_file", str(here / "config.yaml")]
    default = home / ".cache" / "huggingface" / "accelerate" / "default_config.yaml"
    if "default_yaml" in case:
        default.parent.mkdir(parents=True)
        default.write_text(_text(case["default_yaml"]), encoding="utf-8")
    import accelerate.commands.launch as launch
    from accelerate.commands.config import config_args

    config_args.default_config_file = launch.default_config_file = str(default)
    return [*words, *case.get("cli", ()), "train.py", *case.get("script_args", ())]


def _text(content: Any) -> str:
    import yaml

    return content if isinstance(content, str) else yaml.safe_dump(content)


def _pretend_machine(case: dict[str, Any]) -> None:
    import accelerate.commands.launch as launch
    import accelerate.utils.launch as prepare
    import psutil
    import torch

    gpus, busy = case["gpus"], set(case.get("ports_in_use", ()))
    torch.cuda._raw_device_count_nvml = lambda: gpus
    count = lambda: max(torch.cuda._device_count_nvml(), 0) if gpus else 0  # noqa: E731
    torch.cuda.device_count = count
    torch.cuda.is_available = torch.accelerator.is_available = lambda: count() > 0
    torch.accelerator.device_count = count
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    torch.cuda.is_bf16_supported = lambda *_, **__: case.get("bf16", True)
    psutil.cpu_count = lambda logical=True: CPUS if logical else CORES
    os.cpu_count = lambda: CPUS
    launch.is_deepspeed_available = lambda: True
    prepare.compare_versions = lambda *_: False
    prepare.is_port_in_use = lambda port=None: (29500 if port is None else port) in busy


def _intercept(found: dict[str, Any], caller: dict[str, str], here: Path) -> None:
    import subprocess

    import accelerate.commands.launch as launch
    import torch.distributed.run as run

    def changed(environment: dict[str, Any]) -> dict[str, str]:
        return {
            name: str(value).replace(str(here), "<dir>") for name, value in environment.items() if caller.get(name) != value
        }

    class Popen:
        def __init__(self, command: list[str], env: dict[str, Any] | None = None, **_: Any) -> None:
            for value in (env or {}).values():
                os.fsencode(value)
            found["spawn"] = {
                "kind": "popen",
                "argv": ["<python>" if word == sys.executable else str(word) for word in command],
            }
            alone = found["launcher"] == "simple_launcher"
            found.update(nnodes=1, nproc_per_node=1, world_size=1) if alone else None
            found["starter"] = "python" if alone else "deepspeed"
            found["env_set"] = changed(env or {})
            raise Captured

    class Elastic:
        def __init__(self, config: Any, entrypoint: Any) -> None:
            self.config, self.entrypoint = config, entrypoint

        def __call__(self, *argv: str) -> None:
            config = self.config
            settings = {key: value for key, value in config.rdzv_configs.items() if key != "rank"}
            least, most = config.min_nodes, config.max_nodes
            found.update(
                starter="torchelastic",
                nnodes=least if least == most else [least, most],
                nproc_per_node=config.nproc_per_node,
                world_size=most * config.nproc_per_node,
                rdzv_backend=config.rdzv_backend,
                rdzv_endpoint=config.rdzv_endpoint,
                node_rank=config.rdzv_configs.get("rank"),
                env_set=changed(dict(os.environ)),
                spawn={"kind": "elastic_launch", "argv": list(argv), "settings": settings},
            )
            raise Captured

    launch.subprocess = types.SimpleNamespace(Popen=Popen, CalledProcessError=subprocess.CalledProcessError)
    run.elastic_launch = lambda config, entrypoint: Elastic(config, entrypoint)
    for name in LAUNCHERS:
        real = getattr(launch, name)

        def named(*arguments: Any, _name: str = name, _real: Any = real) -> Any:
            found["launcher"] = _name
            return _real(*arguments)

        setattr(launch, name, named)


def _listen(found: dict[str, Any]) -> None:
    class Log(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "accelerate.commands.launch":
                found["log"].append(f"{record.name}: {record.getMessage()}")

    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    root.addHandler(Log())

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        found["warnings"].append(f"{category.__name__}: {message}")

    warnings.showwarning = show
    warnings.simplefilter("always")

    class Stderr:
        def write(self, text: str) -> int:
            if ": error: " in text:
                found["stderr"] = [text.strip()]
            return len(text)

        def flush(self) -> None:
            pass

    sys.stderr = Stderr()  # type: ignore[assignment]


if __name__ == "__main__":
    main()
