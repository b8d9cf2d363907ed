"""What runs, held against what was asked for: values, devices, modes, nodes, tasks and rank variables."""

from __future__ import annotations

import pytest

from engine.faults import Log
from engine.runs import CALL, MAIN, crash, lib, pack_of
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import derive
from firstfault.ingest.command import read_command
from firstfault.ingest.configs import read_accelerate, read_run_config
from firstfault.ingest.dumps import read_dumps
from firstfault.ingest.environment import read_environment
from firstfault.ingest.printed import read_printed
from firstfault.ingest.script import read_script
from firstfault.model.bundle import Bundle, Source, SourceReport
from firstfault.model.fact import Fact, Setting
from firstfault.model.span import SourceSpan
from reader_lines import context, lines


def command(text):
    return read_command(lines(text), context("job.sh", "command"))


def config(text, name="conf.yaml"):
    return read_accelerate(text, context(name, "accelerate_config"))[0]


def printed(text):
    return read_printed(lines(text), context("run.log"))


def dump(text):
    return read_environment(lines(text), context("env.txt", "environment"))


def script(text):
    found = read_script(text, lines(text), context("train.py", "python"))
    return (*found.settings, *found.facts)


def derived(*parts, logs=()):
    """Facts of a run with these settings (and facts of scripts) and logs."""
    flat = [one for part in parts for one in part]
    settings = tuple(one for one in flat if hasattr(one, "family"))
    facts = tuple(one for one in flat if not hasattr(one, "family"))
    given = SourceReport(source=Source(id="given", path="given", kind="command"), settings=settings, facts=facts)
    found = align(Bundle(reports=(given, *(log.report() for log in logs or (Log("run.log").steps(3),)))))
    pack = pack_of()
    made = derive(found, attribute(found, pack.causal), pack)
    assert all(fact.spans for name, fact in made.items() if name.split(".")[0] in ("launch", "env", "script", "gpu"))
    return made


YAML = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: {kind}\nmixed_precision: {precision}\n"
    "num_machines: 1\nnum_processes: 2\n"
)
BF16 = YAML.format(kind="MULTI_GPU", precision="bf16")
LAUNCH = "accelerate launch --config_file conf.yaml train.py"
NO_PRECISION = "Distributed environment: MULTI_GPU\nNum processes: 2\nMixed precision type: no"


def test_precision_in_force_against_the_one_asked_for():
    name = "launch.value_conflict"
    facts = derived(command(LAUNCH), config(BF16), printed(NO_PRECISION))
    assert facts.value(name) is True and len(facts[name].spans) == 2
    assert facts.value("plan.finding") is True
    assert derived(command(LAUNCH), config(BF16), printed("Mixed precision type: bf16")).value(name) is False
    flag = command("accelerate launch --mixed_precision fp16 --num_processes 2 train.py")
    assert derived(flag, printed(NO_PRECISION)).value(name) is True
    assert derived(command(LAUNCH), config(BF16), script("Accelerator(mixed_precision='no')")).value(name) is True


def test_two_formats_of_16_bits_explain_no_lack_of_memory():
    parts = (command(LAUNCH), config(BF16), printed("Mixed precision type: fp16"))
    assert derived(*parts).value("launch.value_conflict") is True
    assert derived(*parts, logs=[crash(MAIN)]).value("launch.value_conflict") is None
    full = (command(LAUNCH), config(BF16), printed(NO_PRECISION))
    assert derived(*full, logs=[crash(MAIN)]).value("launch.value_conflict") is True


@pytest.mark.parametrize(
    "parts",
    [
        # nobody says what is in force, or two things are
        (command(LAUNCH), config(BF16)),
        (command(LAUNCH), config(BF16), printed(NO_PRECISION + "\nMixed precision type: fp16")),
        # nobody asked: `no` is what accelerate writes then
        (command(LAUNCH), config(BF16.replace("bf16", "'no'")), printed("Mixed precision type: fp16")),
        # the file may not be the one that was read
        (command(LAUNCH), config(BF16, "other.yaml"), printed(NO_PRECISION)),
        (command("torchrun --nproc_per_node 2 train.py"), config(BF16), printed(NO_PRECISION)),
        (config(BF16), printed(NO_PRECISION)),
    ],
)
def test_precision_that_cannot_be_compared(parts):
    assert derived(*parts).value("launch.value_conflict") is None


