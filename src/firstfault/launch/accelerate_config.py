"""accelerate's configuration file: which one is read, and what it holds, with the line of every key."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.flat_yaml import Row, flat_rows
from firstfault.launch.accelerate_names import (
    DEFAULTS,
    ENVIRONMENTS,
    SAGEMAKER_TYPES,
    distributed_types,
    keys,
    required_keys,
)
from firstfault.launch.request import Request, Version
from firstfault.launch.values import Given

if TYPE_CHECKING:
    import yaml

MAX_CONFIG_CHARS = 256 << 10
MAX_VALUES = 20_000
"""Values counted with every repetition by an alias: an accelerate configuration has some fifty."""


class TooLarge(Exception):
    """The file is larger than any configuration: nothing of it is read."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration after accelerate's own completion: every key of the version, each with its place.

    `given` are the keys that stand in the file, nested ones dotted; `sagemaker` says that the file is one for SageMaker.
    """

    path: str
    values: Mapping[str, Given]
    given: Mapping[str, Given]
    sagemaker: bool = False

    def value(self, name: str) -> Any:
        """The value of a top-level key; one that this kind of file does not have fails as it does in accelerate."""
        if name not in self.values:
            raise AttributeError(f"{self._name!r} object has no attribute {name!r}")
        return self.values[name].value

    @property
    def _name(self) -> str:
        return "SageMakerConfig" if self.sagemaker else "ClusterConfig"


def default_path(request: Request) -> str:
    """Where accelerate looks for a configuration that nobody named."""
    home = request.home
    cache = request.variable("XDG_CACHE_HOME") or posixpath.join(home, ".cache")
    if request.variable("XDG_CACHE_HOME") == "":
        cache = ""
    base = request.variable("HF_HOME")
    if base is None:
        base = posixpath.join(cache, "huggingface")
    if base == "~" or base.startswith("~/"):
        base = home + base[1:]
    return posixpath.join(base, "accelerate", "default_config.yaml")


def load(path: str, text: str, version: Version) -> Config:
    """The configuration in `text`; raises what accelerate raises, with its type and text."""
    if len(text) > MAX_CONFIG_CHARS:
        raise TooLarge(path)
    content, lines = _json(text, path) if path.endswith(".json") else _yaml(text, path)
    return build(path, content, version, lines)


def build(path: str, content: Any, version: Version, lines: Mapping[tuple[object, ...], int]) -> Config:
    """The configuration of a content that is read already; `lines` are those of its keys."""
    given = _given(content, lines, path)
    sagemaker = content.get("compute_environment", "LOCAL_MACHINE") != "LOCAL_MACHINE"
    completed = _complete(dict(content), version)
    name = "SageMakerConfig" if sagemaker else "ClusterConfig"
    known = keys(version, sagemaker=sagemaker)
    _check_keys(completed, known, required_keys(version, sagemaker=sagemaker), path, name, version)
    _check_words(completed, sagemaker, version)
    values = {key: _value(key, completed, given, path) for key in known}
    return Config(path=path, values=values, given=given, sagemaker=sagemaker)


def _value(key: str, completed: Mapping[str, Any], given: Mapping[str, Given], path: str) -> Given:
    value = completed.get(key, DEFAULTS.get(key))
    if value is None and key.endswith("_config"):
        value = {}
    if key in given and key in completed:
        return Given(value, given[key].source, given[key].where)
    if key == "dynamo_config" and "dynamo_backend" in given:
        return Given(value, "file", given["dynamo_backend"].where)
    return Given(value, "default", f"built in: not in {path}")


def _complete(content: dict[str, Any], version: Version) -> dict[str, Any]:
    """The file's values with those that accelerate adds, and old forms turned into new ones."""
    content.setdefault("compute_environment", "LOCAL_MACHINE")
    if version >= (0, 34):
        if "distributed_type" not in content:
            raise ValueError("A `distributed_type` must be specified in the config file.")
        if "num_processes" not in content and content["distributed_type"] == "NO":
            content["num_processes"] = 1
    if "mixed_precision" not in content:
        content["mixed_precision"] = "fp16" if content.get("fp16") else None
    if version < (0, 34) and content["mixed_precision"] is False:
        content["mixed_precision"] = "no"
    content.pop("fp16", None)
    if "dynamo_backend" in content:
        backend = content.pop("dynamo_backend")
        content["dynamo_config"] = {} if backend == "NO" else {"dynamo_backend": backend}
    content.setdefault("use_cpu", False)
    if version >= (0, 22):
        content.setdefault("debug", False)
    if version >= (0, 29):
        content.setdefault("enable_cpu_affinity", False)
    return content


