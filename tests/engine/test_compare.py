"""The parts of a comparison: which facts a failure may rest on, equal values, secrets, and how much a number changed."""

from __future__ import annotations

import pytest

from firstfault.engine.compare.curves import curve_rows
from firstfault.engine.compare.explain import is_setup
from firstfault.engine.compare.facts import change
from firstfault.engine.compare.rows import ABSENT, UNKNOWN, Rows, known, same
from firstfault.engine.compare.secret import is_secret, without_secrets
from firstfault.ingest.curve import Curve, Point
from firstfault.knowledge.pack import load_pack
from firstfault.model.plan import Scalar
from firstfault.model.span import SourceSpan


@pytest.mark.parametrize("name", ["launch.processes", "trainer.uses_dataparallel", "train.micro_batch", "run.world_size"])
def test_how_a_run_was_set_up(name: str) -> None:
    assert is_setup(name, load_pack())


@pytest.mark.parametrize("name", ["fault.class", "oom.phase", "plan.stops", "launch.no_such_fact", "run.steps_done"])
def test_what_happened_in_a_run_explains_no_difference(name: str) -> None:
    assert not is_setup(name, load_pack())


def test_a_text_that_was_printed_is_no_setting() -> None:
    pack = load_pack()
    events = {signal.event for signal in pack.signals if signal.event.startswith(("launch.", "train."))} - pack.facts.keys()
    assert events
    assert not any(is_setup(name, pack) for name in events)


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [(True, "true", True), (1, "1", True), (2e-5, "0.00002", True), ("NO", "no", True), (None, "none", True), (1, 2, False)],
)
def test_values_that_mean_the_same(a: Scalar, b: Scalar, alike: bool) -> None:
    assert same(a, b) is alike


def test_unknown_is_no_difference_and_absent_is_one() -> None:
    rows = Rows()
    rows.add("plan", "a", "a", [known(1), UNKNOWN])
    rows.add("plan", "b", "b", [known(1), ABSENT])
    rows.add("plan", "c", "c", [ABSENT, UNKNOWN])
    rows.add("plan", "d", "d", [known(1), known("1")])
    rows.add("plan", "b", "b", [known(1), known(2)])
    assert [row.id for row in rows.differences] == ["b"]
    assert [row.id for row in rows.unknown] == ["a"]
    assert rows.equal == {"plan": 1}


@pytest.mark.parametrize(("a", "b", "said"), [(1, 8, "8 times A"), (100, 112, "12 % more"), (4, 3, "25 % less"), (1, 1, "")])
def test_how_much_a_number_changed(a: float, b: float, said: str) -> None:
    assert change(a, b) == said


def test_secrets_by_name() -> None:
    assert all(map(is_secret, ("HF_TOKEN", "WANDB_API_KEY", "hub_token", "DB_PASSWORD")))
    assert not any(map(is_secret, ("TOKENIZERS_PARALLELISM", "tokenizer_name", "max_tokens", "author", "monkey")))
    command = "HF_TOKEN=abc torchrun train.py --api_key def --tokenizer ghi --lr 1"
    assert without_secrets(command) == "HF_TOKEN=*** torchrun train.py --api_key *** --tokenizer ghi --lr 1"


def curve(*values: float) -> Curve:
    return Curve(losses={f"step {step}": Point(value, SourceSpan("x.log", step, 0)) for step, value in enumerate(values)})


def test_a_single_step_that_differs_is_noise() -> None:
    rows = Rows()
    assert curve_rows(curve(3.0, 2.5, 2.0), curve(3.0, 2.9, 2.001), rows) is None
    assert rows.equal["progress"] == 1


def test_losses_part_where_they_stay_apart() -> None:
    rows = Rows()
    parting = curve_rows(curve(3.0, 2.5, 2.0, 1.9), curve(3.0, 2.5, 2.2, float("nan")), rows)
    assert parting is not None
    assert (parting.first, parting.last) == ("step 2", "step 3")
    assert [row.id for row in rows.differences] == ["loss.step 2", "loss.step 3"]
