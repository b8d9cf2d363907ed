"""The frame classifier: stage by the outermost frame, phase and consumer by the innermost, unknown where it was cut."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.runs import CALL, MAIN, crash, facts_of, frame, lib, scope_of
from firstfault.engine.derive.frames import _is_like

TRAINER_STEP = lib("transformers/trainer.py", "training_step", "loss = self.compute_loss(model, inputs)")
EVALUATE = lib("transformers/trainer.py", "evaluate", "output = eval_loop(")
FORWARD = frame("model.py", "forward", "return self.up(x)")

CASES = {
    "forward of a module": ((MAIN, TRAINER_STEP, CALL, FORWARD), "train", "forward", "activation"),
    "linear below the head": (
        (
            TRAINER_STEP,
            CALL,
            frame("m.py", "forward", "logits = self.lm_head(hidden)"),
            CALL,
            lib("torch/nn/modules/linear.py", "forward", "return F.linear("),
        ),
        "train",
        "forward",
        "lm_head_or_loss",
    ),
    "loss": (
        (TRAINER_STEP, lib("torch/nn/functional.py", "cross_entropy", "return torch._C._nn.cross_entropy_loss(")),
        "train",
        "loss",
        "lm_head_or_loss",
    ),
    "backward": (
        (TRAINER_STEP, lib("torch/_tensor.py", "backward"), lib("torch/autograd/graph.py", "_engine_run_backward")),
        "train",
        "backward",
        "other",
    ),
    "recomputed forward inside backward": (
        (
            lib("torch/_tensor.py", "backward"),
            lib("torch/autograd/__init__.py", "backward"),
            lib("torch/utils/checkpoint.py", "backward"),
            CALL,
            FORWARD,
        ),
        "train",
        "backward",
        "recompute",
    ),
    "optimizer state": (
        (
            lib("torch/optim/optimizer.py", "wrapper"),
            lib("torch/optim/adamw.py", "step"),
            lib("torch/optim/adamw.py", "_init_group", 'state["exp_avg"] = torch.zeros_like('),
        ),
        "train",
        "optimizer",
        "optimizer_init",
    ),
    "foreach temporaries": (
        (
            lib("torch/optim/adamw.py", "step"),
            lib("torch/optim/adam.py", "_multi_tensor_adam", "exp_avg_sq_sqrt = torch._foreach_sqrt("),
        ),
        "train",
        "optimizer",
        "optimizer_temp",
    ),
    "closure inside the optimizer step": (
        (
            lib("torch/optim/adamw.py", "step", "loss = closure()"),
            lib("lightning/pytorch/loops/optimization/closure.py", "closure"),
            CALL,
            FORWARD,
        ),
        "train",
        "forward",
        "activation",
    ),
    "DataParallel gathers": (
        (
            TRAINER_STEP,
            CALL,
            lib("torch/nn/parallel/data_parallel.py", "forward", "return self.gather(outputs, self.output_device)"),
            lib("torch/nn/parallel/scatter_gather.py", "gather_map", "return Gather.apply(target_device, dim, *outputs)"),
            lib("torch/autograd/function.py", "apply"),
            lib("torch/nn/parallel/_functions.py", "forward", "return comm.gather(inputs, ctx.dim, ctx.target_device)"),
            lib("torch/nn/parallel/comm.py", "gather", "return torch._C._gather(tensors, dim, destination)"),
        ),
        "train",
        "gather",
        "dp_gather",
    ),
    "predictions kept": (
        (
            EVALUATE,
            lib("transformers/trainer.py", "evaluation_loop", "self.all_preds.add(logits)"),
            lib("transformers/trainer_pt_utils.py", "nested_concat", "return torch_pad_and_concatenate(tensors, new_tensors)"),
            lib("transformers/trainer_pt_utils.py", "torch_pad_and_concatenate", "return torch.cat((tensor1, tensor2), dim=0)"),
        ),
        "evaluation",
        "evaluation",
        "eval_concat",
    ),
    "predictions gathered": (
        (
            EVALUATE,
            lib("accelerate/accelerator.py", "gather_for_metrics"),
            lib("accelerate/utils/operations.py", "_gpu_gather_one"),
        ),
        "evaluation",
        "gather",
        "eval_gather",
    ),
    "forward of the evaluation": ((EVALUATE, CALL, FORWARD), "evaluation", "forward", "activation"),
    "moved to the device": (
        (MAIN, lib("torch/nn/modules/module.py", "to"), lib("torch/nn/modules/module.py", "_apply")),
        "load",
        "load",
        "model_move",
    ),
    "unsharded by FSDP": (
        (
            TRAINER_STEP,
            CALL,
            lib("torch/distributed/fsdp/_runtime_utils.py", "_pre_forward_unshard"),
            lib("torch/distributed/fsdp/_flat_param.py", "unshard"),
        ),
        "train",
        "forward",
        "fsdp_unshard",
    ),
    "optimizer state loaded": (
        (lib("transformers/trainer.py", "_load_optimizer_and_scheduler"), lib("torch/serialization.py", "load")),
        "resume",
        "checkpoint",
        "state_load",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_stage_phase_and_consumer(case):
    frames, stage, phase, consumer = CASES[case]
    facts = facts_of(crash(*frames))
    assert [facts.value(name) for name in ("fault.stage", "oom.phase", "oom.consumer")] == [stage, phase, consumer]
    assert all(facts[name].spans for name in ("fault.stage", "oom.phase", "oom.consumer"))


@pytest.mark.parametrize("marker", ["[...]", "... cut ...", "…"])
def test_cut_below_the_last_frame_leaves_the_phase_unknown(marker):
    facts = facts_of(crash(EVALUATE, lib("transformers/trainer.py", "evaluation_loop", marker), whole=False))
    assert facts.value("fault.stage") == "evaluation"
    assert facts.value("oom.phase") is None
    assert facts.value("exc.calls_more") is False


def test_gap_before_the_exception_line_leaves_the_phase_unknown():
    facts = facts_of(crash(TRAINER_STEP, CALL, FORWARD, whole=False, cut_after=True))
    assert facts.value("oom.phase") is None


def test_cut_above_keeps_what_the_inner_frames_say():
    facts = facts_of(crash(lib("torch/optim/adamw.py", "_init_group", "torch.zeros_like("), whole=False))
    assert facts.value("oom.phase") == "optimizer"


def test_no_traceback_gives_no_phase():
    from engine.faults import Log

    facts = facts_of(Log("run.log").steps(3).fault("device_oom"))
    assert facts.value("oom.phase") is None and facts.value("exc.calls_more") is None


@pytest.mark.parametrize(
    ("frames", "error", "site"),
    [
        ((MAIN, frame("train.py", "main", "raise")), "ValueError: bad", "user"),
        (
            (MAIN, lib("torch/utils/data/_utils/fetch.py", "fetch"), frame("data.py", "__getitem__"), frame("data.py", "read")),
            "OSError: x",
            "dataset",
        ),
        ((MAIN, lib("torch/utils/data/_utils/collate.py", "default_collate")), "RuntimeError: stack expects", "collate"),
        ((MAIN, CALL, FORWARD), "RuntimeError: mat1", "forward"),
        ((MAIN, lib("torch/autograd/graph.py", "_engine_run_backward")), "RuntimeError: one of the variables", "backward"),
        (
            (MAIN, CALL, lib("torch/nn/parallel/distributed.py", "_pre_forward", "if self.reducer._rebuild_buckets():")),
            "RuntimeError: the module changed",
            "reducer",
        ),
        ((MAIN, lib("torch/serialization.py", "load")), "RuntimeError: PytorchStreamReader failed", "ckpt_load"),
        ((MAIN, frame("train.py", "build")), "ModuleNotFoundError: No module named 'x'", "import"),
        ((MAIN, lib("wandb/sdk/wandb_init.py", "init")), "wandb.errors.CommError: x", "tracker"),
    ],
)
def test_site_of_the_exception(frames, error, site):
    facts = facts_of(crash(*frames, error=error, fault_class="python_exception", name="python.exception"))
    assert facts.value("exc.site") == site
    assert facts.value("oom.phase") is None


@pytest.mark.parametrize(("key", "is_field"), [("'labels'", True), ("17", False)])
def test_key_error_of_a_sample(key, is_field):
    log = crash(
        frame("data.py", "__getitem__"), error=f"KeyError: {key}", fault_class="python_exception", name="python.exception"
    )
    assert facts_of(log).value("exc.key_is_field") is is_field


def test_user_site_needs_a_whole_traceback():
    log = crash(MAIN, error="ValueError: x", fault_class="python_exception", name="python.exception", whole=False)
    assert facts_of(log).value("exc.site") is None
    assert scope_of(log).frames


@given(st.text("ab_", max_size=8), st.text("ab*", max_size=6))
def test_a_star_stands_for_any_characters(text, pattern):
    assert _is_like(text, f"{pattern}*a") is fnmatchcase(text, f"{pattern}*a")
