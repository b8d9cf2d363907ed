"""What a rank was busy with, by the words of its last lines and by the frames of the stack on which it was stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.derive.frames import is_library, library_path
from firstfault.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.event import Frame

_CKPT = r"(?:checkpoint|ckpt|state[ _]?dict|weights|snapshot|optimizer[ _]states?|model|\.(?:pt|pth|ckpt|distcp|safetensors)\b)"
_DATA = (
    r"(?:row[ _]groups?|shards?|parquet|data(?:set|loader|_loader)?|batch(?:es)?|records?|samples?|examples?|prefetch|files?"
    r"|\.(?:arrow|tar|jsonl?|csv|tfrecord|zst|gz)\b)"
)

# The first row that fits a line decides. A verb alone says little: it needs its object, before or behind it.
_LINES = (
    ("save", lazy_pattern(rf"(?i)\b(?:sav(?:e|ing)|writ(?:e|ing|ten)|dumping|uploading|gathering)\b.*{_CKPT}")),
    ("save", lazy_pattern(rf"(?i){_CKPT}.*\b(?:sav(?:e|ing)|writ(?:e|ing|ten)|dumping|uploading|gathering)\b")),
    ("download", lazy_pattern(r"(?i)\bdownloading\b|\bfetching \d+ files\b")),
    (
        "preprocess",
        lazy_pattern(
            r"(?i)\b(?:pre-?process|tokeni[sz])(?:e|ing)\b|\brunning tokenizer\b|\bgrouping texts\b|\bindexing\b"
            r"|\bbuilding (?:the )?(?:\w+ )?(?:index|indices|vocab\w*|dataset|cache)\b|\bgenerating \w+ split\b"
            r"|\b(?:Map|Filter)(?: \([^)]*\))?: +\d+%"
        ),
    ),
    ("compile", lazy_pattern(r"(?i)\b(?:torch)?(?:inductor|dynamo)\b|\b(?:re)?compil(?:ing|ation)\b|\bautotun(?:e|ing)\b")),
    ("read", lazy_pattern(rf"(?i)\b(?:read(?:ing)?|fetch(?:ing)?|opening|streaming|waiting for)\b.*\b{_DATA}")),
    ("read", lazy_pattern(rf"(?i)\b{_DATA}.*\b(?:read(?:ing)?|fetch(?:ing)?|opening|streaming)\b")),
    ("evaluation", lazy_pattern(r"(?i)\b(?:evaluat(?:e|ing|ion)|validating|running validation)\b")),
    ("generate", lazy_pattern(r"(?i)\bgenerating\b")),
    ("tracker", lazy_pattern(r"(?i)\b(?:wandb|mlflow|tensorboard|comet_ml|neptune|clearml)\b")),
    ("train", lazy_pattern(r"(?i)\b(?:step|iter(?:ation)?)\b[ =:/]{0,3}\d|['\"]?\bloss\b['\"]?[ =:]{1,3}\d")),
)
_ENDED = lazy_pattern(
    r"(?i)\b(?:saved|loaded|downloaded|written (?:to|in)|wrote|done|finished|completed?|succe\w+|took|failed)\b"
)

# Parts of library paths, the innermost frame first.
_PATHS = (
    ("torch/serialization.py", "save", "save"),
    ("torch/distributed/checkpoint/", "", "save"),
    ("safetensors/torch.py", "save_file", "save"),
    ("torch/_inductor/", "", "compile"),
    ("torch/_dynamo/", "", "compile"),
    ("triton/", "", "compile"),
    ("huggingface_hub/file_download.py", "", "download"),
    ("huggingface_hub/_snapshot_download.py", "", "download"),
    ("datasets/arrow_dataset.py", "", "preprocess"),
    ("datasets/builder.py", "", "preprocess"),
    ("torch/utils/data/", "", "read"),
    ("pyarrow/", "", "read"),
    ("h5py/", "", "read"),
    ("webdataset/", "", "read"),
    ("fsspec/", "", "read"),
    ("transformers/generation/", "", "generate"),
    ("wandb/", "", "tracker"),
    ("mlflow/", "", "tracker"),
)
_FUNCTIONS = (
    (
        "save",
        lazy_pattern(r"(?i)^_?(?:save|write)_\w*(?:checkpoint|ckpt|state|model|weights)|^(?:save|write)_?(?:ckpt|checkpoint)$"),
    ),
    ("download", lazy_pattern(r"(?i)^_?download")),
    ("preprocess", lazy_pattern(r"(?i)^_?(?:pre_?process|tokeni[sz]e|prepare_data|build_(?:index|dataset|vocab|cache))")),
    ("read", lazy_pattern(r"(?i)^(?:__getitem__|_?(?:read|fetch)_\w+|next_batch|load_(?:batch|shard|rows?))$")),
    ("evaluation", lazy_pattern(r"(?i)^_?(?:evaluate|validate|run_eval\w*|validation_\w+)$")),
    ("generate", lazy_pattern(r"^generate$")),
)


def activity_of_line(line: str) -> str | None:
    """What a line says that was going on when it was printed; empty for a line that says something had ended."""
    found = next((activity for activity, words in _LINES if words.search(line)), None)
    # A step that took 4 s is still training.
    return "" if found not in (None, "train") and _ENDED.search(line) else found


def activity_of_frames(frames: Sequence[Frame]) -> str | None:
    """What the innermost telling frame was doing."""
    for frame in reversed(frames):
        if is_library(frame.path):
            path = library_path(frame.path)
            for part, function, activity in _PATHS:
                if path.startswith(part) and (not function or frame.function.startswith(function)):
                    return activity
        else:
            named = next((activity for activity, words in _FUNCTIONS if words.search(frame.function)), None)
            if named is not None:
                return named
    return None
