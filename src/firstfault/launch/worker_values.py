"""Values of a worker's variables as Python and torch read them, and their words for what is no number, truth or device."""

from __future__ import annotations

from collections.abc import Mapping

from firstfault.launch.elastic_workers import DRAWN
from firstfault.launch.expansion import holds_unknown
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.plan import PlannedError

TRUE = frozenset({"1", "true", "yes", "y", "on", "t"})
FALSE = frozenset({"0", "false", "no", "n", "off", "f"})
_RENDEZVOUS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_NUMBERS = frozenset({"RANK", "WORLD_SIZE", "MASTER_PORT"})
# c10/core/Device.cpp of torch 2.13, in the order of its message.
_DEVICES = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia,"
    " privateuseone"
)
_DEVICE = lazy_pattern(r"(?P<type>[A-Za-z_]+)(?::(?:0|[1-9]\d{0,2}))?\Z")


def number(text: str | None, default: int) -> int | None:
    """A whole number, the default where nothing is set, None for what is not known or no number."""
    if text is None:
        return default
    if _is_open(text):
        return None
    try:
        return int(text)
    except ValueError:
        return None


def number_error(text: str) -> PlannedError | None:
    """Python's words for a known text that is no whole number."""
    if _is_open(text) or number(text, 0) is not None:
        return None
    return PlannedError(type="ValueError", message=f"invalid literal for int() with base 10: {text!r}")


def is_no_truth(text: str) -> bool:
    """Whether the text is known and neither yes nor no."""
    return not _is_open(text) and text.lower() not in TRUE | FALSE


def device_error(text: str | None) -> PlannedError | None:
    """torch's words for a known text that names no device."""
    if text is None or _is_open(text):
        return None
    if not text:
        return PlannedError(type="RuntimeError", message="Device string must not be empty")
    found = _DEVICE.match(text)
    if found is None:
        return PlannedError(type="RuntimeError", message=f"Invalid device string: '{text}'")
    if found["type"] in _DEVICES.split(", "):
        return None
    told = f"Expected one of {_DEVICES} device type at start of device string: {found['type']}"
    return PlannedError(type="RuntimeError", message=told)


def rendezvous_error(environment: Mapping[str, str]) -> tuple[PlannedError, tuple[str, ...]] | None:
    """What stops torch's env:// rendezvous, and the variables that it misses: each is asked for, then read as a number."""
    missing = tuple(name for name in _RENDEZVOUS if name not in environment)
    for name in _RENDEZVOUS:
        if name in missing:
            return expected(name), missing
        error = number_error(environment[name]) if name in _NUMBERS else None
        if error is not None:
            return error, ()
    return None


def expected(name: str) -> PlannedError:
    """torch's words for a variable that is missing."""
    message = f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set"
    return PlannedError(type="ValueError", message=message)


def _is_open(text: str) -> bool:
    return text == DRAWN or holds_unknown(text)
