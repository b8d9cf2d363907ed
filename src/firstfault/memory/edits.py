"""A change of the plan as a change of the user's own file of training arguments: the lines to write, as a diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from firstfault.memory.arguments import SAME
from firstfault.memory.plan import MemoryPlan

Files = Mapping[str, str]
"""The text of each file that was given, by its path."""
_Value = bool | int | str
_TRAINER = frozenset(
    name for name, short in SAME.items() if short in ("batch", "optim", "accumulate", "checkpointing", "model", "eval_batch")
) - {"train_micro_batch_size_per_gpu", "fsdp_config.fsdp_activation_checkpointing"}
_KEYS = {
    "batch": "per_device_train_batch_size",
    "accumulate": "gradient_accumulation_steps",
    "checkpointing": "gradient_checkpointing",
    "optim": "optim",
    "fused_loss": "use_liger_kernel",
    "bf16": "bf16",
    "eval_batch": "per_device_eval_batch_size",
    "eval_accumulation": "eval_accumulation_steps",
}
"""What is written where the file has no key of that meaning yet; other settings have no name that every script knows."""


def changed_settings(before: MemoryPlan, after: MemoryPlan) -> dict[str, _Value]:
    """The settings, under the names of `arguments`, that differ; empty where no file of arguments says it."""
    found: dict[str, _Value] = {}
    if before.parallel != after.parallel or before.keeps_graphs != after.keeps_graphs:
        return found
    pairs: dict[str, tuple[object, object, _Value]] = {
        "batch": (before.micro_batch, after.micro_batch, after.micro_batch),
        "accumulate": (before.accumulate, after.accumulate, after.accumulate),
        "checkpointing": (before.checkpointing, after.checkpointing, after.checkpointing),
        "optim": (before.optimizer, after.optimizer, _optim(after)),
        "fused_loss": (before.loss, after.loss, True),
        "bf16": (before.autocast, after.autocast, after.autocast is not None),
        "seq": (before.seq_len, after.seq_len, after.seq_len),
        "dtype": (before.weights, after.weights, after.weights),
    }
    if after.evaluation is not None and before.evaluation is not None:
        old, new = before.evaluation, after.evaluation
        pairs["eval_batch"] = (old.micro_batch, new.micro_batch, new.micro_batch)
        pairs["eval_accumulation"] = (old.accumulation_steps, new.accumulation_steps, new.accumulation_steps or 0)
    return {name: value for name, (old_value, new_value, value) in pairs.items() if old_value != new_value}


def _optim(plan: MemoryPlan) -> str:
    if plan.optimizer.name == "adamw_8bit":
        return "adamw_bnb_8bit"
    return "adamw_torch_fused" if plan.optimizer.implementation == "fused" else "adamw_torch"


def edit_files(files: Files, settings: Mapping[str, _Value]) -> tuple[dict[str, str], str]:
    """The files with these settings and the diff (for `git apply`); ({}, "") where a setting has no place in any of them."""
    texts, missing = dict(files), dict(settings)
    for name, value in settings.items():
        for path, text in texts.items():
            replaced = _replaced(text, name, value)
            if replaced is not None:
                texts[path] = replaced
                missing.pop(name, None)
    for name, value in missing.items():
        holder = next((one for one, text in texts.items() if any(_line_of(key).search(text) for key in _TRAINER)), None)
        if holder is None or name not in _KEYS:
            return {}, ""
        texts[holder] = _added(texts[holder], _KEYS[name], value)
    return texts, "".join(_diff(path, files[path], text) for path, text in texts.items() if text != files[path])


def _line_of(key: str) -> re.Pattern[str]:
    last = re.escape(key.rpartition(".")[2])
    return re.compile(
        rf"^(?P<head>[ \t]*(?P<quote>[\"']?){last}(?P=quote)[ \t]*:[ \t]*)(?P<value>[^,#\n]*?)(?P<tail>[ \t]*,?[ \t]*(#.*)?)$",
        re.M,
    )


def _replaced(text: str, name: str, value: _Value) -> str | None:
    for key, short in SAME.items():
        found = _line_of(key).search(text) if short == name else None
        if found is not None and found["value"].strip():
            written = _written(value, json=bool(found["quote"]))
            return f"{text[: found.start('value')]}{written}{text[found.end('value') :]}"
    return None


def _added(text: str, key: str, value: _Value) -> str:
    head, brace, rest = text.partition("{")
    if brace and not head.strip():
        return f'{head}{{\n  "{key}": {_written(value, json=True)},{"" if rest.startswith(chr(10)) else chr(10)}{rest}'
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{key}: {_written(value, json=False)}\n"


def _written(value: _Value, *, json: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if json and isinstance(value, str) else str(value)


def _diff(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
