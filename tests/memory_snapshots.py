"""Memory snapshots by construction: a small caching allocator whose state and trace have the form of torch's own dump."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

MIB = 1 << 20
GIB = 1 << 30
SMALL_SEGMENT, LARGE_SEGMENT, ROUND = 2 * MIB, 20 * MIB, 512

Frames = list[dict[str, Any]]


def frames(*rows: tuple[str, int, str]) -> Frames:
    """Frames as torch has them, the innermost first; `lib/` stands for the packages of an environment."""
    home = "/opt/venv/lib/python3.11/site-packages/"
    return [
        {"name": name, "filename": path.replace("lib/", home, 1) if path.startswith("lib/") else path, "line": line}
        for path, line, name in rows
    ]


MAIN = ("/home/user/project/train.py", 88, "main")
WEIGHTS = frames(("lib/torch/nn/modules/module.py", 1329, "convert"), MAIN)
LINEAR = frames(
    ("??", 0, "at::native::empty_cuda"),
    ("lib/torch/nn/modules/linear.py", 134, "forward"),
    ("lib/transformers/models/qwen3/modeling_qwen3.py", 92, "forward"),
    ("/home/user/project/train.py", 61, "step"),
    MAIN,
)
LOSS = frames(
    ("lib/torch/nn/functional.py", 3494, "cross_entropy"),
    ("lib/transformers/loss/loss_utils.py", 55, "ForCausalLMLoss"),
    ("/home/user/project/train.py", 61, "step"),
    MAIN,
)
GRADIENT = frames(("lib/torch/autograd/graph.py", 824, "backward"), ("/home/user/project/train.py", 62, "step"), MAIN)
ADAM = frames(("lib/torch/optim/adamw.py", 178, "_init_group"), ("/home/user/project/train.py", 63, "step"), MAIN)
FOREACH = frames(("lib/torch/optim/adam.py", 700, "_multi_tensor_adam"), ("/home/user/project/train.py", 63, "step"), MAIN)
LEAK = frames(("/home/user/project/train.py", 66, "step"), MAIN)


class Device:
    """One device of `capacity` bytes: `alloc` and `free` by name, with the trace that torch would record."""

    def __init__(
        self, index: int = 0, capacity: int = 8 * GIB, *, expandable: bool = False, pool: tuple[int, int] = (0, 0)
    ) -> None:
        self.index = index
        self.capacity = capacity
        self.expandable = expandable
        self.pool = pool
        self.trace: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self.recording = True
        self._names: dict[str, dict[str, Any]] = {}
        self._next = 0x7F00_0000_0000 + (index << 40)
        self._time_us = 1_790_000_000_000_000

    @property
    def reserved(self) -> int:
        return sum(segment["total_size"] for segment in self.segments)

    def alloc(self, name: str, size: int, stack: Frames) -> None:
        """A tensor of `size` bytes; MemoryError, after the entry of the trace, where the device has no room."""
        rounded = -(-size // ROUND) * ROUND
        kind = "small" if rounded <= MIB else "large"
        block = self._find(kind, rounded) or self._reserve(kind, rounded, size, stack)
        segment = block.pop("segment")
        rest = block["size"] - rounded
        if rest:
            at = segment["blocks"].index(block)
            free = {"address": block["address"] + rounded, "size": rest, "requested_size": 0, "state": "inactive", "frames": []}
            segment["blocks"].insert(at + 1, free)
        block.update(size=rounded, requested_size=size, state="active_allocated", frames=stack if self.recording else [])
        self._names[name] = block
        self._record("alloc", block["address"], size, stack)

    def free(self, *names: str) -> None:
        """Gives tensors back."""
        for name in names:
            block = self._names.pop(name)
            block["state"] = "inactive"
            self._record("free_requested", block["address"], block["requested_size"], block["frames"])
            self._record("free_completed", block["address"], block["requested_size"], block["frames"])
            block.update(requested_size=0, frames=[])
            self._join()

    def _find(self, kind: str, size: int) -> dict[str, Any] | None:
        fits = [
            (block["size"], block, segment)
            for segment in self.segments
            for block in segment["blocks"]
            if segment["segment_type"] == kind and block["state"] == "inactive" and block["size"] >= size
        ]
        if not fits:
            return None
        _, block, segment = min(fits, key=lambda item: item[0])
        block["segment"] = segment
        return block

    def _reserve(self, kind: str, rounded: int, size: int, stack: Frames) -> dict[str, Any]:
        total = SMALL_SEGMENT if kind == "small" else max(LARGE_SEGMENT, -(-rounded // (2 * MIB)) * 2 * MIB)
        if self.reserved + total > self.capacity:
            self._record("oom", self.capacity - self.reserved, size, stack)
            raise MemoryError(size)
        address, self._next = self._next, self._next + total + GIB
        block = {"address": address, "size": total, "requested_size": 0, "state": "inactive", "frames": []}
        segment: dict[str, Any] = {
            "device": self.index, "address": address, "total_size": total, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": kind, "segment_pool_id": self.pool,
            "is_expandable": self.expandable, "frames": stack, "blocks": [block],
        }  # fmt: skip
        self.segments.append(segment)
        self._record("segment_map" if self.expandable else "segment_alloc", address, total, stack)
        block["segment"] = segment
        return block

    def _join(self) -> None:
        for segment in self.segments:
            joined: list[dict[str, Any]] = []
            for block in segment["blocks"]:
                if joined and joined[-1]["state"] == block["state"] == "inactive":
                    joined[-1]["size"] += block["size"]
                else:
                    joined.append(block)
            segment["blocks"] = joined

    def _record(self, action: str, address: int, size: int, stack: Frames) -> None:
        self._time_us += 500
        if not self.recording:
            return
        key = "device_free" if action == "oom" else "addr"
        self.trace.append(
            {"action": action, key: address, "size": size, "stream": 0, "time_us": self._time_us, "pool_id": self.pool,
             "frames": list(stack)}
        )  # fmt: skip


def snapshot(*devices: Device) -> dict[str, Any]:
    """What `torch.cuda.memory._snapshot()` would return."""
    segments = []
    for device in devices:
        for segment in device.segments:
            used = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
            segment["allocated_size"] = segment["active_size"] = sum(block["size"] for block in used)
            segment["requested_size"] = sum(block["requested_size"] for block in used)
            segments.append(segment)
    traces: list[list[dict[str, Any]]] = [[] for _ in range(1 + max((device.index for device in devices), default=-1))]
    for device in devices:
        traces[device.index] = device.trace
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False},
        "external_annotations": [{"name": "ProfilerStep#3", "device": 0, "time_us": 5}],
    }


def train(device: Device, steps: int = 6, *, leak: int = 0, layers: int = 4) -> None:
    """Weights, then steps of forward, loss, backward and AdamW; `leak` bytes stay behind in every step."""
    for layer in range(layers):
        device.alloc(f"weight{layer}", 40 * MIB, WEIGHTS)
    for step in range(steps):
        for layer in range(layers):
            device.alloc(f"activation{layer}", 60 * MIB, LINEAR)
        device.alloc("logits", 150 * MIB, LOSS)
        for layer in reversed(range(layers)):
            device.alloc(f"gradient{layer}", 40 * MIB, GRADIENT)
            device.free(f"activation{layer}")
        device.free("logits")
        for layer in range(layers if not step else 0):
            device.alloc(f"moment{layer}", 80 * MIB, ADAM)
        device.alloc("temporary", 160 * MIB, FOREACH)
        device.free("temporary", *(f"gradient{layer}" for layer in range(layers)))
        if leak:
            device.alloc(f"leak{step}", leak, LEAK)


def dump(path: Path, value: object, protocol: int = 4) -> Path:
    """The file that `_dump_snapshot` would write."""
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path