SETS = "[2025-03-04 10:15:02] [INFO] [launch.py:165:main] Setting CUDA_VISIBLE_DEVICES={ids}"


@pytest.mark.parametrize(
    ("text", "ids", "differs"),
    [
        ("CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 2 train.py", "0,1", True),
        ("CUDA_VISIBLE_DEVICES=2,3 deepspeed train.py", "2,3", False),
        ("deepspeed --include localhost:1,2 train.py", "1,2", False),
        ("deepspeed --include node-1:1,2 train.py", "0,1", None),
        ("deepspeed --num_gpus 2 train.py", "0,1", None),
    ],
)
def test_devices_that_deepspeed_sets(text, ids, differs):
    assert derived(command(text), printed(SETS.format(ids=ids))).value("launch.devices_differ") is differs


def smi(first="NVIDIA A10", pid=77, order="FASTEST_FIRST"):
    given = {"gpu.0.name": first, "gpu.1.name": "NVIDIA A10", f"gpu.0.process.{pid}": None, "CUDA_DEVICE_ORDER": order}
    span = SourceSpan("smi.txt", 1, 0)
    return [Setting(family="environment", key=key, value=value, span=span, text=key) for key, value in given.items()]


def test_devices_that_nvidia_smi_lists():
    chosen = command("CUDA_VISIBLE_DEVICES=1,2 python train.py")
    log = [Log("run.log").steps(2).exit(1, pid=77, reporter="shell")]
    assert derived(chosen, smi(), logs=log).value("launch.devices_differ") is True
    assert derived(command("CUDA_VISIBLE_DEVICES=0 python train.py"), smi(), logs=log).value("launch.devices_differ") is False
    assert derived(chosen, smi(pid=78), logs=log).value("launch.devices_differ") is None, "the process of somebody else"
    assert derived(chosen, smi("NVIDIA L4"), logs=log).value("launch.devices_differ") is None, "CUDA may count differently"
    ordered = smi("NVIDIA L4", order="PCI_BUS_ID")
    assert derived(chosen, ordered, logs=log).value("launch.devices_differ") is True


FSDP_FAILS = crash(MAIN, lib("torch/distributed/fsdp/_flat_param.py", "init"), CALL)
FSDP = YAML.format(kind="FSDP", precision="bf16")
OWN = "base_model: x\nfsdp:\nfsdp_config:\n"


def own(text=OWN):
    return read_run_config(text, context("qlora.yml", "unknown"))


def test_a_mode_that_only_the_default_configuration_asks_for():
    name, default = "launch.feature_not_asked", config(FSDP, "default_config.yaml")
    start = command("accelerate launch tune.py qlora.yml")
    facts = derived(start, default, own(), logs=[FSDP_FAILS])
    assert (facts.value("launch.config_source"), facts.value(name)) == ("default", True)
    assert derived(start, default, logs=[FSDP_FAILS]).value(name) is None, "a default may be written for this very run"
    assert derived(start, default, own("fsdp: full_shard\n"), logs=[FSDP_FAILS]).value(name) is None
    assert derived(command("accelerate launch tune.py"), default, own(), logs=[FSDP_FAILS]).value(name) is None
    assert derived(start, default, own()).value(name) is None, "nothing shows the mode"
    flag = command("accelerate launch --use_fsdp tune.py qlora.yml")
    assert derived(flag, default, own(), logs=[FSDP_FAILS]).value(name) is False
    explicit = derived(command(LAUNCH), config(FSDP), logs=[FSDP_FAILS])
    assert explicit.value(name) is False


def test_the_configuration_that_a_command_printed():
    rows = ("- `Accelerate` default config:", "\t- compute_environment: X", "\t- distributed_type: NO", "\t- num_processes: 1")
    text = "\n".join(rows)
    start = command("accelerate launch train.py")
    shown = read_dumps(lines(text), context("env.txt", "environment"))
    assert derived(start, shown).value("launch.config_source") == "default"
    absent = read_dumps(lines("- `Accelerate` default config:\n\tNot found\n"), context("env.txt", "environment"))
    assert derived(start, absent).value("launch.config_source") == "none"
    assert derived(start).value("launch.config_source") is None


