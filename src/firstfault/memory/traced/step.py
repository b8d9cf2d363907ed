"""Two whole training steps, then evaluation, on tensors without content (or, for comparison, on real ones)."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from .adapters import adapt
from .autocast import Autocast, widened
from .kernels import install
from .model import build, inputs_of, make_optimizer
from .tracker import Tracker, follow_gradients, follow_modules

MOST_GRAPHS = 6
"""Kept graphs that are traced; each further micro-batch adds what the last one added."""


class Step:
    """A plan (as `MemoryPlan`, in JSON) on `meta`, or with real tensors on `cpu`; `kernel` forces one of attention."""

    def __init__(self, plan: dict[str, Any], device: str, kernel: str = "") -> None:
        self.plan, self.device = plan, device
        self.notes: list[str] = []
        self.model = build(plan, device, self.notes)
        self.half = getattr(torch, plan["autocast"]) if plan.get("autocast") not in (None, plan["weights"]) else None
        capability = str((plan.get("device") or {}).get("capability") or "0")
        self.tracker = Tracker(
            device,
            full=not plan["padded"],
            hopper=float(capability) >= 9.0,
            vocabulary=int(getattr(self.model.config, "vocab_size", 0) or 0),
        )
        install(self.tracker, kernel or ("flash" if plan["attention"] == "flash_attention_2" else ""), self.half)
        self.parameters_of_base = sum(one.numel() for one in self.model.parameters())
        if plan.get("lora"):
            lora = plan["lora"]
            count = adapt(self.model, lora, getattr(torch, lora.get("dtype") or plan["weights"]))
            self.notes.append(f"{count} modules have adapters")
            if plan["checkpointing"]:
                self.model.enable_input_require_grads()
        self.parameters = [one for one in self.model.parameters() if one.requires_grad]
        self.optimizer = make_optimizer(self.parameters, plan["optimizer"])
        self.world = int(plan["parallel"]["world"])
        self.strategy = plan["parallel"]["strategy"] if self.world > 1 else "single"

    def run(self) -> None:
        """Load, two steps, then evaluation."""
        tracker, plan = self.tracker, self.plan
        tracker.enter("load", "weights")
        for one in [*self.model.parameters(), *self.model.buffers()]:
            tracker.see(one)
        follow_modules(tracker, self.model)
        follow_gradients(tracker, self.parameters)
        self._mark_loss()
        with tracker:
            if self.strategy == "ddp":
                tracker.enter("forward")
                if plan["parallel"]["bucket_view"]:
                    self._give_buckets()
                else:
                    tracker.hold(self._gradient_bytes(), "DDP buckets")
            for _ in range(2):
                self._micro_batches()
                self._optimize()
            if plan.get("evaluation"):
                self._evaluate(plan["evaluation"])
        if plan["saves_checkpoint"]:
            tracker.enter("checkpoint save")

    def _gradient_bytes(self) -> int:
        return sum(one.numel() * one.element_size() for one in self.parameters)

    def _give_buckets(self) -> None:
        """Gradients become views of DDP's buckets as soon as they are there."""
        sizes: dict[Any, int] = {}
        for one in self.parameters:
            sizes[one.dtype] = sizes.get(one.dtype, 0) + one.numel()
        self.buckets = {dtype: torch.empty(size, dtype=dtype, device=self.device) for dtype, size in sizes.items()}
        for bucket in self.buckets.values():
            self.tracker.name(bucket, "gradients")

        def moved(parameter: Any) -> None:
            parameter.grad = self.buckets[parameter.dtype][: parameter.numel()].view(parameter.shape)

        for one in self.parameters:
            one.register_post_accumulate_grad_hook(moved)

    def _mark_loss(self) -> None:
        """`loss` begins where the model hands its logits to the loss."""
        own = getattr(self.model, "loss_function", None)
        plain = self.plan["loss"] == "plain"
        if own is None:
            return

        def loss_function(*args: Any, **kwargs: Any) -> Any:
            if self.tracker.phase == "forward":
                self.tracker.enter("loss")
            if plain and "logits" in kwargs:
                logits, labels = kwargs["logits"], kwargs["labels"]
                return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))
            return own(*args, **kwargs)

        with contextlib.suppress(AttributeError):
            self.model.loss_function = loss_function

    def _forward(self, batch: int, length: int) -> Any:
        kind, self.tracker.kind = self.tracker.kind, "inputs"
        inputs = inputs_of(self.model, self.plan, self.device, batch, length)
        self.tracker.kind = kind
        if self.half is None:
            return self.model(**inputs)
        with Autocast(self.half, lambda one: self.tracker.name(one, "weights in low precision")):
            outputs = self.model(**inputs)
        return widened(outputs)

    def _micro_batches(self) -> None:
        wanted = int(self.plan["accumulate"])
        keeps = bool(self.plan["keeps_graphs"])
        traced = min(wanted, MOST_GRAPHS if keeps else 2)
        kept: list[Any] = []
        starts: list[int] = []
        further = 0
        for number in range(traced):
            starts.append(self.tracker.live_bytes)
            self.tracker.enter("accumulation" if number else "forward")
            if keeps and number == traced - 1 and wanted > traced:
                further = self.tracker.hold((wanted - traced) * (starts[-1] - starts[-2]), "kept graphs")
            loss = self._loss()
            if number == 0:
                self.tracker.enter("backward")
            if keeps:
                kept.append(loss)
            self._backward(loss, keeps)
            del loss
        if further:
            self.tracker.let_go(further)

    def _backward(self, loss: Any, keeps: bool) -> None:
        """Backward in the type of autocast (recomputed layers), then the sum of the replicas' gradients."""
        tracker = self.tracker
        tracker.in_backward = True
        with Autocast(self.half, keeps_casts=False) if self.half is not None else contextlib.nullcontext():
            loss.backward(retain_graph=keeps)
        tracker.in_backward = False
        if self.strategy == "dp":
            # DataParallel sums the gradients of all replicas into new tensors on the first device.
            tracker.let_go(tracker.hold(self._gradient_bytes(), "gather buffers"))

    def _loss(self) -> Any:
        """The loss of one micro-batch; logits go as this returns, as in the Trainer's compute_loss."""
        outputs = self._forward(int(self.plan["micro_batch"]), int(self.plan["seq_len"]))
        if self.strategy == "dp":
            if self.tracker.phase != "accumulation":
                self.tracker.enter("gather")
            tensors = [one for one in outputs.values() if isinstance(one, torch.Tensor) and one.dim()]
            sizes = [one.numel() * one.element_size() * self.world for one in tensors]
            for number in [self.tracker.hold(size, "gather buffers") for size in sizes]:
                self.tracker.let_go(number)
        return outputs["loss"] / int(self.plan["accumulate"])

    def _optimize(self) -> None:
        self.tracker.enter("optimizer", "optimizer temporaries")
        if self.plan["clips_gradients"]:
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        if self.optimizer is not None:
            self.optimizer.step()
            for state in self.optimizer.state.values():
                for one in state.values():
                    if isinstance(one, torch.Tensor):
                        self.tracker.name(one, "optimizer state")
        for one in self.parameters:
            one.grad = None

    def _evaluate(self, told: dict[str, Any]) -> None:
        """Forward without a graph; with metrics the logits of each batch are gathered and put behind those before."""
        self.tracker.enter("evaluation")
        self.model.eval()
        keeps = told["metrics"] and not told["preprocesses_logits"]
        everything = None
        for number in range(int(told["batches"])):
            self.tracker.enter("evaluation")
            with torch.no_grad():
                logits = self._forward(int(told["micro_batch"]), int(told["seq_len"] or self.plan["seq_len"]))["logits"]
                if not keeps:
                    continue
                self.tracker.enter("evaluation gather", "gathered logits")
                if self.world > 1:
                    logits = torch.cat([logits] * self.world)
                everything = logits if everything is None else torch.cat([everything, logits])
                if told["accumulation_steps"] and (number + 1) % int(told["accumulation_steps"]) == 0:
                    everything = None
