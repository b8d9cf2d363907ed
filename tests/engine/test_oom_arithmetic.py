"""What an out-of-memory message adds up to, in all its formats, and the tensor that the bundle's sizes name."""

from __future__ import annotations

import json

import pytest

from engine.runs import MAIN, crash, scope_of, told
from firstfault import diagnose
from firstfault.engine.derive.oom_arithmetic import derive
from firstfault.model.fact import FactSet

SITE = "/opt/venv/lib/python3.11/site-packages/"
LOSS = f"""  File "{SITE}transformers/loss/loss_utils.py", line 61, in ForCausalLMLoss
    logits = logits.float()
"""
ATTENTION = f"""  File "{SITE}torch/nn/functional.py", line 6104, in scaled_dot_product_attention
    return torch._C._nn.scaled_dot_product_attention(query, key, value)
"""
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 1 has a total capacity of 24.00 GiB of which "
    "{free} is free. {clauses}Of the allocated memory {tensors} is allocated by PyTorch, and {unused} is reserved by PyTorch "
    "but unallocated."
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate {asked} (GPU 1; 24.00 GiB total capacity; {tensors} already "
    "allocated; {free} free; {reserved} reserved in total by PyTorch)"
)
OWN = "Including non-PyTorch memory, this process has {} memory in use. "
OWN_22 = OWN.format("22.50 GiB")
MODEL = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "head_dim": 128,
    "num_key_value_heads": 8,
    "num_hidden_layers": 28,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


def log(error, frames=LOSS, above="step 1/90 loss 2.1\nstep 2/90 loss 2.0\n"):
    start = 'Traceback (most recent call last):\n  File "/home/user/sft.py", line 58, in <module>\n    trainer.train()\n'
    return f"{above}{start}{frames}{error}\n"


def new(asked="2.00 GiB", free="1.00 GiB", tensors="21.00 GiB", unused="0.50 GiB", clauses=OWN_22):
    return NEW.format(asked=asked, free=free, tensors=tensors, unused=unused, clauses=clauses)


def values(text):
    found = diagnose(text)
    return {name: one["value"] for name, one in found.facts.items()} | {"cause": found.cause}


@pytest.mark.parametrize(
    ("error", "filled"),
    [
        (new(), "tensors"),
        (
            new(tensors="12.00 GiB", clauses="Process 77 has 9.50 GiB memory in use. " + OWN.format("13.50 GiB")),
            "other_processes",
        ),
        (new(tensors="15.00 GiB", unused="6.50 GiB"), "fragmentation"),
        (new(tensors="15.00 GiB", unused="0.50 GiB"), "outside_pytorch"),
        (new(free="14.00 GiB", tensors="9.00 GiB", clauses=OWN.format("10.00 GiB") + "10.00 GiB allowed; "), "limit"),
        # The rest of the device is more than the request, but no more than a context and NCCL take.
        (new(asked="1.10 GiB", tensors="21.00 GiB", unused="0.50 GiB", clauses=OWN.format("22.90 GiB")), "tensors"),
        # Unused cache that is smaller than the request would not have helped.
        (new(asked="4.00 GiB", tensors="19.00 GiB", unused="3.00 GiB"), "tensors"),
        (OLD.format(asked="2.00 GiB", tensors="21.00 GiB", free="1.00 GiB", reserved="22.00 GiB"), "tensors"),
        (OLD.format(asked="2.00 GiB", tensors="15.00 GiB", free="1.00 GiB", reserved="22.00 GiB"), "fragmentation"),
        (OLD.format(asked="2.00 GiB", tensors="11.00 GiB", free="1.00 GiB", reserved="12.00 GiB"), "outside_pytorch"),
        (new().replace("CUDA", "HIP"), "tensors"),
        (new(clauses="").replace("CUDA", "XPU").replace(" of which 1.00 GiB is free", ""), "tensors"),
    ],
)
def test_what_filled_the_device(error, filled):
    assert values(log(error))["oom.filled_by"] == filled


def test_the_parts_add_up_to_the_device():
    found = values(log(new()))
    assert found["oom.outside_bytes"] == 1 << 30
    assert "Of GPU 1's 24 GiB: 21 GiB tensors of this process, 512 MiB unused cache of PyTorch, 1 GiB context" in found["cause"]
    assert found["cause"].endswith("Only the run's own tensors are in the way.")


def test_a_message_without_the_total_of_the_process_tells_no_parts_outside_of_pytorch_apart():
    cause = values(log(OLD.format(asked="2.00 GiB", tensors="11.00 GiB", free="1.00 GiB", reserved="12.00 GiB")))["cause"]
    assert "11 GiB outside PyTorch (contexts, NCCL, any other process)" in cause
    assert "other processes or libraries hold the rest" in cause


def test_pools_of_graphs_are_no_fragmentation():
    pools = " allocated by PyTorch, with 9.00 GiB allocated in private pools (e.g., CUDA Graphs),"
    error = new(tensors="15.00 GiB", unused="6.50 GiB").replace(" allocated by PyTorch,", pools)
    found = values(log(error))
    assert found["oom.filled_by"] == "tensors" and "(9 GiB of it in pools of CUDA graphs)" in found["cause"]


def test_a_message_without_numbers_has_no_account():
    found = values(log("RuntimeError: CUDA error: out of memory"))
    assert not [name for name in found if name in ("oom.account", "oom.filled_by", "oom.tensor")]


