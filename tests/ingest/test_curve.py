from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.ingest.bundle import gather
from firstfault.ingest.curve import Curve, curve_of
from firstfault.knowledge.pack import load_pack


def curve(folder: Path, text: str) -> Curve:
    path = folder / "run.log"
    path.write_text(text)
    return curve_of(gather([str(path)], load_pack()))


def values(found: Curve) -> dict[str, float]:
    return {key: point.value for key, point in found.losses.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step 10/100 loss=2.5\nstep 20/100 loss=2.25\n", {"step 10": 2.5, "step 20": 2.25}),
        ("iteration 7: train loss: 1.5e-2 lr 1e-4\n" * 2, {"step 7": 0.015}),
        ("{'loss': 2.5, 'epoch': 0.1}\n{'eval_loss': 9.0, 'epoch': 0.2}\n", {"epoch 0.1": 2.5}),
        ("{'train_runtime': 9.1, 'train_loss': 2.0, 'epoch': 1.0}\n{'loss': 2.5, 'epoch': 0.5}\n", {"epoch 0.5": 2.5}),
        ("step 1/9 closs=4.0\nstep 2/9 no number in loss\n", {}),
    ],
)
def test_losses_by_step_or_epoch(tmp_path: Path, text: str, expected: dict[str, float]) -> None:
    assert values(curve(tmp_path, text)) == expected


def test_the_first_rank_stands_for_all_and_has_its_place(tmp_path: Path) -> None:
    found = curve(tmp_path, "x\n[rank0]: step 1/9 loss=4.0\n[rank1]: step 1/9 loss=5.0\n")
    assert values(found) == {"step 1": 4.0}
    span = found.losses["step 1"].span
    assert (span.line, span.offset) == (2, 2)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("step 1/9 loss=1 2.5 it/s\nstep 2/9 loss=1 2.0 it/s\n", 0.45),
        (" 10%|#   | 1/9 [00:02<00:18, 2.50s/it]\r 20%|##  | 2/9 [00:05<00:18, 3.50s/it]\n", 3.0),
        ("step 1 loss=1 step_time: 250 ms\nstep 2 loss=1 step_time: 350 ms\n", 0.3),
        ("step 1/9 loss=1 2.5 it/s\n", None),
    ],
)
def test_the_time_of_a_step_is_the_middle_one(tmp_path: Path, text: str, seconds: float | None) -> None:
    found = curve(tmp_path, text).step_s
    assert found == seconds if seconds is None else found == pytest.approx(seconds)


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    found = values(curve(tmp_path, "step 1/9 loss=nan\n"))
    assert list(found) == ["step 1"]
    assert found["step 1"] != found["step 1"]
