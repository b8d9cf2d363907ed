"""Everything in a plan that decides bytes, with where its value comes from; and what would narrow the forecast."""

from __future__ import annotations

from firstfault.memory import devices
from firstfault.memory.plan import MemoryPlan
from firstfault.memory.shapes import Architecture
from firstfault.model.forecast import Assumption, MissingFact, Scalar
from firstfault.units import format_size


def assume(plan: MemoryPlan, shape: Architecture) -> tuple[Assumption, ...]:
    """The values that the forecast rests on and that the model's configuration does not hold."""
    given = plan.origins
    rows: list[tuple[str, Scalar, str]] = [
        ("weights", plan.weights, "from_pretrained without dtype"),
        ("optimizer", f"{plan.optimizer.name} {plan.optimizer.implementation}", "default of the Trainer"),
        ("attention", plan.attention, "default of transformers"),
        ("loss", plan.loss, "transformers computes cross entropy on logits in fp32"),
        ("padding", "in every batch" if plan.padded else "none: all samples of one length", "not told"),
        ("sequence length", shape.tokens or plan.seq_len, "image size" if shape.tokens else "longest batch"),
        ("checkpointing", plan.checkpointing, "default"),
        ("outputs", "the loss only is kept", "Trainer's own compute_loss"),
    ]
    if plan.autocast:
        rows.append(("autocast", plan.autocast, "not told"))
    if plan.lora is not None:
        rows.append(
            ("adapter type", plan.lora.dtype or plan.weights, "PEFT casts half-precision adapters to fp32 from 0.12 on")
        )
    if plan.quantization != "none":
        rest = "float32" if plan.prepares_kbit else plan.weights
        rows.append(("all that is not quantized", rest, "prepare_model_for_kbit_training"))
    if not shape.known:
        rows.append(
            ("architecture", shape.family or "none named", "no table of this family: layers counted as a near relative's")
        )
    context = plan.device.context_bytes
    rows.append(
        ("CUDA context", format_size(devices.CONTEXT[1] if context is None else context), "current drivers, 300 to 700 MiB")
    )
    rows.append(("reserved", "a band", "published runs: 1.02 to 1.42 of allocated, the upper end with checkpointing"))
    return tuple(Assumption(fact=fact, value=value, source=given.get(fact, source)) for fact, value, source in rows)


def miss(plan: MemoryPlan) -> tuple[MissingFact, ...]:
    """What to ask for next, the most telling first."""
    found = []
    if plan.device.memory_bytes is None:
        found.append(
            MissingFact(
                fact="device memory",
                why="without it nothing can be said to fit",
                command="nvidia-smi --query-gpu=name,memory.total --format=csv",
            )
        )
    if "sequence length" not in plan.origins:
        found.append(
            MissingFact(
                fact="sequence length",
                why="activations and logits grow with the longest batch",
                command="firstfault forecast ... --seq N",
            )
        )
    return tuple(found)