def bundle(tmp_path, error, frames=LOSS, above="", config=None, **arguments):
    (tmp_path / "run.log").write_text(log(error, frames, above))
    if config:
        (tmp_path / "config.json").write_text(json.dumps(config, indent=1))
    if arguments:
        (tmp_path / "args.json").write_text(json.dumps({"output_dir": "out", "learning_rate": 1, **arguments}, indent=1))
    return values([str(tmp_path)])


def test_logits_are_named_with_their_arithmetic(tmp_path):
    found = bundle(tmp_path, new(asked="2.32 GiB"), config=MODEL, above="input_ids.shape = (4, 1024)\n")
    assert found["oom.tensor"] == "logits"
    assert "2.32 GiB have the size of the logits: 4 x 1,024 x 151,936 x 4 bytes = 2.32 GiB." in found["cause"]


def test_a_frame_of_another_tensor_contradicts(tmp_path):
    found = bundle(tmp_path, new(asked="2.32 GiB"), ATTENTION, config=MODEL, above="input_ids.shape = (4, 1024)\n")
    assert "oom.tensor" not in found and "oom.tensor_arithmetic" not in found


def test_a_near_miss_names_nothing(tmp_path):
    found = bundle(tmp_path, new(asked="2.40 GiB"), config=MODEL, above="input_ids.shape = (4, 1024)\n")
    assert "oom.tensor" not in found and "oom.tensor_arithmetic" not in found


def test_scores_of_attention(tmp_path):
    found = bundle(tmp_path, new(asked="4.00 GiB"), ATTENTION, config=MODEL, above="input_ids.shape = (4, 4096)\n")
    assert found["oom.tensor"] == "attention_scores"
    assert "4 x 16 x 4,096 x 4,096 x 4 bytes = 4 GiB" in found["cause"]


def test_only_the_vocabulary_gives_tokens_and_no_tensor(tmp_path):
    found = bundle(tmp_path, new(asked="4.64 GiB"), config=MODEL, above="  Instantaneous batch size per device = 8\n")
    assert "oom.tensor" not in found
    assert found["oom.tensor_arithmetic"].startswith("As logits, 4.64 GiB are about 8,200 tokens (8 samples of about 1,025)")


def test_a_bundled_model_is_known_by_its_exact_name_only(tmp_path):
    named = {"max_seq_length": 1024, "per_device_train_batch_size": 4}
    found = bundle(tmp_path, new(asked="2.32 GiB"), model_name_or_path="Qwen/Qwen3-0.6B", **named)
    assert found["oom.tensor"] == "logits"
    found = bundle(tmp_path, new(asked="2.32 GiB"), model_name_or_path="someone/qwen3-tuned", **named)
    assert "oom.tensor" not in found


GATHER = f"""  File "{SITE}torch/nn/parallel/data_parallel.py", line 194, in forward
    return self.gather(outputs, self.output_device)
  File "{SITE}torch/nn/parallel/scatter_gather.py", line 108, in gather
    res = gather_map(outputs)
  File "{SITE}torch/nn/parallel/_functions.py", line 76, in forward
    return comm.gather(inputs, ctx.dim, ctx.target_device)
"""


def test_logits_of_all_gpus_of_dataparallel(tmp_path):
    above = "input_ids.shape = (8, 300)\n"
    found = bundle(tmp_path, new(asked="5.43 GiB"), GATHER, config=MODEL, above=above)
    assert found["oom.tensor"] == "gathered_logits"
    assert "4 x 8 x 300 x 151,936 x 4 bytes = 5.43 GiB or 8 x 8 x 300 x 151,936 x 2 bytes" in found["cause"]


def test_a_request_without_a_device_total_still_names_its_tensor(tmp_path):
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. "
    found = bundle(tmp_path, error, config=MODEL, above="input_ids.shape = (4, 1024)\n")
    assert found["oom.tensor"] == "logits" and "oom.account" not in found


def test_several_tensors_of_one_size_are_all_named(tmp_path):
    backward = f"""  File "{SITE}torch/autograd/graph.py", line 865, in _engine_run_backward
    return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass
"""
    found = bundle(tmp_path, new(asked="594.00 MiB"), backward, config=MODEL, above="input_ids.shape = (1, 1024)\n")
    assert "oom.tensor" not in found
    assert "More than one tensor has the size of the 594 MiB: the logits, 1 x 1,024 x 151,936 x 4" in found["cause"]
    assert "the embedding" in found["cause"]


def test_processes_of_the_job_on_the_same_device_are_no_strangers():
    figures = {"requested": 2, "total": 24, "free": 1, "allocated": 10, "unallocated": 1, "process": 12, "other_process": 0}
    facts = FactSet()
    for name, size in figures.items():
        facts.add(told(f"oom.{name}_bytes", size << 30))
    facts.add(told("oom.job_processes_on_device", 2))
    found = {fact.name: fact.value for fact in derive(scope_of(crash(MAIN)), facts)}
    assert found["oom.filled_by"] == "job_processes"
    assert "11 GiB other processes of this job" in found["oom.account"]


def test_a_process_that_a_container_cannot_name_may_be_this_one():
    # Inside a container the message lists the process by its number on the host, and has no clause of its own for it.
    found = values(log(new(clauses="Process 4122 has 22.50 GiB memory in use. ")))
    assert found["oom.filled_by"] == "tensors" and "other processes" not in found["cause"].replace("any other process", "")
