"""From text to the answer: what it says, what it stands on, and how an answered fact changes it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from evidence_walker import claims_without_evidence
from firstfault.engine.investigate import investigate
from firstfault.errors import UsageError
from firstfault.ingest.bundle import gather, gather_text
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import MAX_EVIDENCE

PACK = load_pack()
EXAMPLES = Path(__file__).parents[2] / "examples"
SITE = "/opt/venv/lib/python3.11/site-packages"
HEAD = "***** Running training *****\n  Gradient Accumulation steps = 1\n  0%|          | 0/100 [00:00<?, ?it/s]\n"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which "
    "1.10 GiB is free. Including non-PyTorch memory, this process has 22.50 GiB memory in use. Of the allocated memory 21.00 "
    "GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated.\n"
)
OPTIMIZER = (
    HEAD + "Traceback (most recent call last):\n"
    '  File "/home/user/train.py", line 88, in main\n    optimizer.step()\n'
    f'  File "{SITE}/torch/optim/adamw.py", line 243, in step\n    self._init_group(group)\n'
    f'  File "{SITE}/torch/optim/adamw.py", line 178, in _init_group\n    state["exp_avg"] = torch.zeros_like(\n' + OOM
)


def ranks(*bodies):
    lines = []
    for rank, body in enumerate(bodies):
        lines += [f"[rank{rank}]: {line}" for line in body.splitlines()]
    return "\n".join(lines) + "\n"


RAISED = (
    'Traceback (most recent call last):\n  File "/home/user/train.py", line 9, in main\n    x = 1 / 0\n'
    "ZeroDivisionError: division by zero"
)
LOST = (
    'Traceback (most recent call last):\n  File "/home/user/train.py", line 34, in main\n    loss.backward()\n'
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:16293."
)


def ask(text, **facts):
    return investigate(
        gather_text(text, name="run.log", pack=PACK), PACK, {name.replace("__", "."): v for name, v in facts.items()}
    )


def as_json(diagnosis):
    return json.loads(msgspec.json.encode(diagnosis))


def test_established_answer_is_complete():
    found = ask(OPTIMIZER)
    assert (found.verdict, found.entry) == ("established", "cuda-oom-optimizer-state")
    assert found.path == ("cuda-oom", "cuda-oom-optimizer-state")
    assert found.title and found.category == "memory" and found.mechanism
    assert "2 GiB" in found.cause and "21 GiB" in found.cause
    assert found.fix and found.verify and not found.missing
    assert found.reasons[0].weight == 5


@pytest.mark.parametrize("text", [OPTIMIZER, ranks(LOST, RAISED, LOST), HEAD + OOM, "step 1\nKilled\n"])
def test_no_claim_without_evidence(text):
    found = as_json(ask(text))
    assert claims_without_evidence(found) == []
    assert len(found["evidence"]) <= MAX_EVIDENCE


def test_deciding_lines_come_first_and_point_at_their_place():
    found = ask(OPTIMIZER)
    lines = OPTIMIZER.split("\n")
    assert found.evidence[0].text.startswith("torch.OutOfMemoryError")
    for item in found.evidence:
        assert item.text.split("\n")[0].strip() in lines[item.line - 1]
        assert OPTIMIZER.encode()[item.offset :].startswith(lines[item.line - 1].encode()[:20].lstrip()) or item.offset >= 0
    assert set(found.initiating.evidence) <= {item.id for item in found.evidence}


def test_one_rank_raised_and_the_others_follow():
    found = ask(ranks(LOST, RAISED, LOST))
    assert found.entry == "rank-exception"
    assert (found.initiating.rank, found.initiating.ranks, found.initiating.relation) == (1, (1,), "one")
    assert {item.rank for item in found.collateral} == {0, 2}
    assert all(item.explained_by for item in found.collateral)
    assert [mark.rank for mark in found.timeline if mark.kind == "initiating"] == [1]


def test_undetermined_asks_for_the_frames():
    found = ask(HEAD + OOM)
    assert (found.verdict, found.entry) == ("undetermined", "cuda-oom")
    first = found.missing[0]
    assert first.fact in {"oom.phase", "oom.consumer"} and first.command and "cuda-oom-optimizer-state" in first.separates
    assert {item.verdict for item in found.alternatives} <= {"possible", "ruled_out"}


def test_answered_fact_goes_on_from_there():
    found = ask(HEAD + OOM, oom__phase="optimizer", oom__consumer="optimizer_init")
    assert (found.verdict, found.entry) == ("established", "cuda-oom-optimizer-state")
    assert found.facts["oom.phase"]["basis"] == "answered"
    assert claims_without_evidence(as_json(found)) == [] or all("reasons" in c for c in claims_without_evidence(as_json(found)))


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [("oom.phas", "forward", "oom.phase"), ("oom.phase", "forwards", "forward"), ("run.world_size", "many", "whole number")],
)
def test_wrong_answer_is_refused_with_a_hint(name, value, hint):
    with pytest.raises(UsageError) as caught:
        investigate(gather_text(OPTIMIZER, name="run.log", pack=PACK), PACK, {name: value})
    assert hint in caught.value.hint


def test_sizes_may_be_answered_with_their_unit():
    found = ask(HEAD + OOM, memory__micro_step_slope_bytes="594MiB")
    assert found.facts["memory.micro_step_slope_bytes"]["value"] == 594 << 20


def test_healthy_log_is_no_failure():
    found = ask(HEAD + "100%|##########| 100/100 [01:00<00:00]\n{'train_runtime': 60.1, 'train_loss': 0.5}\n")
    assert found.verdict == "no_failure"
    assert found.entry is None and found.initiating is None and not found.evidence and not found.missing


def test_fix_is_a_diff_of_the_users_own_file(tmp_path):
    (tmp_path / "acc.yaml").write_text('compute_environment: LOCAL_MACHINE\ndistributed_type: "NO"  # mine\nnum_processes: 1\n')
    (tmp_path / "cmd.sh").write_text("accelerate launch --config_file acc.yaml train.py\n")
    log = HEAD.replace("  Gradient", "  Training with DataParallel so batch size has been adjusted to: 8\n  Gradient")
    frames = "".join(
        f'  File "{SITE}/{path}", line 9, in {function}\n    {code}\n'
        for path, function, code in (
            ("transformers/trainer.py", "training_step", "loss = self.compute_loss(model, inputs)"),
            ("torch/nn/modules/module.py", "_call_impl", "return forward_call(*args, **kwargs)"),
            ("torch/nn/parallel/data_parallel.py", "forward", "return self.gather(outputs, self.output_device)"),
            ("torch/nn/parallel/scatter_gather.py", "gather", "res = gather_map(outputs)"),
        )
    )
    (tmp_path / "train.log").write_text(log + "Traceback (most recent call last):\n" + frames + OOM)
    found = investigate(gather([str(tmp_path)], PACK), PACK)
    assert (found.verdict, found.entry) == ("established", "trainer-implicit-dataparallel")
    edit = found.fix[0]
    assert edit.applies and edit.file.endswith("acc.yaml")
    assert "+distributed_type: MULTI_GPU  # mine" in edit.text
    assert any(fix.text.startswith("CUDA_VISIBLE_DEVICES=0 accelerate launch") for fix in found.fix)


def test_answer_is_the_same_every_time():
    assert as_json(ask(OPTIMIZER)) | {"elapsed_s": 0} == as_json(ask(OPTIMIZER)) | {"elapsed_s": 0}


def test_a_requirement_that_is_not_met_is_not_told_as_if_it_were():
    found = investigate(gather([EXAMPLES / "killed-worker"], PACK), PACK)
    told = [text for item in found.alternatives if item.verdict == "ruled_out" for text in item.against]
    assert any(text.startswith('this does not hold: "') for text in told), told
