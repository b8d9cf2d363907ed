"""Devices by name: usable memory, compute capability; and what CUDA itself takes on one."""

from __future__ import annotations

from firstfault.errors import UsageError
from firstfault.memory.plan import Device
from firstfault.units import format_size, parse_size

MIB = 1 << 20
_DEVICES = {
    "t4": (15360, "7.5"),
    "v100-16gb": (16384, "7.0"),
    "v100-32gb": (32768, "7.0"),
    "rtx3090": (24576, "8.6"),
    "rtx4090": (24564, "8.9"),
    "rtx5090": (32607, "12.0"),
    "a10g": (23028, "8.6"),
    "a10": (23028, "8.6"),
    "l4": (23034, "8.9"),
    "a6000": (49140, "8.6"),
    "l40s": (46068, "8.9"),
    "l40": (46068, "8.9"),
    "a100-40gb": (40960, "8.0"),
    "a100-80gb": (81920, "8.0"),
    "h100-80gb": (81559, "9.0"),
    "h100": (81559, "9.0"),
    "h100-96gb": (97871, "9.0"),
    "h200": (143771, "9.0"),
    "b200": (183359, "10.0"),
    "a100": (40960, "8.0"),
    "v100": (16384, "7.0"),
}
"""Memory in MiB as nvidia-smi shows it."""
CONTEXT = (300 * MIB, 480 * MIB, 700 * MIB)
"""The CUDA context and loaded kernels: lowest, usual, highest of current drivers; 1,343 MiB on a V100 of 2022."""
WORKSPACE = 8_519_680
WORKSPACE_HOPPER = 32 * MIB
"""One cuBLAS workspace, taken once a thread and stream: forward's and backward's."""


def find_device(name: str | None, memory: str | None) -> Device:
    """The device of that name, with `memory` (such as 24GB) instead of its own; UsageError for an unknown one."""
    given = None
    if memory:
        try:
            given = parse_size(memory)
        except ValueError as error:
            raise UsageError(str(error), where="--memory") from error
    if not name:
        return Device(name=format_size(given) if given else "", memory_bytes=given)
    key = name.lower().replace("nvidia", "").strip().replace(" ", "-").replace("rtx-", "rtx")
    if key not in _DEVICES:
        if given:
            return Device(name=name, memory_bytes=given)
        raise UsageError(f"unknown GPU {name!r}", where="--gpu", hint=f"known: {', '.join(_DEVICES)}; or --memory 24GB")
    size, capability = _DEVICES[key]
    return Device(name=name, memory_bytes=given or size * MIB, capability=capability)


def workspace_bytes(device: Device) -> int:
    """cuBLAS workspaces of the forward and the backward thread."""
    hopper = device.capability is not None and float(device.capability) >= 9.0
    return 2 * (WORKSPACE_HOPPER if hopper else WORKSPACE)
