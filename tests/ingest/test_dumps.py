from __future__ import annotations

import textwrap
from typing import Any

import pytest

from firstfault.ingest.dumps import literal, read_dumps
from reader_lines import context, lines


def read(text: str) -> dict[tuple[str, str], tuple[Any, int]]:
    found = read_dumps(lines(textwrap.dedent(text)), context("paste.txt"))
    return {(setting.family, setting.key): (setting.value, setting.span.line) for setting in found}


def test_a_configuration_pasted_into_a_text() -> None:
    found = read(
        """\
        my file:

        compute_environment: LOCAL_MACHINE
        distributed_type: MULTI_GPU
        dynamo_config:
          dynamo_backend: INDUCTOR
        num_processes: 2

        note: this is all
        """
    )
    assert found[("accelerate", "distributed_type")] == ("MULTI_GPU", 4)
    assert found[("accelerate", "dynamo_config.dynamo_backend")] == ("INDUCTOR", 6)
    assert ("accelerate", "note") not in found


def test_the_default_configuration_that_accelerate_env_prints() -> None:
    found = read(
        """\
        - `Accelerate` default config:
        \t- compute_environment: LOCAL_MACHINE
        \t- distributed_type: FSDP
        \t- num_processes: 8
        \t- fsdp_config: {'fsdp_version': 2}
        """
    )
    assert found[("accelerate", "num_processes")] == (8, 4)
    assert found[("accelerate", "fsdp_config.fsdp_version")] == (2, 5)


def test_two_keys_are_no_configuration() -> None:
    assert read("debug: true\nnum_processes: 3\nloss: 4\n") == {}


def test_a_deepspeed_object_inside_a_text() -> None:
    found = read(
        """\
        ds_config =
        json = {
            "train_micro_batch_size_per_gpu": 4,
            "zero_optimization": {"stage": 2}
        }
        {
            "loss": 3
        }
        """
    )
    assert found == {
        ("deepspeed", "train_micro_batch_size_per_gpu"): (4, 3),
        ("deepspeed", "zero_optimization.stage"): (2, 4),
    }


def test_the_print_of_deepspeed() -> None:
    assert read(
        "  zero_allow_untested_optimizer  False\n  gradient_accumulation_steps .. 8\n  world_size ................... 16\n"
    ) == {("deepspeed", "world_size"): (16, 3)}


def test_training_arguments_on_one_line_and_on_many() -> None:
    found = read("TrainingArguments(\n_n_gpu=4,\nbf16=True,\nlogging_dir=runs/a,\n)\nlearning=7\n")
    assert found == {
        ("arguments", "n_gpu"): (4, 2),
        ("arguments", "bf16"): (True, 3),
        ("arguments", "logging_dir"): ("runs/a", 4),
    }
    found = read("parameters Seq2SeqTrainingArguments(per_device_eval_batch_size=12, eval_accumulation_steps=None, fsdp=[])\n")
    assert found[("arguments", "eval_accumulation_steps")] == (None, 1)


def test_source_code_is_no_dump() -> None:
    assert read("args = TrainingArguments(output_dir=path, bf16=True)\n") == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("True", True),
        ("false", False),
        ("None", None),
        ("'a b'", "a b"),
        ("3", 3),
        ("2e-5", 2e-5),
        ("1_0", "1_0"),
        ("x", "x"),
        ("", ""),
    ],
)
def test_literals(text: str, value: object) -> None:
    assert literal(text) == value
