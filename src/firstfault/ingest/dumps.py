"""Configurations that stand inside other texts: pasted files, `accelerate env`, DeepSpeed's own print, TrainingArguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from firstfault.ingest.configs import read_accelerate, read_deepspeed
from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting

MAX_DUMPS = 20
MAX_DUMP_LINES = 400
MAX_SETTINGS = 5_000

_ACCELERATE_KEYS = frozenset(
    {
        "compute_environment", "distributed_type", "num_processes", "num_machines", "mixed_precision", "machine_rank",
        "main_training_function", "use_cpu", "dynamo_config", "fsdp_config", "deepspeed_config", "downcast_bf16",
        "rdzv_backend", "same_network", "gpu_ids", "main_process_ip", "main_process_port", "debug",
        "enable_cpu_affinity", "tpu_use_cluster",
    }
)  # fmt: skip
_MIN_KEYS = 3
_DEFAULT_CONFIG = lazy_pattern(r"^\s*- `Accelerate` default config:\s*$", needs="default config")
DEFAULT_CONFIG_NAME = "default_config.yaml"
_DEEPSPEED_KEY = lazy_pattern(
    r'"(?:zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|gradient_accumulation_steps|bf16|fp16)"\s*:'
)
_YAML_ROW = lazy_pattern(r"^(?P<dash>\t?- )?(?P<indent>\s*)(?P<key>[A-Za-z_]\w*):(?:\s|$)")
_JSON_OPENS = lazy_pattern(r"^\s*(?:json = |[\w. -]{1,60}[=:] ?)?\{\s*$")
_DOTTED = lazy_pattern(r"^\s*(?P<key>[a-z]\w{2,60}) \.{3,60} (?P<value>\S.{0,500}?)\s*$", needs=" ...")
_ARGUMENTS_OPEN = lazy_pattern(
    r"\b(?:Seq2Seq)?(?:Training|SFT|DPO|GRPO|PPO|Reward)(?:Arguments|Config)\((?P<rest>.*)$", needs=("Arguments(", "Config(")
)
_SOURCE_CODE = lazy_pattern(r"(?:=|\breturn|\(|#.*)\s*$")
_ARGUMENT = lazy_pattern(
    r"(?P<key>[a-z_]\w{1,60})="
    r"(?P<value>'[^']{0,500}'|\"[^\"]{0,500}\"|\[[^\]]{0,500}\]|\{[^}]{0,500}\}|[^,()]{0,200})"
)


def read_dumps(lines: Sequence[Line], ctx: Context) -> tuple[Setting, ...]:
    """Settings of configurations quoted in a log or a paste: families accelerate, deepspeed and arguments."""
    found: list[Setting] = []
    for block in _yaml_blocks(lines):
        found.extend(_reread(block, ctx, "accelerate"))
    for block in _json_blocks(lines):
        found.extend(_reread(block, ctx, "deepspeed"))
    found.extend(_default_config(lines, ctx))
    found.extend(_dotted(lines, ctx))
    found.extend(_arguments(lines, ctx))
    found.sort(key=lambda setting: setting.span.offset)
    return tuple(found[:MAX_SETTINGS])


def _reread(block: Sequence[Line], ctx: Context, family: str) -> list[Setting]:
    """Settings of a block as its own reader sees it, put back to where the lines stand."""
    text = "\n".join(line.text for line in block)
    local = Context(source=msgspec.structs.replace(ctx.source, first_line=0, first_offset=0))
    settings, _ = read_accelerate(text, local) if family == "accelerate" else read_deepspeed(text, local)
    placed = []
    for setting in settings:
        line = block[min(setting.span.line, len(block) - 1)]
        placed.append(msgspec.structs.replace(setting, span=ctx.span(line), text=line.text))
    return placed


def _yaml_blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Runs of `key: value` lines with enough keys of accelerate; the bullets of `accelerate env` are taken off."""
    block: list[Line] = []
    keys: set[str] = set()
    given = 0
    for line in (*lines, None):
        row = _YAML_ROW.match(line.text) if line is not None else None
        if line is not None and row and len(block) < MAX_DUMP_LINES:
            text = line.text[row.end("dash") :] if row["dash"] else line.text
            block.append(msgspec.structs.replace(line, text=text))
            keys.add(row["key"])
            continue
        if len(keys & _ACCELERATE_KEYS) >= _MIN_KEYS and given < MAX_DUMPS:
            given += 1
            yield [part for part in block if part.text[:1].isspace() or _key(part) in _ACCELERATE_KEYS]
        block, keys = [], set()


def _default_config(lines: Sequence[Line], ctx: Context) -> Iterator[Setting]:
    """`accelerate env` says whether there is a default configuration: a name for the block below, or None."""
    for line, below in pairwise(lines):
        if _DEFAULT_CONFIG.match(line.text):
            name = None if below.text.strip() == "Not found" else DEFAULT_CONFIG_NAME
            yield msgspec.structs.replace(_setting("file", "name", "", line, ctx), value=name)
            return


def _key(line: Line) -> str:
    return line.text.partition(":")[0]


def _json_blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Objects in braces over several lines with a key of DeepSpeed."""
    given, position = 0, 0
    while position < len(lines) and given < MAX_DUMPS:
        text = lines[position].text
        opens = _JSON_OPENS.match(text) if text.rstrip().endswith("{") else None
        if not opens:
            position += 1
            continue
        block: list[Line] = []
        depth, relevant = 0, False
        for line in lines[position : position + MAX_DUMP_LINES]:
            text = line.text if block else "{"
            block.append(msgspec.structs.replace(line, text=text))
            depth += text.count("{") - text.count("}")
            relevant = relevant or bool(_DEEPSPEED_KEY.search(text))
            if depth <= 0:
                break
        if depth == 0 and relevant:
            given += 1
            yield block
            position += len(block)
        else:
            position += 1


def _dotted(lines: Sequence[Line], ctx: Context) -> Iterator[Setting]:
    """`key ........ value`, as DeepSpeed prints its configuration at start."""
    for line in lines:
        found = _DOTTED.match(line.text) if " ..." in line.text else None
        if found:
            yield _setting("deepspeed", found["key"], found["value"], line, ctx)


def _arguments(lines: Sequence[Line], ctx: Context) -> Iterator[Setting]:
    """`TrainingArguments(key=value, ...)` on one line or one value a line."""
    left = 0
    for line in lines:
        opens = _ARGUMENTS_OPEN.search(line.text)
        if opens and _SOURCE_CODE.search(line.text, 0, opens.start()):
            opens = None
        text = opens["rest"] if opens else line.text
        left = MAX_DUMP_LINES if opens else left - 1
        if left <= 0:
            continue
        for found in _ARGUMENT.finditer(text[:20_000]):
            yield _setting("arguments", found["key"].lstrip("_"), found["value"], line, ctx)
        if text.rstrip().endswith(")"):
            left = 0


def _setting(family: str, key: str, text: str, line: Line, ctx: Context) -> Setting:
    return Setting(
        family=family, key=key, value=literal(text), span=ctx.span(line), text=line.text.strip()[:500], source_id=ctx.source_id
    )


def literal(text: str) -> bool | int | float | str | None:
    """The value that a printed Python or shell word stands for."""
    text = text.strip()
    if text in ("True", "true"):
        return True
    if text in ("False", "false"):
        return False
    if text in ("None", "null"):
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text) if len(text) < 32 and "_" not in text else text
        except ValueError:
            continue
    return text
