"""`firstfault forecast`: where the memory of a training step goes, phase by phase, and whether it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.look import look_options
from firstfault.cli.screen import Color, find_screen, write
from firstfault.errors import UnreadableInputError, UsageError

if TYPE_CHECKING:
    from firstfault.memory.arguments import Settings
    from firstfault.memory.plan import MemoryPlan
    from firstfault.model.forecast import Forecast

MAX_FILE_BYTES = 1 << 20
_OPTIONS = (
    ("batch", int, "N", "Samples of one device and micro-batch; default 8."),
    ("seq", int, "N", "Tokens of the longest batch; default 512."),
    ("dtype", str, "TYPE", "Type of the weights: fp32 (default), bf16, fp16."),
    ("mixed", str, "TYPE", "Autocast to bf16 or fp16."),
    (
        "optim",
        str,
        "NAME",
        "Trainer's optim: adamw_torch_fused (default), adamw_torch, adamw_bnb_8bit, adafactor, sgd ...",
    ),
    ("accumulate", int, "N", "Micro-batches of one step."),
    ("attention", str, "NAME", "sdpa (default), eager, flash_attention_2."),
    ("gpus", int, "N", "Devices; more than one is DDP unless --parallel says otherwise."),
    ("parallel", str, "WAY", "dp (DataParallel), ddp, fsdp1, fsdp2, zero0 to zero3."),
    ("lora", int, "RANK", "Adapters of this rank instead of full training."),
    ("lora-targets", str, "NAMES", "Modules with adapters: q_proj,v_proj (default) or all-linear."),
    ("eval-batch", int, "N", "Samples of an evaluation batch; default 8."),
    ("eval-accumulation", int, "N", "eval_accumulation_steps."),
)
_FLAGS = (
    ("checkpointing", "Gradient checkpointing."),
    ("padded", "Batches hold padding, so that a mask reaches the kernel."),
    ("keeps-graphs", "The loss of each micro-batch is kept with its graph."),
    ("fused-loss", "Fused cross entropy (Liger)."),
    ("metrics", "Evaluation with compute_metrics: predictions are gathered and kept."),
    ("nf4", "Base weights in 4 bits (QLoRA)."),
    ("int8", "Base weights in 8 bits."),
    ("bucket-view", "DDP with gradient_as_bucket_view."),
    ("no-reshard", "FSDP keeps gathered weights from forward to backward."),
    ("offload", "FSDP's offload: weights, gradients and optimizer in host memory."),
)

_SPELLED = {"no_reshard": ("fsdp_reshard", False), "offload": ("fsdp_offload", True)}


def _training_options(command: Any) -> Any:
    for name, text in reversed(_FLAGS):
        command = click.option(f"--{name}", is_flag=True, default=None, help=text)(command)
    for name, kind, metavar, text in reversed(_OPTIONS):
        command = click.option(f"--{name}", type=kind, metavar=metavar, help=text)(command)
    return command


@click.command(short_help=COMMANDS["forecast"], context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option(
    "--model",
    metavar="NAME | FILE | SIZES",
    help="A bundled model, a config.json (or its folder), or sizes: layers=24,hidden=2048,heads=16,vocab=32000.",
)
@click.option("--config", "files", multiple=True, metavar="FILE", help="Arguments, accelerate's YAML, DeepSpeed's JSON.")
@click.option("--gpu", metavar="NAME", help='Such as "A100-80GB", L4, H100.')
@click.option("--memory", metavar="SIZE", help="Memory of one device, such as 24GB or 23034MiB.")
@_training_options
@click.option(
    "--tier",
    type=click.Choice(["auto", "0", "1", "2"]),
    default="auto",
    help="0: formula; 1: a traced step; 2: corrected by a measurement.",
)
@click.option("--python", metavar="INTERPRETER", help="The interpreter of the run: its torch traces the step (tier 1).")
@click.option("--from", "log", metavar="LOG", help="Correct it by the out-of-memory message of this run (tier 2).")
@click.option("--snapshot", metavar="FILE", help="Correct it by a CUDA memory snapshot of this run (tier 2).")
@click.option("--alloc-conf", metavar="TEXT", help="PYTORCH_CUDA_ALLOC_CONF of the run, such as expandable_segments:True.")
@click.option("--fit", is_flag=True, help="Propose the cheapest changes that fit.")
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", help="Default: terminal.")
@look_options
def forecast(
    command: tuple[str, ...],
    model: str | None,
    files: tuple[str, ...],
    gpu: str | None,
    memory: str | None,
    tier: str,
    python: str | None,
    log: str | None,
    snapshot: str | None,
    alloc_conf: str | None,
    fit: bool,
    form: str,
    width: int | None,
    color: Color,
    ascii_only: bool,
    **training: Any,
) -> int:
    """Say where the memory of a training step goes and whether it fits. By formula, without torch; with --python by a step
    that its torch and transformers trace without a GPU and without weights; with --from or --snapshot corrected by that run.

    Values come from options, then the launch COMMAND, then files. Exit code 1: it does not fit; 3: no device is named, or
    it is tight.
    """
    from firstfault.cli.measured import read_measurement
    from firstfault.memory.arguments import Given, make_plan
    from firstfault.memory.devices import find_device
    from firstfault.memory.models import load_model
    from firstfault.memory.tiers import forecast as make_forecast

    settings: Settings = {}
    texts = {path: _text(path) for path in files}
    for path, text in texts.items():
        settings |= _read(path, text)
    if command:
        settings |= _launched(command)
    if "deepspeed_file" in settings:
        path = str(settings["deepspeed_file"].value)
        texts[path] = _text(path)
        settings = _read(path, texts[path]) | settings
    for name, value in training.items():
        if value is not None:
            name, value = _SPELLED.get(name, (name, value))
            settings[name] = Given(value, "--" + name.replace("_", "-"))
    named = model or (str(settings["model"].value) if "model" in settings else None)
    if named is None:
        raise UsageError("no model is named", hint="--model NAME (such as Qwen/Qwen3-0.6B) or --model path/to/config.json")
    full, config = load_model(named)
    plan = make_plan(full, config, settings, find_device(gpu, memory))
    if alloc_conf:
        from msgspec.structs import replace

        from firstfault.memory.alloc_conf import read_alloc_conf

        plan = replace(plan, allocator=read_alloc_conf(alloc_conf))
    measured = read_measurement(tier, log, snapshot)
    made, plan = make_forecast(plan, python=_interpreter(tier, python), measured=measured)
    made = _with_changes(plan, made, fit=fit, texts=texts)
    if form == "json":
        from firstfault.render.json import to_json

        write(to_json(made))
    else:
        from firstfault.render.forecast import render_forecast

        screen = find_screen(width=width, color=color, ascii_only=ascii_only)
        write(render_forecast(made, width=screen.width, color=screen.color, ascii=screen.ascii))
    return {"fits": 0, "does not fit": 1}.get(made.verdict, 3)


def _with_changes(plan: MemoryPlan, made: Forecast, *, fit: bool, texts: dict[str, str]) -> Forecast:
    """`made` with the table of changes, which is by formula in every tier; without one for a model that only a trace knows."""
    from msgspec.structs import replace

    from firstfault.memory.closed_form import forecast as compute
    from firstfault.memory.fit import with_changes

    try:
        computed = with_changes(plan, compute(plan), fit=fit, files=texts)
    except UsageError:
        return made
    return replace(made, changes=computed.changes, fit=computed.fit)


def _interpreter(tier: str, python: str | None) -> str | None:
    """Whose torch traces the step: None for the formula; UsageError where none is found."""
    if tier == "0" or (tier != "1" and python is None):
        return None
    from firstfault.cli.survey import find_program

    found = find_program(python) if python else find_program("python") or find_program("python3")
    if found is None:
        raise UsageError(
            f"no interpreter {python or 'python'} is found", hint="--python takes one with torch, such as .venv/bin/python"
        )
    return found


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(MAX_FILE_BYTES).decode()
    except (OSError, ValueError) as error:
        raise UnreadableInputError(f"not read: {str(error).splitlines()[0]}", where=path) from error


def _read(path: str, text: str) -> Settings:
    import yaml

    from firstfault.memory.arguments import flat

    try:
        # JSON is YAML but for tabs.
        told = yaml.safe_load(text.replace("\t", " "))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableInputError(f"not read: {str(error).splitlines()[0]}", where=path) from error
    if not isinstance(told, dict):
        raise UnreadableInputError("no keys at the top", where=path)
    return flat(told, path)


def _launched(command: tuple[str, ...]) -> Settings:
    """What the launch command decides, and the arguments of its script."""
    from firstfault.cli.request import request_of
    from firstfault.cli.survey import installed_versions, survey_machine
    from firstfault.launch.plan import plan
    from firstfault.memory.arguments import from_launch, from_words

    request = request_of(command, survey_machine(None), installed_versions(command, None, None))
    return from_words(command) | from_launch(plan(request))
