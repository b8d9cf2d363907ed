"""Constants that a script gives to TrainingArguments, Trainer and Accelerator, and the order in which it makes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from firstfault.ingest.script_flow import Step
from firstfault.ingest.script_said import Said
from firstfault.ingest.script_tree import Script, is_open, keyword
from firstfault.lazy_pattern import lazy_pattern

PRODUCES = (
    "script.zero_config_late",
    "train.eval_accumulation_steps",
    "train.gradient_checkpointing",
    "train.preprocess_logits",
)

_ARGUMENTS = lazy_pattern(r"(?:^|\.)(?:\w*TrainingArguments|(?:SFT|DPO|GRPO|PPO|ORPO|KTO|CPO|RLOO|Reward)Config)$")
_TRAINER = lazy_pattern(r"(?:^|\.)(?:Seq2Seq|SFT|DPO|GRPO|ORPO|KTO|CPO|Reward)?Trainer$")
_ACCELERATOR = lazy_pattern(r"(?:^|\.)Accelerator$")
_READY_FOR_ZERO = lazy_pattern(r"(?:^|\.)HfDeepSpeedConfig$|\.parse_args_into_dataclasses$|\.parse_(?:yaml|json|dict)\w*$")
_MODEL_CLASS = lazy_pattern(r"(?:^|\.)(?:AutoModel\w*|\w+Model|\w+For[A-Z]\w*)\.from_pretrained$")
_TRAINER_KEYS = frozenset({"args", "train_dataset", "eval_dataset", "data_collator", "compute_metrics"})


class Constant(NamedTuple):
    """A keyword that a call gives a constant to: which family of settings it belongs to, its key and its value."""

    family: str
    key: str
    value: bool | int | float | str
    node: ast.AST


def read_arguments(script: Script, flows: tuple[tuple[Step, ...], ...]) -> Iterator[Said]:
    """Facts of the Trainer's arguments."""
    for found in (_eval_accumulation(script), _preprocess(script), _checkpointing(script), _order(script, flows)):
        if found is not None:
            yield found


def constants(script: Script) -> Iterator[Constant]:
    """Constants of TrainingArguments (as `arguments`) and of Accelerator and Lightning's Trainer (as `script`)."""
    for call in script.calls:
        callee = script.callee(call)
        if _ARGUMENTS.search(callee):
            yield from _keywords(script, call, "arguments", "")
        elif _ACCELERATOR.search(callee):
            yield from _keywords(script, call, "script", "Accelerator.")
        elif _TRAINER.search(callee) and keyword(call, "devices") is not None:
            yield from _keywords(script, call, "script", "Trainer.")


def _keywords(script: Script, call: ast.Call, family: str, prefix: str) -> Iterator[Constant]:
    for one in call.keywords:
        value = script.constant(one.value)
        if one.arg is not None and value is not None:
            yield Constant(family, prefix + one.arg, value, one.value)


def _only(script: Script, callee: str) -> bool:
    """True if no attribute of that name is set later on: `args.eval_accumulation_steps = 1`."""
    return not any(
        isinstance(node, ast.Attribute) and node.attr == callee and isinstance(node.ctx, ast.Store) for node in script.nodes
    )


def _arguments_call(script: Script) -> ast.Call | None:
    """The only call that makes the Trainer's arguments, with all of them in sight."""
    found = [call for call in script.calls if _ARGUMENTS.search(script.callee(call))]
    return found[0] if len(found) == 1 and not is_open(found[0]) else None


def _eval_accumulation(script: Script) -> Said | None:
    name = "train.eval_accumulation_steps"
    call = _arguments_call(script)
    if call is None or not _only(script, "eval_accumulation_steps"):
        return None
    value = keyword(call, "eval_accumulation_steps")
    if value is None or (isinstance(value, ast.Constant) and value.value is None):
        return Said(name, 0, "not among the arguments of the call", call)
    steps = script.constant(value)
    return Said(name, steps, "keyword of the call", value) if isinstance(steps, int) and not isinstance(steps, bool) else None


def _preprocess(script: Script) -> Said | None:
    name = "train.preprocess_logits"
    found: dict[bool, Said] = {}
    for call in script.calls:
        callee = script.callee(call)
        if not _TRAINER.search(callee) or not _TRAINER_KEYS & {one.arg for one in call.keywords} or is_open(call):
            continue
        value = keyword(call, "preprocess_logits_for_metrics")
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            # SFTTrainer and its siblings may pass one of their own.
            if callee.rpartition(".")[2] not in ("Trainer", "Seq2SeqTrainer"):
                return None
            found[False] = Said(name, False, "the trainer gets no preprocess_logits_for_metrics", call)
        else:
            found[True] = Said(name, True, "preprocess_logits_for_metrics", value)
    return next(iter(found.values())) if len(found) == 1 else None


def _checkpointing(script: Script) -> Said | None:
    name = "train.gradient_checkpointing"
    kinds: dict[bool, ast.AST] = {}
    used = False
    for call in script.calls:
        callee = script.callee(call)
        method = callee.rpartition(".")[2]
        if method == "gradient_checkpointing_enable":
            used, settings = True, keyword(call, "gradient_checkpointing_kwargs") or (call.args[0] if call.args else None)
        elif _ARGUMENTS.search(callee):
            asked = keyword(call, "gradient_checkpointing")
            used = used or is_open(call) or (asked is not None and script.constant(asked) is not False)
            settings = keyword(call, "gradient_checkpointing_kwargs") if script.constant(asked) is True else None
        elif callee.endswith("utils.checkpoint.checkpoint"):
            used, settings = True, call
        else:
            continue
        reentrant = _reentrant(script, settings)
        if reentrant is not None:
            kinds[reentrant] = settings or call
    if len(kinds) == 1:
        reentrant, node = next(iter(kinds.items()))
        return Said(name, "reentrant" if reentrant else "non_reentrant", f"use_reentrant={reentrant}", node)
    trainer = _arguments_call(script)
    mentioned = any(isinstance(node, ast.Attribute) and "checkpointing" in node.attr for node in script.nodes)
    if trainer is not None and not used and not mentioned and not kinds and script.whole:
        return Said(name, False, "not among the arguments of the call", trainer)
    return None


def _reentrant(script: Script, settings: ast.expr | None) -> bool | None:
    """`use_reentrant` of a call, or of a dictionary written out."""
    value: ast.expr | None = None
    if isinstance(settings, ast.Dict):
        for key, given in zip(settings.keys, settings.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "use_reentrant":
                value = given
    elif isinstance(settings, ast.Call):
        value = keyword(settings, "use_reentrant")
    stated = script.constant(value)
    return stated if isinstance(stated, bool) else None


def _order(script: Script, flows: tuple[tuple[Step, ...], ...]) -> Said | None:
    """Whether a model is loaded before the configuration of DeepSpeed can be known; both must stand in one flow."""
    name = "script.zero_config_late"
    for flow in flows:
        loaded: ast.Call | None = None
        ready: ast.Call | None = None
        for step in flow:
            if not isinstance(step.node, ast.Call):
                continue
            callee = script.callee(step.node)
            if _MODEL_CLASS.search(callee) and step.sure and loaded is None:
                loaded = step.node
                if ready is not None:
                    return Said(name, False, "the arguments stand before the model is loaded", ready, loaded)
            elif (_ARGUMENTS.search(callee) or _READY_FOR_ZERO.search(callee)) and ready is None:
                ready = step.node
                if loaded is not None:
                    return Said(name, True, "the model is loaded before the arguments exist", loaded, ready)
    return None