def test_ranks_that_train_and_the_world_that_they_report():
    logs = [Log(f"rank-{rank}.log", rank=rank).steps(3) for rank in range(2)]
    alone = Fact(name="launch.world_size_seen", value=1, origin="signal", spans=(SourceSpan("rank-0.log", 1, 0),))
    facts = derived([alone], logs=logs)
    assert (facts.value("launch.rank_labels_seen"), facts.value("plan.finding")) == (2, True)
    assert derived(logs=logs).value("plan.finding") is None
    assert derived().value("launch.rank_labels_seen") is None, "one log without a label"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("[rank0] INFO world_size=4 seed=0", 4),
        ("| INFO | rank=0 | world_size=3 seed=2", 3),
        ("world size: 8", 8),
        ("18:38:34 INFO common.py:71 world_size=4 seed=1", 4),
        ("world_size=4\nworld_size=2", 4),
        # of which group?
        ("world_size=1\nworld_size=1", None),
        ("DP world size: 4", None),
        # not the world of the run
        ("RANK=1 WORLD_SIZE=2 MASTER_PORT=29500", None),
        ("tensor_model_parallel_world_size=2", None),
        ("The checkpoint being loaded used a DP world size of 32", None),
        ("    store, rank, world_size = next(rendezvous_iterator)", None),
    ],
)
def test_world_size_in_a_log(text, size):
    assert derived(printed(text)).value("launch.world_size_seen") == size


def test_nodes_asked_for():
    name = "launch.nodes_asked"
    assert derived(printed("  min_nodes        : 2\n  max_nodes        : 2")).value(name) == 2
    assert derived(printed("  min_nodes        : 1\n  max_nodes        : 2")).value(name) is None
    assert derived(dump("SLURM_NNODES=4\nPATH=/usr/bin")).value(name) == 4
    assert derived(command("torchrun --nnodes 3 --nproc_per_node 2 train.py"), dump("SLURM_NNODES=4\nA=1")).value(name) == 3


def test_nodes_seen_are_known_once_all_have_spoken():
    start = command("torchrun --nnodes 2 --nproc_per_node 2 train.py")
    spoke = [Log(f"node-{node}.log", host=f"node-{node}").note("x", at=node) for node in (1, 2)]
    assert derived(start, logs=spoke).value("launch.nodes_seen") == 2
    assert derived(start, logs=spoke[:1]).value("launch.nodes_seen") is None
    addresses = [Log(f"{node}.log", host=f"10.0.0.{node}").note("x", at=node) for node in (1, 2)]
    assert derived(start, logs=addresses).value("launch.nodes_seen") is None


def test_a_command_for_each_node():
    each = "torchrun --nnodes 2 --node_rank {rank} --nproc_per_node 4 train.py\n"
    name = "launch.per_node_start"
    both = derived(command(each.format(rank=0) + each.format(rank=1)))
    assert both.value(name) is True and len(both[name].spans) == 2
    assert derived(command(each.format(rank=1))).value(name) is None
    assert derived(command("#SBATCH --nodes=2\nsrun torchrun --nnodes 2 --nproc_per_node 4 train.py")).value(name) is True


def test_slurms_tasks_and_lightnings_devices():
    tasks, devices = "launch.slurm_tasks_per_node", "launch.devices_per_node_asked"
    assert derived(dump("SLURM_TASKS_PER_NODE=4(x2)\nA=1")).value(tasks) == 4
    assert derived(dump("SLURM_TASKS_PER_NODE=4,2\nA=1")).value(tasks) is None
    failing = crash(
        ("fit.py", "<module>", 'trainer = L.Trainer(accelerator="gpu", devices=8, num_nodes=2)'), error="ValueError: x"
    )
    assert derived(logs=[failing]).value(devices) == 8
    assert derived(script("trainer = L.Trainer(devices=4)\n")).value(devices) == 4


