"""`firstfault compare` from the shell: commands, runs, versions, one changed key, odd inputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from comparison_runs import ENDED_WELL, GATHERED, NO_YAML, OUT_OF_MEMORY, PACKAGES, REFUSED, ZERO3, losses, write

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _plain_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no-such-home"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def made(call: Call, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, err = call("compare", "--format", "json", *arguments)
    assert err == ""
    return code, json.loads(out)


def rows(answer: dict[str, Any], kind: str = "differences") -> dict[str, tuple[Any, Any]]:
    return {row["id"]: (row["a"]["value"], row["b"]["value"]) for row in answer[kind]}


def test_python_and_a_launch_without_distribution_are_the_same_program(call: Call, tmp_path: Path) -> None:
    config = Path(write(tmp_path, d__yaml=NO_YAML)) / "d.yaml"
    launch = f"accelerate launch --config_file {config} train.py"
    code, answer = made(call, "--gpus", "4", "--versions", "accelerate=1.15.0", "python train.py", launch, "--fails", "b")
    assert (code, answer["verdict"]) == (3, "undetermined")
    assert "same program" in answer["summary"]
    assert answer["explanations"] == []
    assert "plan.wraps_in_DataParallel" not in rows(answer)
    assert any("DataParallel" in text for text in answer["alike"])
    assert answer["missing"][0]["fact"] == "launch.visible_gpus"
    assert rows(answer)["plan.value.dynamo_backend"] == (None, "INDUCTOR")
    # Without somebody who says that one of them fails, nothing that differs matters.
    code, answer = made(call, "--gpus", "4", "--versions", "accelerate=1.15.0", "python train.py", launch)
    assert (code, answer["verdict"]) == (0, "no_failure")
    assert any("did not see the same GPUs" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("variable", "code", "verdict"), [("CUDA_VISIBLE_DEVICES=0 ", 1, "established"), ("", 3, "undetermined")]
)
def test_works_with_python_and_fails_with_accelerate(
    call: Call, tmp_path: Path, variable: str, code: int, verdict: str
) -> None:
    a = write(tmp_path / "a", train__log=losses(f"{variable}python train.py", 1, (2.5, 2.3)))
    launch = "$ accelerate launch --config_file d.yaml train.py\n"
    b = write(tmp_path / "b", d__yaml=NO_YAML, train__log=launch + GATHERED)
    found, answer = made(call, a, b)
    assert (found, answer["verdict"], answer["b"]["entry"]) == (code, verdict, "trainer-implicit-dataparallel")
    if variable:
        assert answer["explanations"][0]["differences"] == ["trainer.uses_dataparallel"]
        assert answer["explanations"][0]["fix"]
    else:
        assert [fact["fact"] for fact in answer["missing"]] == ["trainer.uses_dataparallel"]


def test_the_number_of_visible_gpus_explains(call: Call) -> None:
    code, answer = made(call, "--gpus", "1,4", "python train.py", "python train.py")
    assert (code, answer["verdict"]) == (1, "likely")
    explanation = answer["explanations"][0]
    assert (explanation["entry"], explanation["failing"]) == ("trainer-implicit-dataparallel", "b")
    assert "plan.visible" in explanation["differences"]
    assert rows(answer)["plan.effective_batch"] == (4, 16)


def test_a_launcher_that_stops_explains(call: Call) -> None:
    stops = "accelerate launch --multi_gpu --num_processes 1 x.py"
    code, answer = made(call, "--gpus", "1", "--versions", "accelerate=1.15.0", stops, "python x.py")
    assert (code, answer["verdict"], answer["a"]["ending"]) == (1, "established", "stops")
    assert answer["explanations"][0]["differences"] == ["plan.error"]


def test_unknown_gpus_are_the_missing_fact(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    code, answer = made(call, "--versions", "accelerate=1.15.0", "python train.py", "accelerate launch train.py")
    assert (code, answer["missing"][0]["fact"]) == (3, "gpus")
    assert rows(answer)["plan.gpus.4"] == ("1 process, DataParallel over 4", "4 processes, DDP, a GPU each")


def test_a_newer_version_explains(call: Call, tmp_path: Path) -> None:
    old = write(tmp_path / "old", pip__txt=PACKAGES, train__log=ENDED_WELL)
    newer = PACKAGES.replace("2.4.1", "2.6.0").replace("4.46.3", "4.49.0")
    new = write(tmp_path / "new", pip__txt=newer, train__log=REFUSED)
    code, answer = made(call, old, new)
    assert (code, answer["verdict"]) == (1, "established")
    explanation = answer["explanations"][0]
    assert (explanation["entry"], explanation["differences"]) == ("torch-load-weights-only", ["package.torch"])
    assert rows(answer)["package.transformers"] == ("4.46.3", "4.49.0")
    assert answer["equal_by_topic"]["version"] == 7


def test_a_version_that_changed_otherwise_explains_nothing(call: Call, tmp_path: Path) -> None:
    old = write(tmp_path / "old", pip__txt=PACKAGES.replace("2.4.1", "2.6.0"), train__log=ENDED_WELL)
    new = write(tmp_path / "new", pip__txt=PACKAGES.replace("2.4.1", "2.7.0"), train__log=REFUSED)
    code, answer = made(call, old, new)
    assert (code, answer["verdict"], answer["explanations"]) == (3, "undetermined", [])


def test_a_version_that_one_side_does_not_show_is_missing(call: Call, tmp_path: Path) -> None:
    old = write(tmp_path / "old", train__log=ENDED_WELL)
    new = write(tmp_path / "new", pip__txt=PACKAGES.replace("2.4.1", "2.6.0"), train__log=REFUSED)
    code, answer = made(call, old, new)
    assert (code, answer["missing"][0]["fact"]) == (3, "package.torch")


def test_more_ranks_with_the_same_rate_explain_other_losses(call: Call, tmp_path: Path) -> None:
    words = "train.py --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --learning_rate 2e-05"
    one = write(tmp_path / "one", train__log=losses(f"python {words}", 1, (2.5, 2.3, 2.1)))
    eight = write(tmp_path / "eight", train__log=losses(f"torchrun --nproc_per_node 8 {words}", 8, (2.5, 2.45, 2.4)))
    code, answer = made(call, one, eight)
    assert (code, answer["verdict"]) == (1, "likely")
    text = answer["explanations"][0]["text"]
    assert "16 samples in A and 128 in B" in text
    assert "from epoch 0.2 on" in text
    assert "it was not changed with the batch" in text
    assert rows(answer)["effective_batch"] == (16, 128)
    assert "loss.epoch 0.1" not in rows(answer)


def test_losses_that_part_without_a_known_reason(call: Call, tmp_path: Path) -> None:
    words = "python train.py --per_device_train_batch_size 8 --learning_rate 2e-05"
    a = write(tmp_path / "a", train__log=losses(words, 1, (2.5, 2.3)))
    b = write(tmp_path / "b", train__log=losses(words, 1, (2.5, 2.4)))
    code, answer = made(call, a, b)
    assert (code, answer["verdict"], answer["missing"][0]["fact"]) == (3, "undetermined", "train.seed")


def test_the_rate_and_the_seed_explain_losses_by_the_rules_of_their_entry(call: Call, tmp_path: Path) -> None:
    words = "python train.py --per_device_train_batch_size 8 --learning_rate {} --seed {}"
    for name, (rate, seed), row in (("r", ("3e-05", 1), "learning_rate"), ("s", ("2e-05", 2), "seed")):
        a = write(tmp_path / f"{name}a", train__log=losses(words.format("2e-05", 1), 1, (2.5, 2.3)))
        b = write(tmp_path / f"{name}b", train__log=losses(words.format(rate, seed), 1, (2.5, 2.4)))
        code, answer = made(call, a, b)
        assert (code, answer["verdict"]) == (1, "likely")
        assert any(row in shown for shown in answer["explanations"][0]["differences"])


def test_one_changed_key_of_deepspeed(call: Call, tmp_path: Path) -> None:
    a = write(tmp_path / "a", ds__json=ZERO3, train__log=ENDED_WELL)
    b = write(tmp_path / "b", ds__json=ZERO3.replace('"stage": 3', '"stage": 2'), train__log=OUT_OF_MEMORY)
    code, answer = made(call, a, b)
    assert (code, answer["verdict"]) == (1, "likely")
    assert rows(answer)["deepspeed.zero_optimization.stage"] == (3, 2)
    assert answer["explanations"][0]["differences"] == ["deepspeed.zero_optimization.stage"]
    assert next(row for row in answer["differences"])["b"]["where"].endswith("ds.json:4")


def test_a_side_that_did_not_get_as_far_establishes_nothing(call: Call, tmp_path: Path) -> None:
    a = write(tmp_path / "a", ds__json=ZERO3, train__log="step 3/1000 loss=2.4\nstep 5/1000 loss=2.3\n")
    b = write(tmp_path / "b", ds__json=ZERO3.replace('"stage": 3', '"stage": 2'), train__log=OUT_OF_MEMORY)
    _, answer = made(call, a, b)
    assert answer["verdict"] != "established"
    assert any("was not seen to reach the step" in note for note in answer["notes"])


def test_two_identical_runs(call: Call, tmp_path: Path) -> None:
    a = write(tmp_path / "a", pip__txt=PACKAGES, train__log=ENDED_WELL)
    b = write(tmp_path / "b", pip__txt=PACKAGES, train__log=ENDED_WELL)
    for other in (b, a):
        code, answer = made(call, a, other)
        assert (code, answer["differences"], answer["summary"]) == (0, [], "Nothing that was read differs.")
        assert answer["equal"] > 9


def test_both_fail_alike(call: Call, tmp_path: Path) -> None:
    a = write(tmp_path / "a", pip__txt=PACKAGES, train__log=OUT_OF_MEMORY)
    b = write(tmp_path / "b", pip__txt=PACKAGES.replace("2.4.1", "2.6.0"), train__log=OUT_OF_MEMORY)
    code, answer = made(call, a, b)
    assert (code, answer["verdict"]) == (0, "no_failure")
    assert answer["summary"].startswith("Both fail alike: ")


def test_what_has_nothing_in_common_is_undecided(call: Call, tmp_path: Path) -> None:
    config = write(tmp_path / "a", d__yaml=NO_YAML)
    log = write(tmp_path / "b", train__log="step 1/2 loss=1.0\nstep 2/2 loss=0.9\n")
    code, answer = made(call, config, log)
    assert (code, answer["differences"], answer["a"]["ending"]) == (3, [], "not_seen")
    assert "nothing to compare" in answer["summary"]


def test_several_files_of_a_side(call: Call, tmp_path: Path) -> None:
    a = Path(write(tmp_path / "a", pip__txt=PACKAGES, train__log=ENDED_WELL))
    b = Path(write(tmp_path / "b", pip__txt=PACKAGES, train__log=ENDED_WELL))
    sides = ["--a", str(a / "pip.txt"), str(a / "train.log"), "--b", str(b / "pip.txt"), str(b / "train.log")]
    code, answer = made(call, *sides)
    assert (code, answer["a"]["files"], answer["b"]["files"]) == (0, 2, 2)


def test_secrets_are_held_against_each_other_and_not_shown(call: Call) -> None:
    sides = ["HF_TOKEN=abcdef python x.py --hub_token first", "HF_TOKEN=ghijkl python x.py --hub_token second"]
    code, out, _ = call("compare", "--gpus", "1", *sides, "--format", "json")
    assert code == 0
    assert not {"abcdef", "ghijkl", "first", "second"} & set(out.replace('"', " ").replace("=", " ").split())
    found = json.loads(out)
    assert {"environment.HF_TOKEN", "arguments.hub_token"} <= set(rows(found))


def test_quotes_and_wrappers_of_a_command(call: Call) -> None:
    sides = ["CUDA_VISIBLE_DEVICES=0 python train.py --name 'a b'", 'bash -c "torchrun --nproc_per_node 2 train.py"']
    code, answer = made(call, "--gpus", "4", *sides)
    assert code == 0
    assert rows(answer)["plan.nproc_per_node"] == (1, 2)
    assert rows(answer)["arguments.name"] == ("a b", None)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["only.log"], 2, "two sides"),
        (["a", "b", "c"], 2, "two sides"),
        (["no-such-file.log", "python x.py"], 4, "is no file, no folder and no command"),
        (["ls -la", "python x.py"], 2, "no launch that is known here"),
        (["--gpus", "many", "python x.py", "python x.py"], 2, "--gpus takes N"),
    ],
)
def test_refusals(call: Call, arguments: list[str], code: int, said: str) -> None:
    found, out, err = call("compare", *arguments)
    assert (found, out) == (code, "")
    assert said in err


def test_a_binary_file(call: Call, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 8)
    assert call("compare", str(tmp_path / "x.bin"), str(tmp_path / "x.bin"))[0] == 4


def test_plan_diff_shows_only_what_differs(call: Call) -> None:
    code, out, _ = call(
        "plan", "--gpus", "4", "--diff", "python train.py", "--", "torchrun", "--nproc_per_node", "4", "train.py"
    )
    assert code == 1
    assert "processes in all" in out
    assert "machines" not in out
    code, out, _ = call("plan", "--gpus", "4", "--diff", "python train.py", "--", "python", "train.py")
    assert code == 0
    assert "both start the same" in out
