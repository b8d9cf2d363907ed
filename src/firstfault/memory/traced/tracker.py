"""Every storage that a step takes and lets go, in order, with the phase and module that it happens in."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm"))
_WORKSPACE, _WORKSPACE_HOPPER = 8_519_680, 32 << 20
"""A cuBLAS workspace, taken once a thread and stream: forward's and backward's."""
_HERE = os.path.dirname(__file__)  # noqa: PTH120


class Tracker(TorchDispatchMode):
    """Events of all storages on one kind of device: `["a", number, bytes, kind, module]`, `["f", number]`,
    `["k", number, kind]` for a new name, `["p", phase]`.

    A storage ends when torch lets it go, by a weak reference to it. What a CUDA kernel takes besides is added where the
    operation is dispatched (`hidden`); `instead` names operations whose shapes are found another way. Questions about the
    content of a tensor, which there is none, get the answer `full`: no padding in the mask, one sequence a row; each place
    that asks is counted in `answers`.
    """

    def __init__(self, device: str, *, full: bool, hopper: bool, vocabulary: int) -> None:
        super().__init__()
        self.device, self.full, self.vocabulary = device, full, vocabulary
        self.workspace = _WORKSPACE_HOPPER if hopper else _WORKSPACE
        self.events: list[list[Any]] = []
        self.answers: dict[str, int] = {}
        self.operations = 0
        self.live_bytes = 0
        self.kind = "activations"
        self.phase = "load"
        self.in_backward = False
        self.modules: list[str] = [""]
        self.hidden: dict[str, Callable[..., list[int]]] = {}
        self.instead: dict[str, Callable[..., Any]] = {}
        self._numbers: dict[int, int] = {}
        self._references: dict[int, Any] = {}
        self._next = 0
        self._threads: set[bool] = set()

    def enter(self, phase: str, kind: str = "activations") -> None:
        """The next phase; what is taken in it is of this kind unless told otherwise."""
        self.phase, self.kind = phase, kind
        self.events.append(["p", phase])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        name = func._schema.name.split("::")[-1]
        if name == "_local_scalar_dense" and args[0].device.type == "meta":
            return self._answer(args[0])
        if name == "nonzero" and args[0].device.type == "meta":
            return self._all_of(args[0])
        if name in _PRODUCTS:
            self._take_workspace()
        instead = self.instead.get(name)
        out = func(*args, **(kwargs or {})) if instead is None else instead(func, args, kwargs or {})
        for one in tree_leaves(out):
            if isinstance(one, torch.Tensor):
                self.see(one)
        if name in self.hidden:
            for number in [self.hold(size, "workspaces") for size in self.hidden[name](*args)]:
                self.let_go(number)
        return out

    def see(self, tensor: Any, kind: str | None = None) -> None:
        """Counts the storage of this tensor unless it is known or elsewhere."""
        if tensor.device.type != self.device or tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._numbers or not size:
            return
        if kind is None:
            wide = tensor.dim() > 1 and tensor.shape[-1] == self.vocabulary and tensor.dtype.is_floating_point
            kind = "logits" if wide and self.kind == "activations" else self.kind
        number = self.hold(size, kind)
        self._numbers[key] = number
        self.live_bytes += size

        def gone(_: Any) -> None:
            self.let_go(number)
            self.live_bytes -= size
            self._numbers.pop(key, None)
            self._references.pop(key, None)

        self._references[key] = weakref.ref(storage, gone)

    def name(self, tensor: Any, kind: str) -> None:
        """From here on the storage of this tensor counts as `kind`."""
        number = self._numbers.get(tensor.untyped_storage()._cdata)
        if number is not None:
            self.events.append(["k", number, kind])

    def hold(self, size: int, kind: str) -> int:
        """The number of bytes that are taken now, until `let_go` of it."""
        self._next += 1
        self.events.append(["a", self._next, int(size), kind, self.modules[-1]])
        return self._next

    def let_go(self, number: int) -> None:
        """The end of what `hold` took."""
        self.events.append(["f", number])

    def _take_workspace(self) -> None:
        if self.device == "meta" and self.in_backward not in self._threads:
            self._threads.add(self.in_backward)
            self.hold(self.workspace, "workspaces")

    def _answer(self, tensor: Any) -> Any:
        self._count()
        if tensor.dtype == torch.bool:
            return self.full
        return 1.0 if tensor.dtype.is_floating_point else 1

    def _all_of(self, tensor: Any) -> Any:
        """The places of all elements: none is zero."""
        self._count()
        found = torch.empty(tensor.numel(), tensor.dim(), dtype=torch.int64, device="meta")
        self.see(found)
        return found

    def _count(self) -> None:
        """One more question, by the place outside of torch that asks."""
        frame = sys._getframe(1)
        while frame.f_back is not None and _is_between(frame.f_code.co_filename):
            frame = frame.f_back
        where = frame.f_code.co_name
        self.answers[where] = self.answers.get(where, 0) + 1


def _is_between(path: str) -> bool:
    return path.startswith(_HERE) or "/torch/" in path.replace("\\", "/")


def follow_modules(tracker: Tracker, model: Any) -> None:
    """Tells the tracker which module of `model` runs."""
    names = {id(module): name for name, module in model.named_modules()}

    def enter(module: Any, _: Any) -> None:
        tracker.modules.append(names.get(id(module), tracker.modules[-1]))

    def leave(module: Any, _: Any, __: Any) -> None:
        if len(tracker.modules) > 1:
            tracker.modules.pop()

    torch.nn.modules.module.register_module_forward_pre_hook(enter)
    torch.nn.modules.module.register_module_forward_hook(leave, always_call=True)


def follow_gradients(tracker: Tracker, parameters: list[Any]) -> None:
    """Names each gradient as it is accumulated."""

    def named(parameter: Any) -> None:
        if parameter.grad is not None:
            tracker.name(parameter.grad, "gradients")

    for one in parameters:
        one.register_post_accumulate_grad_hook(named)