FIVE = "RANK=0\nWORLD_SIZE={size}\nLOCAL_RANK=0\nMASTER_ADDR=node-1\nMASTER_PORT=29500\n"
PYTHON = command("python train.py")


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        ((command("torchrun --nproc_per_node 2 train.py"),), "complete"),
        ((PYTHON, dump(FIVE.format(size=4) + "TORCHELASTIC_RUN_ID=none\n")), "stale"),
        ((PYTHON, dump(FIVE.format(size=1) + "TORCHELASTIC_RUN_ID=none\n")), "complete"),
        # an operator may have set them for this very process
        ((PYTHON, dump(FIVE.format(size=4))), "complete"),
        ((PYTHON, dump("PATH=/usr/bin\nHOME=/home/user\nRANK=0\n")), "partial"),
        ((PYTHON, dump("PATH=/usr/bin\nHOME=/home/user\n")), "none"),
        # others may have been set before
        ((command("WORLD_SIZE=4 RANK=0 python train.py"),), None),
        ((PYTHON,), None),
    ],
)
def test_rank_variables(parts, state):
    assert derived(*parts).value("env.rank_variables") == state


def test_a_variable_that_was_asked_for_in_vain():
    log = crash(
        MAIN, error="ValueError: RANK expected, but not set", fault_class="rendezvous_error", name="rendezvous.env_expected"
    )
    assert derived(command("WORLD_SIZE=2 python train.py"), logs=[log]).value("env.rank_variables") == "partial"
    assert derived(PYTHON, logs=[log]).value("env.rank_variables") is None


LATE = script("import os\nfrom own import start\nstart()\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n")


def test_a_selection_without_effect():
    counts = "[dev] torch.cuda.device_count() = {count}, current cuda:0"
    facts = derived(LATE, printed(counts.format(count=2)))
    assert (facts.value("gpu.count_torch"), facts.value("script.visible_devices_line")) == (2, "after_cuda")
    assert derived(LATE, printed(counts.format(count=1))).value("script.visible_devices_line") is None
    assert derived(LATE).value("script.visible_devices_line") is None
    assert derived(printed("device_count: 2\ndevice_count: 4")).value("gpu.count_torch") is None
    assert derived(printed("if torch.cuda.device_count() == 1:")).value("gpu.count_torch") is None


def test_a_save_on_one_rank_matters_for_a_sharded_model():
    save, name = script("if accelerator.is_main_process:\n    accelerator.save_state(path)\n"), "script.rank_guard_collective"
    assert derived(save).value(name) is None
    assert derived(save, printed("INFO:accelerate.accelerator:Saving FSDP model")).value(name) is True
    assert derived(save, command(LAUNCH), config(FSDP)).value(name) is True
    assert derived(save, logs=[FSDP_FAILS]).value(name) is True


def test_where_the_failing_line_loads_to():
    line = 'state = torch.load(path, map_location="cpu")'
    assert derived(logs=[crash(("train.py", "main", line))]).value("script.map_location") == "cpu"
    assert derived(logs=[crash(("train.py", "main", "state = torch.load(path)"))]).value("script.map_location") == "absent"
    assert derived(logs=[crash(lib("x/load.py", "f", "torch.load(path)"))]).value("script.map_location") is None


def test_a_script_that_calls_dataparallel():
    wraps = script("model = nn.DataParallel(model)\n")
    failing = crash(MAIN, CALL, lib("torch/nn/modules/loss.py", "forward"))
    assert derived(wraps, logs=[failing]).value("trainer.uses_dataparallel") is True
    one = derived(wraps, command("CUDA_VISIBLE_DEVICES=0 python train.py"), logs=[failing])
    assert one.value("trainer.uses_dataparallel") is not True, "with one device the wrapper does nothing"


def test_accumulation_of_a_script_comes_last():
    name = "train.accumulation_steps"
    asks = script("accelerator = Accelerator(gradient_accumulation_steps=4)\n")
    assert derived(asks).value(name) == 4
    assert derived(asks, command("accelerate launch train.py --gradient_accumulation_steps 8")).value(name) == 8
