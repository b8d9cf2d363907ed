"""Tier 0: the forecast of a plan without torch, from one micro-batch on paper and arithmetic around it."""

from __future__ import annotations

from msgspec.structs import replace

from firstfault.memory import devices, evaluation, optimizers, sharding
from firstfault.memory.assumptions import assume, miss
from firstfault.memory.bands import judge, phase_of
from firstfault.memory.families import read_config
from firstfault.memory.plan import DTYPE_BYTES, MemoryPlan
from firstfault.memory.setting import Setting
from firstfault.memory.shapes import Architecture
from firstfault.memory.step import Model, lose
from firstfault.memory.tape import Parameter, Storage, Tape, Tensor
from firstfault.model.forecast import FirstOom, Forecast

PLAIN_SOFTMAX = frozenset({"gpt2", "bert", "roberta", "xlm-roberta", "distilbert", "falcon"})
"""Families whose own attention takes the softmax in the type of the model; the others take it in fp32."""
EAGER_ONLY = frozenset({"bloom", "mpt", "deberta-v2", "gemma2"})
"""Families whose code in transformers has no other attention than its own."""
_WINDOWS = {"mistral": 4096, "mixtral": 0, "phi3": 0, "starcoder2": 0}
"""Families whose layers all have the window of their configuration, and its default."""
Groups = list[tuple[int, Parameter, bool]]
QUANTIZED = {"int8": 1.0, "nf4": 0.5 + 4 / 64, "nf4-double": 0.5 + 1 / 64 + 4 / (64 * 256)}
"""Bytes an element of a quantized matrix, with the scales of blocks of 64."""


def forecast(plan: MemoryPlan) -> Forecast:
    """Peaks of every phase of one training step on its fullest device; UsageError where the configuration lacks a size."""
    shape = read_config(plan.config, plan.head)
    step = Step(plan, shape)
    step.run()
    phases = tuple(phase_of(plan, shape, name, step.tape.peaks[name], step.top_before(name)) for name in step.order)
    peak = max(range(len(phases)), key=lambda index: phases[index].allocated.mid)
    return Forecast(
        model=plan.model or shape.family,
        parameters=shape.numel,
        trainable_parameters=sum(count * one.numel for count, one, _ in step.groups if one.trained),
        device=plan.device.name,
        limit=plan.device.memory_bytes,
        verdict=judge(phases, plan.device.memory_bytes),
        phases=phases,
        peak=peak,
        first_oom=step.first_oom(),
        assumptions=assume(plan, shape),
        missing=miss(plan),
    )


def _windowed(plan: MemoryPlan, family: str, tokens: int) -> bool:
    """Whether a window of attention makes a mask, as transformers does from its length on; not for flash attention."""
    window = plan.config.get("sliding_window", _WINDOWS.get(family, 0)) if family in _WINDOWS else 0
    return plan.attention == "sdpa" and isinstance(window, int) and 0 < window <= tokens


def moments(plan: MemoryPlan, watched: tuple[int, int]) -> list[tuple[str, str, int, int]]:
    """All requests of so many bytes (least and most): phase, heading, bytes, live bytes before."""
    step = Step(plan, read_config(plan.config, plan.head))
    step.tape.watched = watched
    step.run()
    return step.tape.moments


