"""Which words and frames say what a rank was busy with."""

from __future__ import annotations

import pytest

from firstfault.engine.derive.activity_table import activity_of_frames, activity_of_line
from firstfault.model.event import Frame
from firstfault.model.span import SourceSpan

SITE = "/v/lib/python3.11/site-packages/"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ckpt - INFO - written 12.1 of 90 GiB", "save"),
        ("Saving model checkpoint to out/checkpoint-500", "save"),
        ("Model saved in out/model.safetensors", None),
        ("saving checkpoint finished", ""),
        ("Downloading shards:  40%|####", "download"),
        ("Map (num_proc=8):  12%|#2", "preprocess"),
        ("Running tokenizer on dataset", "preprocess"),
        ("building the sample index", "preprocess"),
        ("[__recompiles] Recompiling function forward", "compile"),
        ("still waiting for batch 12 of the loader", "read"),
        ("fetching shard 00017.tar", "read"),
        ("evaluating batch 40 of 900", "evaluation"),
        ("wandb: Network error (ReadTimeout), entering retry loop.", "tracker"),
        ("step 30 loss 2.1 took 0.9 s", "train"),
        ("{'loss': 2.1, 'epoch': 0.1}", "train"),
        ("hello", None),
        ("all ranks are ready", None),
    ],
)
def test_lines(line, expected):
    assert activity_of_line(line) == expected


def frames(*named):
    return [Frame(path, 1, function, "", SourceSpan("x", 1, 0)) for path, function in named]


def test_innermost_telling_frame_counts():
    main = ("train.py", "main")
    assert activity_of_frames(frames(main, ("train.py", "save_checkpoint"), ("io.py", "flush"))) == "save"
    assert activity_of_frames(frames(main, ("data.py", "__getitem__"), (SITE + "pyarrow/parquet/core.py", "read"))) == "read"
    assert activity_of_frames(frames(main, (SITE + "torch/_inductor/codecache.py", "load"))) == "compile"
    assert activity_of_frames(frames(main, (SITE + "torch/nn/modules/linear.py", "forward"))) is None
