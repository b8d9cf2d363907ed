from __future__ import annotations

import pytest

from firstfault.engine.check_files import check_files
from firstfault.errors import UnreadableInputError
from firstfault.knowledge.pack import load_pack
from firstfault.launch.request import Machine, Request

PACK = load_pack()
GOOD = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 4\n"


def check(**files: str) -> list[tuple[str, str]]:
    by_name = {name.replace("_DOT_", "."): text for name, text in files.items()}
    request = Request(words=(), machine=Machine(gpus=4), versions={"accelerate": "1.15.0"}, read=by_name.get)
    return [(one.entry, one.where) for one in check_files(tuple(by_name), request, PACK)]


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("mixed_precision: no", "launcher-config-value-type"),
        ("gpu_ids: [0, 1]", "launcher-config-value-type"),
        ("num_gpus: 4", "launcher-config-unknown-keys"),
        ("\tdebug: true", "launcher-config-syntax"),
    ],
)
def test_what_is_wrong_in_an_accelerate_file_has_its_line(line: str, entry: str) -> None:
    config = f"compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 4\n{line}\n"
    assert check(a_DOT_yaml=config) == [(entry, "a.yaml:5")]


def test_a_table_of_another_mode_is_found_and_an_empty_one_is_not() -> None:
    config = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 4\nfsdp_config:"
    assert check(a_DOT_yaml=f"{config}\n  fsdp_version: 2\n") == [("launcher-mode-not-on", "a.yaml:6")]
    assert check(a_DOT_yaml=f"{config} {{}}\n") == []


def test_batch_numbers_are_held_against_the_processes_of_the_other_file() -> None:
    json = '{\n  "train_batch_size": 64,\n  "train_micro_batch_size_per_gpu": 4,\n  "gradient_accumulation_steps": 2\n}\n'
    assert check(a_DOT_yaml=GOOD, ds_DOT_json=json) == [("deepspeed-batch-size-mismatch", "ds.json:2")]
    assert check(a_DOT_yaml=GOOD, ds_DOT_json=json.replace("64", "32")) == []
    assert check(ds_DOT_json=json) == []
    assert check(ds_DOT_json=json.replace("64", "60")) == [("deepspeed-batch-size-mismatch", "ds.json:2")]


def test_a_misspelt_key_and_broken_json_have_their_line() -> None:
    assert check(ds_DOT_json='{\n  "gradient_cliping": 1.0\n}\n') == [("deepspeed-key-misspelt", "ds.json:2")]
    assert check(ds_DOT_json='{\n  "gradient_clipping": 1.0,\n}\n')[0][0] == "launcher-config-syntax"


def test_auto_is_wrong_where_the_script_has_no_trainer() -> None:
    json = '{\n  "train_micro_batch_size_per_gpu": "auto"\n}\n'
    torch = "import torch.distributed as dist\ndist.init_process_group('nccl')\n"
    trainer = "from transformers import Trainer\nTrainer(model).train()\n"
    assert check(ds_DOT_json=json, t_DOT_py=torch) == [("deepspeed-config-error", "ds.json:2")]
    assert check(ds_DOT_json=json, t_DOT_py=trainer) == check(ds_DOT_json=json) == []


def test_a_file_that_is_not_there_is_unreadable() -> None:
    with pytest.raises(UnreadableInputError):
        check_files(("absent.yaml",), Request(words=()), PACK)
