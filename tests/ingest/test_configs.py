from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from firstfault.ingest.configs import MAX_CONFIG_CHARS, read_accelerate, read_arguments, read_deepspeed
from firstfault.ingest.context import Context
from reader_lines import context

YAML = """\
# ours
compute_environment: LOCAL_MACHINE
distributed_type: NO
mixed_precision: 'no'
fsdp_config:
  fsdp_offload_params: true
  layers: [A, B]
gpu_ids: "0,1"
main_process_ip:
num_processes: 4
big: 123456789012345678901234567890
"""


def values(text: str) -> dict[str, Any]:
    settings, _ = read_accelerate(text, context("conf.yaml", "accelerate_config"))
    return {setting.key: setting.value for setting in settings}


def test_keys_are_dotted_and_values_those_of_yaml_1_1() -> None:
    found = values(YAML)
    assert found["distributed_type"] is False
    assert found["mixed_precision"] == "no"
    assert found["fsdp_config.fsdp_offload_params"] is True
    assert found["fsdp_config.layers"] == "A,B"
    assert (found["gpu_ids"], found["main_process_ip"], found["num_processes"]) == ("0,1", None, 4)


def test_every_setting_points_at_its_line() -> None:
    settings, notes = read_accelerate(YAML, context("conf.yaml", "accelerate_config"))
    assert notes == ()
    by_key = {setting.key: setting for setting in settings}
    setting = by_key["fsdp_config.fsdp_offload_params"]
    assert (setting.family, setting.span.line, setting.text) == ("accelerate", 6, "  fsdp_offload_params: true")
    assert YAML.encode()[setting.span.offset :].startswith(b"  fsdp_offload")


def test_a_part_of_a_paste_counts_from_where_it_stands() -> None:
    source = replace(context("paste.txt", "accelerate_config").source, first_line=40, first_offset=900)
    settings, _ = read_accelerate(YAML, Context(source=source))
    assert (settings[0].span.line, settings[0].span.offset) == (41, 900 + len("# ours\n"))


def test_the_later_of_two_equal_keys_wins() -> None:
    assert values("num_processes: 2\nnum_processes: 8\n") == {"num_processes": 8}


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\n\tb: 2\n", 2), ("a: 1\nb: [1, 2\n", 3), ("- a\n- b\n", 1), ("a: *nowhere\n", 1)],
)
def test_what_is_wrong_gives_a_note_with_the_line(text: str, line: int) -> None:
    settings, (note,) = read_accelerate(text, context("conf.yaml", "accelerate_config"))
    assert settings == ()
    assert note.where == f"conf.yaml:{line}"


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "a: " + "x" * MAX_CONFIG_CHARS, "[" * 5000], ids=["empty", "comment", "large", "deep"]
)
def test_empty_large_and_deep_files_give_a_note(text: str) -> None:
    settings, notes = read_accelerate(text, context("conf.yaml", "accelerate_config"))
    assert (settings, len(notes)) == ((), 1)


def test_aliases_do_not_multiply() -> None:
    rows = ["a0: &a0 {k: 1}"] + [f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 40)]
    settings, _ = read_accelerate("\n".join(rows), context("conf.yaml", "accelerate_config"))
    assert len(settings) <= 5_000


@pytest.mark.parametrize(
    ("leaf", "keys"), [("{k: 1}", "k: *{0}, k: *{0}"), ("{[1]: 1}", "k: *{0}, k: *{0}"), ("&x {k: *x, k: *x}", "k: *{0}")]
)
def test_aliases_under_keys_of_one_name_end(leaf: str, keys: str) -> None:
    keys = ", ".join([keys] * 9)
    rows = [f"a0: &a0 {leaf}" if "&" not in leaf else f"a0: {leaf.replace('x', 'a0')}"]
    rows += [f"a{n}: &a{n} {{{keys.format(f'a{n - 1}')}}}" for n in range(1, 20)]
    _, (note,) = read_accelerate("\n".join(rows), context("conf.yaml", "accelerate_config"))
    assert note.where == "conf.yaml"


@pytest.mark.parametrize("value", ["!!bool 17", "!!int abc", "!!float x", "0x" + "f" * 5000, "1:" * 900 + "1"])
def test_a_value_that_is_none_of_its_type_is_a_text(value: str) -> None:
    assert "num_processes" in values(f"num_processes: {value}\n")


JSON = """\
{
\t"zero_optimization": {
    "stage": 3,
    "offload_optimizer": {"device": "cpu"},
    "reduce_bucket_size": 5e8
  },
  "bf16": {"enabled": "auto"},
  "steps_per_print": 10
}
"""


def test_reads_deepspeed_with_the_values_of_json() -> None:
    settings, notes = read_deepspeed(JSON, context("ds.json", "deepspeed_config"))
    assert notes == ()
    found = {setting.key: (setting.value, setting.span.line) for setting in settings}
    assert found == {
        "zero_optimization.stage": (3, 3),
        "zero_optimization.offload_optimizer.device": ("cpu", 4),
        "zero_optimization.reduce_bucket_size": (5e8, 5),
        "bf16.enabled": ("auto", 7),
        "steps_per_print": (10, 8),
    }


def test_a_file_that_is_no_json_says_where_and_is_read_as_far_as_it_goes() -> None:
    settings, (note,) = read_deepspeed('{\n  "a": 1,\n  "b": 2,\n}\n', context("ds.json", "deepspeed_config"))
    assert note.where == "ds.json:4" or note.where == "ds.json:3"
    assert [setting.key for setting in settings] == ["a", "b"]


def test_a_number_of_thousands_of_digits_is_a_text() -> None:
    text = '{"train_batch_size": 32,\n"steps": ' + "9" * 5000 + "}"
    settings, (note,) = read_deepspeed(text, context("ds.json", "deepspeed_config"))
    assert (settings[0].value, settings[1].value) == (32, "9" * 1000)
    assert note.where == "ds.json"


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 100_000, '{"a":' * 2000], ids=["lists", "braces", "objects"])
def test_deep_json_is_refused(text: str) -> None:
    settings, notes = read_deepspeed(text, context("ds.json", "deepspeed_config"))
    assert (settings, len(notes)) == ((), 1)


@given(st.text(max_size=200))
def test_any_text_is_survived(text: str) -> None:
    read_accelerate(text, context("conf.yaml", "accelerate_config"))
    read_deepspeed(text, context("ds.json", "deepspeed_config"))


def test_training_arguments_are_settings_with_their_lines():
    text = "# run\nper_device_train_batch_size: 4\nbf16: true\nfsdp_config:\n  limit: 2\n"
    settings, notes = read_arguments(text, context(kind="arguments"))
    assert [(one.family, one.key, one.value, one.span.line) for one in settings] == [
        ("arguments", "per_device_train_batch_size", 4, 2),
        ("arguments", "bf16", True, 3),
        ("arguments", "fsdp_config.limit", 2, 5),
    ]
    assert notes == ()
