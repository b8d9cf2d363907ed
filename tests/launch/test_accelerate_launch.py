from __future__ import annotations

from typing import Any

import pytest

from firstfault.launch.plan import plan
from firstfault.model.plan import Plan
from launch_requests import plan_of, request

NO = 'distributed_type: "NO"\nnum_processes: 1\n'
SEVERAL = "distributed_type: MULTI_GPU\nnum_processes: 2\n"


def launched(config: str | None, options: str = "", *, version: str = "1.15.0", before: str = "", **known: Any) -> Plan:
    file = "--config_file c.yaml" if config is not None else ""
    known.setdefault("versions", {"accelerate": version})
    return plan_of(f"{before} accelerate launch {file} {options} train.py", files={"c.yaml": config or ""}, **known)


@pytest.mark.parametrize(
    ("config", "options", "gpus", "launcher", "processes"),
    [
        (NO, "", 4, "simple_launcher", 1),
        (NO, "--num_processes 4", 4, "simple_launcher", 1),
        (NO, "--multi_gpu --num_processes 2", 4, "multi_gpu_launcher", 2),
        (SEVERAL, "", 4, "multi_gpu_launcher", 2),
        (SEVERAL, "--cpu", 4, "simple_launcher", 1),
        ("distributed_type: DEEPSPEED\nnum_processes: 2\n", "--use_fsdp", 4, "multi_gpu_launcher", 2),
        ("distributed_type: MULTI_CPU\nnum_processes: 4\n", "", 4, "simple_launcher", 1),
        (None, "", 4, "multi_gpu_launcher", 4),
        (None, "", 1, "simple_launcher", 1),
        (None, "--gpu_ids 0", 4, "multi_gpu_launcher", 4),
        (None, "--num_processes 1", 4, "simple_launcher", 1),
        (None, "--use_fsdp", 0, "multi_gpu_launcher", 0),
    ],
)
def test_the_path_and_the_number_of_processes(
    config: str | None, options: str, gpus: int, launcher: str, processes: int
) -> None:
    found = launched(config, options, gpus=gpus)
    assert (found.error, found.launcher, found.nproc_per_node) == (None, launcher, processes)


def test_a_single_process_with_several_gpus_is_wrapped_in_data_parallel() -> None:
    first = launched(NO).rank0
    assert first is not None
    assert (first.n_gpu, first.wraps_in_DataParallel, first.train_batch_size_of_this_process) == (4, True, 16)
    one = launched(NO + 'gpu_ids: "0"\n').rank0
    assert one is not None
    assert (one.n_gpu, one.wraps_in_DataParallel) == (1, False)


@pytest.mark.parametrize(
    ("config", "options", "kind", "message"),
    [
        ("", "", "AttributeError", "'NoneType' object has no attribute 'get'"),
        ("num_processes: 1\n", "", "ValueError", "A `distributed_type` must be specified in the config file."),
        ("distributed_type: MULTI_GPU\n", "", "ValueError", "You need to manually pass in `--num_processes`"),
        (NO + "gpu_ids: 0\n", "", "AttributeError", "'int' object has no attribute 'split'"),
        (NO + "mixed_precision: no\n", "", "AttributeError", "'bool' object has no attribute 'lower'"),
        ("distributed_type: DDP\nnum_processes: 2\n", "", "ValueError", "'DDP' is not a valid DistributedType"),
        (SEVERAL + 'gpu_ids: "0"\n', "", "ValueError", "Less than two GPU ids were configured"),
        (SEVERAL + "\tx: 1\n", "", "ScannerError", 'in "c.yaml", line 3, column 1'),
        (None, "--multi_gpu --num_processes 1", "ValueError", "You need to use at least 2 processes to use `--multi_gpu`."),
        (None, "--config_file missing.yaml", "FileNotFoundError", "`missing.yaml` does not exist"),
        (None, "--num_machines 2 --num_processes 4", "TypeError", "int() argument must be a string"),
        (None, "--num_processes x", "SystemExit", "argument --num_processes/--num-processes: invalid int value: 'x'"),
        (None, "--nproc_per_node 2", "SystemExit", "Accelerate CLI tool: error: unrecognized arguments: --nproc_per_node"),
    ],
)  # fmt: skip
def test_the_launcher_stops_with_its_own_words(config: str | None, options: str, kind: str, message: str) -> None:
    error = launched(config, options).error
    assert error is not None
    assert error.type == kind
    assert message in error.message


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.4.0", ("c10d", "no")), ("1.6.0", ("c10d", "fp16")), ("1.15.0", ("static", "fp16"))],
)
def test_versions_differ_in_rendezvous_and_in_who_wins(version: str, expected: tuple[str, str]) -> None:
    config = SEVERAL + "megatron_lm_config:\n  mixed_precision: 'no'\n"
    found = launched(config, "--mixed_precision fp16", version=version)
    assert (found.rdzv_backend, found.env_set["ACCELERATE_MIXED_PRECISION"]) == expected


