"""Single changes of a plan with the peak they lead to, and the shortest list of them that fits, cheapest first."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from firstfault.memory.closed_form import forecast
from firstfault.memory.edits import Files, changed_settings, edit_files
from firstfault.memory.plan import MemoryPlan
from firstfault.model.forecast import Change, Forecast

_RANK = {"fits": 0, "tight": 1, "unknown": 2, "does not fit": 3}
_Edit = tuple[str, str, str, MemoryPlan]


def with_changes(plan: MemoryPlan, made: Forecast, *, fit: bool, files: Files | None = None) -> Forecast:
    """`made` with the table of single changes and, with `fit`, the changes that together fit.

    Where a file of arguments (text by path) can say a change of `fit`, its edit is a diff of that file; all apply in turn.
    """
    changes = tuple(sorted((_tried(made, edit) for edit in _edits(plan)), key=lambda one: -one.saved))
    return replace(made, changes=changes, fit=tuple(_shortest(plan, made, files or {})) if fit else ())


def _tried(before: Forecast, edit: _Edit) -> Change:
    title, text, cost, plan = edit
    after = forecast(plan)
    peak = needed(after)
    return Change(title=title, edit=text, cost=cost, peak=peak, saved=needed(before) - peak, verdict=after.verdict)


def needed(made: Forecast) -> int:
    """Bytes that a device must have for its fullest phase: live tensors, the context, communication; no unused cache."""
    peak = made.phases[made.peak]
    return peak.allocated.mid + peak.total.mid - peak.reserved.mid


def _shortest(plan: MemoryPlan, made: Forecast, files: Files) -> Iterator[Change]:
    """Changes in the order of their cost, each kept only if it helps, until the verdict is `fits`."""
    if made.limit is None or made.verdict == "fits":
        return
    before, current = made, plan
    for _ in range(12):
        useful = [(edit, _tried(before, edit)) for edit in _edits(current)]
        alone = [(edit, change) for edit, change in useful if change.verdict == "fits"]
        helping = alone or [(edit, change) for edit, change in useful if change.saved > needed(made) // 50]
        if not helping:
            return
        edit, change = helping[0]
        written, diff = edit_files(files, changed_settings(current, edit[3]))
        yield replace(change, edit=diff) if diff else change
        current, files = edit[3], written or files
        before = forecast(current)
        if before.verdict == "fits":
            return


def _edits(plan: MemoryPlan) -> Iterator[_Edit]:
    """What could be changed, the cheapest first: what costs nothing, then time, then what may change the result."""
    parallel, told = plan.parallel, plan.evaluation
    if parallel.strategy == "dp":
        yield (
            "One process a GPU instead of DataParallel",
            f"accelerate launch --multi_gpu --num_processes {parallel.world} train.py",
            "none; usually faster",
            replace(plan, parallel=replace(parallel, strategy="ddp", bucket_view=True)),
        )
    if parallel.strategy == "ddp" and not parallel.bucket_view:
        yield (
            "Gradients as views of DDP's buckets",
            "DistributedDataParallel(..., gradient_as_bucket_view=True)",
            "none",
            replace(plan, parallel=replace(parallel, bucket_view=True)),
        )
    if plan.keeps_graphs:
        yield ("Let go of each micro-batch's loss", "total += loss.detach()", "none", replace(plan, keeps_graphs=False))
    if plan.optimizer.name == "adamw" and plan.optimizer.implementation != "fused":
        fused = replace(plan, optimizer=replace(plan.optimizer, implementation="fused"))
        yield ("Fused AdamW", 'TrainingArguments(optim="adamw_torch_fused")', "none", fused)
    if told is not None and told.metrics and not told.accumulation_steps:
        moved = replace(plan, evaluation=replace(told, accumulation_steps=1))
        yield (
            "Predictions to host memory each batch",
            "TrainingArguments(eval_accumulation_steps=1)",
            "slower evaluation",
            moved,
        )
    if told is not None and told.micro_batch > 1:
        smaller = replace(plan, evaluation=replace(told, micro_batch=told.micro_batch // 2))
        text = f"TrainingArguments(per_device_eval_batch_size={told.micro_batch // 2})"
        yield ("Evaluation batch halved", text, "slower evaluation", smaller)
    yield from _slower_edits(plan)
    yield from _risky_edits(plan)


def _slower_edits(plan: MemoryPlan) -> Iterator[_Edit]:
    """Changes that leave the result as it is, for time or another package."""
    parallel = plan.parallel
    if plan.loss == "upcast" and plan.lora is None:
        fused_loss = replace(plan, loss="fused")
        yield ("Fused cross entropy", "TrainingArguments(use_liger_kernel=True)", "none; needs liger-kernel", fused_loss)
    if plan.micro_batch > 1:
        half, steps = plan.micro_batch // 2, plan.accumulate * 2
        text = f"TrainingArguments(per_device_train_batch_size={half}, gradient_accumulation_steps={steps})"
        yield (
            "Micro-batch halved, twice the accumulation",
            text,
            "time: smaller kernels",
            replace(plan, micro_batch=half, accumulate=steps),
        )
    if not plan.checkpointing:
        text = "TrainingArguments(gradient_checkpointing=True)"
        yield ("Gradient checkpointing", text, "time: about a third more", replace(plan, checkpointing=True))
    if parallel.world > 1 and parallel.strategy in ("ddp", "zero0"):
        sharded = replace(plan, parallel=replace(parallel, strategy="fsdp2"))
        yield (
            "Sharded weights, gradients and state (FSDP)",
            "distributed_type: FSDP   # accelerate config",
            "communication",
            sharded,
        )


def _risky_edits(plan: MemoryPlan) -> Iterator[_Edit]:
    """Changes that may change the result."""
    if plan.weights == "float32" and plan.autocast is None:
        yield ("Autocast to bf16", "TrainingArguments(bf16=True)", "accuracy: small", replace(plan, autocast="bfloat16"))
    if plan.optimizer.name == "adamw":
        eight = replace(plan, optimizer=replace(plan.optimizer, name="adamw_8bit"))
        yield ("8-bit AdamW", 'TrainingArguments(optim="adamw_bnb_8bit")', "accuracy: small; needs bitsandbytes", eight)
    if plan.weights == "float32":
        half_weights = replace(plan, weights="bfloat16", autocast=None)
        yield ("Weights in bf16", 'from_pretrained(..., dtype="bfloat16")', "accuracy: small updates are lost", half_weights)
    if plan.seq_len > 128:
        shorter = replace(plan, seq_len=plan.seq_len // 2)
        yield (
            "Sequence length halved",
            f"max_length={plan.seq_len // 2}",
            "accuracy: longer samples are cut",
            shorter,
        )
