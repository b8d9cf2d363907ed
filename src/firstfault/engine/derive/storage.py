"""Which file the failing exception names, and what that file is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.fact import FactSet

PRODUCES = ("exc.path", "exc.path_role")

_FILE_ERRORS = frozenset(
    {
        "OSError",
        "IOError",
        "FileNotFoundError",
        "FileExistsError",
        "PermissionError",
        "IsADirectoryError",
        "NotADirectoryError",
    }
)
_FILE_CLASSES = frozenset({"storage_errno", "checkpoint_error"})
_QUOTED = lazy_pattern(r"(?:'([^'\n]{1,1024})'|\"([^\"\n]{1,1024})\")")
_DATA_SITES = frozenset({"dataset", "collate", "dataloader", "batch_prepare"})
_CONFIG_SITES = frozenset({"launcher_config", "argparse", "deepspeed_config"})
_CACHE_VARIABLES = frozenset(
    {
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_DATASETS_CACHE",
        "TRANSFORMERS_CACHE",
        "XDG_CACHE_HOME",
        "TORCH_HOME",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
    }
)
_CACHE = lazy_pattern(r"/\.cache/|/\.triton/|/huggingface/(?:hub|datasets)/|/torchinductor_[^/]*/")
_CHECKPOINT = lazy_pattern(
    r"\.(?:safetensors|pt|pth|ckpt|distcp)\Z|\.index\.json\Z"
    r"|(?:\A|/)(?:(?:pytorch_model|adapter_model|model|optimizer|training_args)[^/]*\.bin|trainer_state\.json|\.metadata)\Z"
    r"|(?:\A|/)(?:checkpoint|global_step|epoch|step|ckpt)[-_=]?[0-9]+(?:/|\Z)",
)
_SHARED_MEMORY = "/dev/shm/"


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """The path in the message of a file error, and its role."""
    event = scope.event
    path = _path(scope)
    if event is None or path is None:
        return
    spans = (event.span,)
    yield Fact(name="exc.path", value=path, origin="the exception's message", spans=spans)
    role = _role(path, facts.value("exc.site"), scope)
    yield Fact(name="exc.path_role", value=role, origin=f"the path {path[-200:]}", spans=spans, basis="derived")


def _path(scope: Scope) -> str | None:
    event, block = scope.event, scope.block
    if event is None:
        return None
    for other in scope.on_the_line:
        named = other.captures.get("path")
        if isinstance(named, str) and other.fault_class in _FILE_CLASSES:
            return named.strip()
    kind = block.type.rpartition(".")[2] if block is not None else ""
    if kind not in _FILE_ERRORS and scope.attribution.fault_class not in _FILE_CLASSES:
        return None
    message = block.message if block is not None and block.type else event.text
    # A failed rename names two files; the second is the one that was to be made.
    paths: list[str] = [one or two for one, two in _QUOTED.findall(message)] if "[Errno " in message else []
    return paths[-1] if paths else None


def _role(path: str, site: object, scope: Scope) -> str:
    if path.startswith(_SHARED_MEMORY):
        return "shm"
    if _CACHE.search(path) or any(path.startswith(f"{root}/") for root in _roots(scope, "environment", _CACHE_VARIABLES)):
        return "cache"
    if site in _DATA_SITES:
        return "dataset"
    if site in _CONFIG_SITES:
        return "config"
    outputs = _roots(scope, "arguments", frozenset({"output_dir", "save_dir", "ckpt_dir", "resume_from_checkpoint"}))
    if _CHECKPOINT.search(path) or any(path == root or path.startswith(f"{root}/") for root in outputs):
        return "checkpoint"
    return "socket" if path.endswith(".sock") else "other"


def _roots(scope: Scope, family: str, keys: frozenset[str]) -> Iterator[str]:
    for setting in scope.settings():
        if setting.family == family and setting.key in keys and isinstance(setting.value, str):
            root = setting.value.rstrip("/")
            if root:
                yield root