def _check_keys(
    content: Mapping[Any, Any], known: tuple[str, ...], required: tuple[str, ...], path: str, name: str, version: Version
) -> None:
    if version >= (0, 23):
        extra = sorted(set(content) - set(known))
        if extra:
            raise ValueError(
                f"The config file at {path} had unknown keys ({extra}), please try upgrading your `accelerate`"
                " version or fix (and potentially remove) these keys from your config file."
            )
    for key in content:
        if not isinstance(key, str):
            raise TypeError("keywords must be strings")
        if key not in known:
            raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{key}'")
    missing = [f"'{key}'" for key in required if key not in content]
    if missing:
        listed = " and ".join(missing) if len(missing) < 3 else f"{', '.join(missing[:-1])}, and {missing[-1]}"
        plural = "s" if len(missing) > 1 else ""
        raise TypeError(f"{name}.__init__() missing {len(missing)} required positional argument{plural}: {listed}")


def _check_words(content: Mapping[str, Any], sagemaker: bool, version: Version) -> None:
    environment, kind = content["compute_environment"], content["distributed_type"]
    if isinstance(environment, str) and environment not in ENVIRONMENTS:
        raise ValueError(f"{environment!r} is not a valid ComputeEnvironment")
    words = SAGEMAKER_TYPES if sagemaker else distributed_types(version)
    if isinstance(kind, str) and kind not in words:
        raise ValueError(f"{kind!r} is not a valid {'SageMakerDistributedType' if sagemaker else 'DistributedType'}")


def _given(content: Any, lines: Mapping[tuple[object, ...], int], path: str) -> dict[str, Given]:
    """The keys of the file, nested ones dotted; anything but a mapping fails as it does in accelerate."""
    given: dict[str, Given] = {}
    content.get("compute_environment")
    for key, value in content.items():
        line = lines.get((key,))
        given[str(key)] = Given(value, "file", f"{path}:{line}" if line else path)
        if isinstance(value, dict):
            for inner, leaf in value.items():
                line = lines.get((key, inner))
                given[f"{key}.{inner}"] = Given(leaf, "file", f"{path}:{line}" if line else path)
    return given


def _json(text: str, path: str) -> tuple[Any, dict[tuple[object, ...], int]]:
    import json

    content = json.loads(text)
    try:
        # JSON is YAML but for tabs, and YAML's nodes know their lines.
        return content, _yaml(text.replace("\t", " "), path)[1]
    except Exception:
        return content, {}


class _Text(io.StringIO):
    """A text with a file name, which the messages of the YAML parser then carry."""

    name = ""


def _yaml(text: str, path: str) -> tuple[Any, dict[tuple[object, ...], int]]:
    """The content as `yaml.safe_load` gives it, and the line of each key at the top and one level below."""
    if (rows := flat_rows(text)) is not None:
        return _nested(rows), {(row.key,) if row.parent is None else (row.parent, row.key): row.number + 1 for row in rows}
    import yaml

    stream = _Text(text)
    stream.name = path
    loader = yaml.SafeLoader(stream)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, {}
        if _size(node, {}) > MAX_VALUES:
            raise TooLarge(path)
        return loader.construct_document(node), _lines(node)
    finally:
        loader.dispose()


def _nested(rows: list[Row]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for row in rows:
        (content if row.parent is None else content[row.parent])[row.key] = row.value
    return content


def _lines(node: yaml.Node) -> dict[tuple[object, ...], int]:
    import yaml

    lines: dict[tuple[object, ...], int] = {}
    if not isinstance(node, yaml.MappingNode):
        return lines
    for key, value in node.value:
        lines[(key.value,)] = key.start_mark.line + 1
        if isinstance(value, yaml.MappingNode):
            for inner, _ in value.value:
                lines[(key.value, inner.value)] = inner.start_mark.line + 1
    return lines


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values stand below a node, each alias counted as what it stands for."""
    import yaml

    if id(node) in known:
        return known[id(node)]
    known[id(node)] = MAX_VALUES  # an alias to a node inside itself
    if isinstance(node, yaml.MappingNode):
        size = 1 + sum(_size(key, known) + _size(value, known) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        size = 1 + sum(_size(item, known) for item in node.value)
    else:
        size = 1
    known[id(node)] = size
    return size