def test_keys_that_a_version_does_not_know_stop_it() -> None:
    old = launched(NO + "ipex_config: {}\n", version="1.12.0")
    new = launched(NO + "ipex_config: {}\n", version="1.15.0")
    assert old.error is None
    assert new.error is not None
    assert "unknown keys (['ipex_config'])" in new.error.message


def test_a_busy_port_moves_the_meeting_or_stops_the_launch() -> None:
    busy: dict[str, Any] = {"ports_in_use": frozenset({29500})}
    new, old = launched(SEVERAL, **busy), launched(SEVERAL, version="1.7.0", **busy)
    assert (new.rdzv_backend, new.rdzv_endpoint) == ("c10d", "localhost:0")
    assert new.warnings[0].startswith("UserWarning: Port `29500` is already in use.")
    assert old.error is not None
    assert old.error.type == "ConnectionError"


def test_a_value_names_its_place_and_what_it_overrode() -> None:
    found = {one.name: one for one in launched(SEVERAL, "--num_processes 4").origins}
    assert (found["num_processes"].value, found["num_processes"].where) == (4, "--num_processes")
    assert [(lost.value, lost.where) for lost in found["num_processes"].overrode] == [(2, "c.yaml:2")]
    assert found["distributed_type"].where == "c.yaml:1"


def test_gpu_ids_replace_the_callers_devices() -> None:
    found = launched(SEVERAL + 'gpu_ids: "1,0"\n', before="CUDA_VISIBLE_DEVICES=2,3")
    assert found.env_set["CUDA_VISIBLE_DEVICES"] == "1,0"
    origin = next(one for one in found.origins if one.name == "CUDA_VISIBLE_DEVICES")
    assert [lost.value for lost in origin.overrode] == ["2,3"]


@pytest.mark.parametrize(
    ("config", "options", "keys"),
    [
        (SEVERAL + "fsdp_config:\n  fsdp_version: 2\n", "", ["fsdp_config.fsdp_version"]),
        ("distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 2\n", "", []),
        ("distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_magic: 2\n", "", ["fsdp_config.fsdp_magic"]),
        (SEVERAL + "rdzv_backend: c10d\nsame_network: true\n", "", ["rdzv_backend", "same_network"]),
        (SEVERAL + "rdzv_backend: static\n", "", []),
        ('distributed_type: "NO"\nnum_processes: 4\n', "", ["num_processes"]),
        (SEVERAL + "use_cpu: true\nmachine_rank: 1\n", "", ["use_cpu", "machine_rank"]),
        (SEVERAL, "--zero_stage 3", ["--zero_stage"]),
        (NO, "--multi_gpu --num_processes 2", ["distributed_type", "num_processes"]),
    ],
)
def test_what_has_no_effect_is_named(config: str, options: str, keys: list[str]) -> None:
    assert [one.key for one in launched(config, options).no_effect] == keys


def test_the_default_configuration_is_found_as_accelerate_finds_it() -> None:
    files = {"/h/accelerate/default_config.yaml": NO}
    known: dict[str, Any] = {"files": files, "versions": {"accelerate": "1.15.0"}}
    assert plan_of("HF_HOME=/h accelerate launch train.py", **known).launcher == "simple_launcher"
    assert plan_of("accelerate launch train.py", **known).launcher == "multi_gpu_launcher"
    skipped = plan_of("HF_HOME=/h accelerate launch --cpu train.py", **known)
    assert next(one.where for one in skipped.origins if one.name == "config_file") == "--cpu skips the default one"


def test_deepspeed_on_several_machines_is_another_command() -> None:
    config = "distributed_type: DEEPSPEED\nnum_processes: 16\nnum_machines: 2\nmain_process_ip: 10.0.0.1\n"
    found = launched(config)
    assert found.starter == "deepspeed"
    assert found.spawn is not None
    assert found.spawn.argv[:3] == ("deepspeed", "--hostfile", "None")
    assert found.nproc_per_node == 8


def test_an_unknown_gpu_count_gives_a_plan_for_each() -> None:
    made = plan(request("accelerate launch train.py", gpus=None))
    assert [fact.fact for fact in made.unknown] == ["gpus"]
    assert {count: variant.nproc_per_node for count, variant in made.variants.items()} == {0: 1, 1: 1, 2: 2, 4: 4, 8: 8}


def test_an_unknown_version_says_where_versions_differ() -> None:
    made = plan(request("accelerate launch --multi_gpu --num_processes 2 train.py", versions={}))
    assert [fact.fact for fact in made.unknown] == ["accelerate"]
    assert made.notes[0] == "accelerate 0.34.2: rendezvous c10d, not static"


def test_a_configuration_that_holds_itself_is_not_read() -> None:
    assert "is not read" in launched("&a [*a]\n").notes[0]


def test_a_configuration_that_would_fill_the_memory_is_not_read() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9))
    found = launched("distributed_type: FSDP\nnum_processes: 2\nl0: &l0 [x]\n" + levels)
    assert found.starter is None
    assert "is not read" in found.notes[0]
