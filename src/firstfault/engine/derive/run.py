"""What kind of run it was and how far it got: ranks, steps, attempts, framework, batch and accumulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.derive.frames import library_path
from firstfault.engine.series import announced_totals, starts_anew, training_series
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Progress
    from firstfault.model.fact import FactSet, Setting

PRODUCES = (
    "run.world_size",
    "run.steps_done",
    "run.attempts",
    "run.framework",
    "train.accumulation_steps",
    "train.micro_batch",
    "train.eval_accumulation_steps",
)
# The loop of a framework on top of another one: the first that has a frame runs the loop.
_FRAMEWORK_PATHS = (
    ("lightning", ("lightning/", "pytorch_lightning/", "lightning_fabric/")),
    ("transformers", ("transformers/trainer.py", "trl/trainer/", "transformers/trainer_pt_utils.py")),
    ("megatron", ("megatron/",)),
    ("accelerate", ("accelerate/accelerator.py", "accelerate/optimizer.py", "accelerate/utils/operations.py")),
    ("deepspeed", ("deepspeed/runtime/", "deepspeed/__init__.py")),
)
_SIGNAL_FRAMEWORKS = {
    "transformers": "transformers",
    "lightning": "lightning",
    "deepspeed": "deepspeed",
    "megatron": "megatron",
}
# Where a value of the training loop may be set, in the order in which one overrides the other.
_SETTINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "train.accumulation_steps": (
        ("deepspeed", "gradient_accumulation_steps"),
        ("arguments", "gradient_accumulation_steps"),
        ("command", "--gradient_accumulation_steps"),
        ("accelerate", "deepspeed_config.gradient_accumulation_steps"),
        ("accelerate", "gradient_accumulation_steps"),
        ("script", "Accelerator.gradient_accumulation_steps"),
    ),
    "train.micro_batch": (
        ("deepspeed", "train_micro_batch_size_per_gpu"),
        ("arguments", "per_device_train_batch_size"),
        ("command", "--per_device_train_batch_size"),
    ),
    "train.eval_accumulation_steps": (
        ("arguments", "eval_accumulation_steps"),
        ("command", "--eval_accumulation_steps"),
    ),
}


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the run as a whole, in the attempt of the initiating event."""
    aligned = scope.aligned
    if aligned.world_size is not None:
        yield Fact(name="run.world_size", value=aligned.world_size, origin="ranks of the run", basis="derived")
    elif len(aligned.ranks) > 1:
        yield Fact(name="run.world_size", value=max(aligned.ranks) + 1, origin="highest rank seen", basis="derived")
    if aligned.attempts:
        yield Fact(name="run.attempts", value=len(aligned.attempts), origin="attempts in the bundle", basis="derived")
    furthest = _furthest(scope)
    if furthest is not None and furthest.last_step is not None:
        spans = (furthest.last_span,) if furthest.last_span else ()
        yield Fact(name="run.steps_done", value=furthest.last_step, origin="progress lines", spans=spans)
    yield from _framework(scope)
    yield from _settings(scope)


def _furthest(scope: Scope) -> Progress | None:
    training = training_series(scope.aligned.progress, announced_totals(scope.aligned.events))
    samples = [
        sample
        for sample in training
        if (scope.attempt is None or sample.attempt is None or sample.attempt == scope.attempt)
        and not _after_the_fault(sample, scope)
    ]
    return None if starts_anew(samples) else max(samples, key=lambda sample: sample.last_step or 0, default=None)


def _after_the_fault(sample: Progress, scope: Scope) -> bool:
    event = scope.event
    return (
        event is not None
        and sample.last_span is not None
        and sample.last_span.source == event.span.source
        and sample.rank == event.place.rank
        and sample.last_span.offset > event.span.offset
    )


def _framework(scope: Scope) -> Iterator[Fact]:
    for framework, prefixes in _FRAMEWORK_PATHS:
        for frame in scope.frames:
            if library_path(frame.path).startswith(prefixes):
                yield Fact(name="run.framework", value=framework, origin="frames of the traceback", spans=(frame.span,))
                return
    for event in scope.events():
        emitter = _SIGNAL_FRAMEWORKS.get((event.signal or "").split(".", 1)[0])
        if emitter:
            yield Fact(name="run.framework", value=emitter, origin=f"signal {event.signal}", spans=(event.span,))
            return
    for setting in scope.settings():
        if setting.family == "command" and setting.key == "launcher" and setting.value in {"accelerate", "deepspeed"}:
            yield Fact(name="run.framework", value=setting.value, origin="launch command", spans=(setting.span,))
            return
    for frame in scope.frames:
        if library_path(frame.path).startswith("torch/"):
            yield Fact(name="run.framework", value="torch", origin="frames of the traceback", spans=(frame.span,))
            return


def _settings(scope: Scope) -> Iterator[Fact]:
    by_key: dict[tuple[str, str], Setting] = {}
    for setting in scope.settings():
        by_key.setdefault((setting.family, setting.key), setting)
    for name, places in _SETTINGS.items():
        for place in places:
            found = by_key.get(place)
            value = _whole_number(found.value) if found else None
            if found is not None and value is not None:
                yield Fact(name=name, value=value, origin=f"{found.family} {found.key}", spans=(found.span,))
                break


def _whole_number(value: object) -> int | None:
    # "auto" stays unknown: it resolves to the trainer's value, which stands elsewhere or nowhere.
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None