class Step:
    """One step of a plan on the tape, phase by phase."""

    def __init__(self, plan: MemoryPlan, shape: Architecture) -> None:
        self.plan, self.shape, self.tape = plan, shape, Tape()
        parallel = plan.parallel
        weights = 4 if plan.prepares_kbit else DTYPE_BYTES[plan.weights]
        compute = DTYPE_BYTES[plan.autocast] if plan.autocast else weights
        fsdp = parallel.strategy in sharding.FSDP
        # A sharded layer is gathered in the type of computation: its weights are not cast again.
        self.width = compute if fsdp else weights
        tokens = shape.tokens or plan.seq_len
        self.setting = Setting(
            upcasts_softmax=weights != compute or shape.family not in PLAIN_SOFTMAX,
            narrows_late=shape.family in PLAIN_SOFTMAX,
            batch=plan.micro_batch,
            seq=tokens,
            width=self.width,
            compute=compute,
            attention="eager" if shape.family in EAGER_ONLY else plan.attention,
            padded=plan.padded or _windowed(plan, shape.family, tokens),
            # A bias that is trained keeps the kernels away too.
            plain_attention=shape.broadcasts_kv or shape.family == "t5",
            heads_first=0 < shape.rotary < 1 or shape.family == "phi3",
        )
        reduce = DTYPE_BYTES[parallel.reduce_dtype] if parallel.reduce_dtype else self.width
        shards = (
            sharding.LayerShards(self.tape, plan, compute=compute, reduce=reduce)
            if fsdp or parallel.strategy == "zero2"
            else None
        )
        self.model = Model(self.tape, plan, shape, self.setting, shards)
        self.groups = _groups(self.model)
        for _, one, _ in self.groups:
            one.bucketed = parallel.strategy == "ddp" and parallel.bucket_view
        self.order: list[str] = []
        self.held: list[Storage] = []
        self._graph = 0
        if plan.device.memory_bytes:
            context = plan.device.context_bytes
            self.tape.limit = plan.device.memory_bytes - (devices.CONTEXT[1] if context is None else context)

    def top_before(self, name: str) -> int:
        """The highest point of this phase and those before it: the caching allocator gives nothing back."""
        return max(self.tape.peaks[one][0] for one in self.order[: self.order.index(name) + 1])

    def hold(self, size: float, kind: str) -> Storage:
        """Bytes that stay until the end of the step."""
        made = Storage(self.tape, int(size), kind)
        self.held.append(made)
        return made

    def enter(self, name: str) -> None:
        """The next phase."""
        if name not in self.order:
            self.order.append(name)
        self.tape.enter(name)

    def run(self) -> None:
        """All phases, in the order of a steady step; the first step has no optimizer state in forward and is smaller."""
        plan, parallel = self.plan, self.plan.parallel
        self.enter("load")
        if not parallel.offload_weights:
            self.hold(self._weight_bytes(), "weights")
        trained = [one for count, one, _ in self.groups for _ in range(count) if one.trained]
        state = optimizers.state_bytes(plan, self.groups) / sharding.divisor(parallel, "state")
        self.enter("forward")
        if not (parallel.offload_optimizer or plan.optimizer.paged):
            self.hold(state, "optimizer state")
        self.hold(sharding.bucket_bytes(parallel, trained), "gradients" if parallel.bucket_view else "DDP buckets")
        self.hold(plan.micro_batch * self.setting.seq * 8 * 2, "inputs")
        self.hold(devices.workspace_bytes(plan.device), "workspaces")
        self.hold(plan.difference_bytes, "not explained")
        self._micro_batches()
        self._optimize()
        if plan.evaluation is not None:
            self._evaluate()
        if plan.saves_checkpoint:
            self._save()

    def _weight_bytes(self) -> float:
        """Weights of one device; a sharded model may keep its shards in another type than it computes in."""
        plan, parallel = self.plan, self.plan.parallel
        shards = DTYPE_BYTES[parallel.shard_dtype] if parallel.shard_dtype else self.width
        if self.model.shards is not None and not parallel.shard_dtype:
            shards = DTYPE_BYTES[plan.weights]
        base: float = sum(
            count * one.numel * (shards if self.width != shards and one.trained else one.width) for count, one, _ in self.groups
        )
        if plan.quantization != "none":
            matrices = sum(
                layer.count * matrix.out * matrix.into * (layer.experts if role.startswith("expert_") else 1)
                for layer in self.shape.layers
                for role, matrix in layer.matrices.items()
            )
            base -= matrices * (self.width - QUANTIZED[plan.quantization])
        return base / sharding.divisor(parallel, "weights")

    def _micro_batches(self) -> None:
        plan = self.plan
        second = plan.accumulate > 1
        kept: list[Tensor] = []
        for number in range(2 if second else 1):
            if number:
                self.enter("accumulation")
            # One more graph a micro-batch: nothing else grows.
            others = self._graph * (plan.accumulate - 2) if number and plan.keeps_graphs else 0
            graphs = Storage(self.tape, others, "kept graphs")
            self._micro_batch("accumulation" if number else None, kept)
            del graphs

    def _micro_batch(self, phase: str | None, kept: list[Tensor]) -> None:
        tape, plan = self.tape, self.plan
        if phase is None:
            self.enter("forward")
        start = tape.live
        root = self._gathered_root()
        logits = self.model.forward()
        if phase is None:
            self.enter("loss")
        loss = lose(self.model, logits)
        self.model.last = None
        if plan.parallel.strategy == "dp" and plan.parallel.world > 1:
            if phase is None:
                self.enter("gather")
            gathered = tape.new(logits.numel * plan.parallel.world, logits.width, "gather buffers")
            del gathered
        del logits
        for parameter in (one for _, one, _ in self.groups):
            parameter.casts = None
        self._graph = max(0, tape.live - start)
        if phase is None:
            self.enter("backward")
        if plan.keeps_graphs:
            kept.append(loss)
        tape.backward(loss.node, tape.new(1, 4), keeps_graph=plan.keeps_graphs)
        del loss, root
        self._reduce_root()
        if plan.parallel.strategy == "dp" and plan.parallel.world > 1:
            arriving = tape.new(
                sum(count * one.numel for count, one, _ in self.groups if one.trained), self.width, "gather buffers"
            )
            del arriving

    def _gathered_root(self) -> list[Tensor]:
        """Embeddings, head and norms of sharded models are gathered for the whole of forward and backward."""
        if self.model.shards is None or not self.model.shards.gathers:
            return []
        size = sum(one.numel for one in self._root())
        return [self.tape.new(size, self.model.shards.compute, "gathered weights")]

    def _root(self) -> list[Parameter]:
        model = self.model
        own = [*model.tables, *model.norms, *model.extra]
        return own if self.shape.tied else [*own, model.head]

    def _reduce_root(self) -> None:
        if self.model.shards is None:
            return
        self.model.shards.end()
        for one in self._root():
            if one.grad is not None:
                one.grad = Storage(self.tape, self.model.shards.gradient_bytes(one.numel), "gradients")

    def _optimize(self) -> None:
        plan, parallel = self.plan, self.plan.parallel
        self.enter("optimizer")
        share = sharding.divisor(parallel, "state")
        if not parallel.offload_optimizer:
            temporary = self.tape.new(optimizers.moment_bytes(plan, self.groups) // share, 1, "optimizer temporaries")
            del temporary
        for _, one, _ in self.groups:
            one.grad = None
        self.model.counted.clear()

    def _evaluate(self) -> None:
        plan = self.plan
        told = plan.evaluation
        if told is None:
            return
        self.enter("evaluation")
        tape = self.tape
        length = self.shape.tokens or told.seq_len or plan.seq_len
        setting = replace(self.setting, batch=told.micro_batch, seq=length)
        model = Model(tape, plan, self.shape, setting, None)
        tape.recording = False
        logits = model.forward()
        loss = lose(model, logits)
        model.last = None
        del loss
        processes = plan.parallel.world if plan.parallel.strategy != "single" else 1
        sets = evaluation.kept_logits(told, processes)
        if sets:
            self.enter("evaluation gather")
            width = 4 if setting.autocast else logits.width
            kept = tape.new(logits.numel * sets, width, "gathered logits")
            del kept
        tape.recording = True

    def _save(self) -> None:
        """A full state dict of sharded weights is gathered one tensor at a time; otherwise nothing is copied on the device."""
        self.enter("checkpoint save")
        if self.model.shards is not None and self.model.shards.gathers:
            largest = max((one.numel * one.width for _, one, _ in self.groups), default=0)
            gathered = self.tape.new(largest, 1, "gathered weights")
            del gathered

    def first_oom(self) -> FirstOom | None:
        """The first request beyond the device's memory less its context; None if there is none."""
        if self.tape.over is None or self.tape.limit is None:
            return None
        phase, size, kind, live = self.tape.over
        return FirstOom(
            phase=phase,  # type: ignore[arg-type]
            device="cuda:0",
            request=size,
            what=kind,
            allocated=live,
            reserved=max(live, self.top_before(phase) - size),
            limit=self.plan.device.memory_bytes or 0,
        )


def _groups(model: Model) -> Groups:
    """Every parameter of the model with how often it occurs and whether it is an embedding."""
    found: Groups = []
    for layer, weights in model.groups:
        run = len(weights)
        for position, one in enumerate(weights):
            times = 1 + (layer.count - run if position == min(1, run - 1) else 0)
            found += [(times, parameter, False) for parameter in one.all()]
    found += [(1, one, True) for one in model.tables] + [(1, one, False) for one in (*model.norms, *model.extra)]
    if not model.shape.tied and model.head.numel:
        found.append((1, model.head, False))
    if model.head_bias is not None:
        found.append((1, model.head_bias, False))
    if model.patch is not None:
        found.append((1, model.patch, False))
    return found
