"""Vocabulary, weights and shapes that a run prints."""

from __future__ import annotations

from typing import Any

import pytest

from firstfault.ingest.batch_shapes import read_batch_shapes
from firstfault.model.event import Place
from reader_lines import context, lines


def read(text: str, rank: int | None = None) -> dict[str, Any]:
    found = read_batch_shapes(lines(text, Place(rank=rank)), context())
    return {setting.key: setting.value for setting in found}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('  "vocab_size": 32000,\n', {"vocab_size": 32000}),
        ("model: hidden=4096 vocab_size=151936\n", {"vocab_size": 151936}),
        ("tokenizer.vocab_size = 32000\n", {}),
        ('    "total_size": 13476839424\n', {"weights_bytes": 13476839424}),
        ("total_size of the data: 5000\n", {}),
    ],
)
def test_sizes_of_the_model(text: str, expected: dict[str, Any]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "line",
    [
        "input_ids.shape torch.Size([4, 812])",
        "input_ids: (4, 812)",
        "{'input_ids': torch.Size([4, 812])}",
        "input_ids.shape=(4,812)",
    ],
)
def test_shape_of_a_batch(line: str) -> None:
    assert read(line) == {"input_ids.first": "4x812", "input_ids.last": "4x812"}


def test_the_largest_before_the_last_is_kept() -> None:
    text = "\n".join(f"input_ids ({rows}, {length})" for rows, length in ((2, 10), (4, 30), (3, 35), (2, 90)))
    found = read(text, rank=3)
    assert found == {"input_ids.first.3": "2x10", "input_ids.largest_before.3": "4x30", "input_ids.last.3": "2x90"}


def test_other_dimensions_are_no_batch() -> None:
    assert read("input_ids (4, 812, 7)\ninput_ids (4,)\nattention (4, 812)\n") == {}
