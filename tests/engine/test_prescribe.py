"""Fixes: chosen by condition and framework, as a diff of the user's own file where the setting stands in one."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

from engine.faults import Log
from engine.runs import Stated, entry, pack_of, spec, told
from firstfault.engine.align import align
from firstfault.engine.blanks import Blanks
from firstfault.engine.edit import Change, patch
from firstfault.engine.prescribe import prescribe
from firstfault.knowledge.schema import CodeBlock, EntryBody, FixRule, SettingEdit, VerifyRule
from firstfault.model.bundle import Bundle, Source, SourceReport
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan

YAML = '# mine\ncompute_environment: LOCAL_MACHINE\ndistributed_type: "NO"   # one process\nnum_processes: 1\n'
JSON = '{\n  "zero_optimization": {\n    "stage": 2,\n    "overlap_comm": true\n  },\n  "train_batch_size": "auto"\n}\n'
SHELL = "#!/bin/sh\nexport CUDA_VISIBLE_DEVICES=0,1\naccelerate launch --num_processes 4 train.py --lr 1e-4\n"


def config(text, family, key, line, *, path="conf/run.yaml", kind="accelerate_config", id=None, **more):
    setting = Setting(family=family, key=key, value="x", span=SourceSpan(path, line, 0), text=text.splitlines()[line - 1])
    source = Source(id=id or path, path=path, kind=kind, lines=len(text.splitlines()), **more)
    return Bundle(reports=(SourceReport(source=source, settings=(setting,), text=text),))


@pytest.mark.parametrize(
    ("text", "family", "key", "line", "value", "removed", "added"),
    [
        (
            YAML,
            "accelerate",
            "distributed_type",
            3,
            "MULTI_GPU",
            '-distributed_type: "NO"   # one',
            "+distributed_type: MULTI_GPU   # one",
        ),
        (YAML, "accelerate", "distributed_type", 3, "NO", '-distributed_type: "NO"', "+distributed_type: 'NO'   # one"),
        (JSON, "deepspeed", "zero_optimization.stage", 3, "3", '-    "stage": 2,', '+    "stage": 3,'),
        (
            SHELL,
            "command",
            "--num_processes",
            3,
            "1",
            "-accelerate launch --num_processes 4",
            "+accelerate launch --num_processes 1 train",
        ),
        (
            SHELL,
            "environment",
            "CUDA_VISIBLE_DEVICES",
            2,
            "0",
            "-export CUDA_VISIBLE_DEVICES=0,1",
            "+export CUDA_VISIBLE_DEVICES=0\n",
        ),
    ],
)
def test_setting_is_changed_in_its_line(text, family, key, line, value, removed, added):
    made = patch([Change(family, key, value)], config(text, family, key, line))
    assert made is not None and made.applies and made.path == "conf/run.yaml"
    assert removed in made.diff and added in made.diff
    assert sum(row.startswith(("+", "-")) for row in made.diff.splitlines()) == 4


def test_git_applies_the_diff(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "run.yaml").write_text(YAML)
    made = patch([Change("accelerate", "distributed_type", "MULTI_GPU")], config(YAML, "accelerate", "distributed_type", 3))
    subprocess.run(["git", "apply", "-"], input=made.diff, text=True, check=True, cwd=tmp_path)
    assert "distributed_type: MULTI_GPU   # one process" in (tmp_path / "conf" / "run.yaml").read_text()


def test_key_is_added_only_where_it_may_be():
    bundle = config(YAML, "accelerate", "num_processes", 4)
    assert patch([Change("accelerate", "gpu_ids", "0")], bundle) is None
    made = patch([Change("accelerate", "gpu_ids", "0", add=True)], bundle)
    assert made.diff.rstrip().endswith("+gpu_ids: 0")


def test_file_without_final_newline_still_applies(tmp_path):
    text = YAML.rstrip("\n")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "run.yaml").write_text(text)
    made = patch([Change("accelerate", "num_processes", "4")], config(text, "accelerate", "num_processes", 4))
    subprocess.run(["git", "apply", "-"], input=made.diff, text=True, check=True, cwd=tmp_path)
    assert (tmp_path / "conf" / "run.yaml").read_text().endswith("num_processes: 4")


def test_git_applies_the_diff_of_a_file_with_odd_line_ends(tmp_path):
    text = "a: 1 # \f\u2028 x\ry\r\nb: 2\r\nnum_processes: 8\r\n"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/run.yaml").write_bytes(text.encode())
    made = patch([Change("accelerate", "num_processes", "4")], config(text, "accelerate", "num_processes", 3))
    assert made is not None and made.applies
    subprocess.run(["git", "apply", "-"], input=made.diff.encode(), cwd=tmp_path, check=True)
    assert (tmp_path / "conf/run.yaml").read_bytes() == text.replace("8", "4").encode()


@pytest.mark.parametrize("path", ["-", "a\nb.yaml", "a\x1b.yaml"])
def test_what_no_diff_can_name_is_not_applied(path):
    made = patch(
        [Change("accelerate", "num_processes", "4")],
        config("num_processes: 8\n", "accelerate", "num_processes", 1, path=path),
    )
    assert made is not None and not made.applies


def test_part_of_a_paste_is_shown_but_not_applied():
    text = YAML
    setting = Setting(family="accelerate", key="num_processes", value=1, span=SourceSpan("post.md", 13, 0), text="x")
    source = Source(id="post.md#2", path="post.md", kind="accelerate_config", lines=4, first_line=10, first_offset=300)
    bundle = Bundle(reports=(SourceReport(source=source, settings=(setting,), text=text),))
    made = patch([Change("accelerate", "num_processes", "4")], bundle)
    assert "+num_processes: 4" in made.diff and not made.applies


def test_nothing_to_change_gives_no_patch():
    assert patch([Change("accelerate", "num_processes", "1")], config(YAML, "accelerate", "num_processes", 4)) is None


RULES = (
    FixRule(id="torch-only", stacks=("torch",), verify="v"),
    FixRule(id="for-trainer", title="Set it", stacks=("transformers",), verify="v", risk="costs {run.steps_done} steps"),
    FixRule(id="conditional", when="script.retain_graph", stacks=("torch", "transformers")),
    FixRule(id="edit", stacks=(), edit=(SettingEdit(family="accelerate", key="num_processes", value="4"),)),
    FixRule(id="env", kind="env"),
)
BODY = EntryBody(
    sections={},
    fixes={
        "for-trainer": (
            CodeBlock(language="python", stack="torch", text="torch way\n"),
            CodeBlock(language="python", stack="transformers", text="trainer way\n"),
        ),
        "env": (CodeBlock(language="sh", stack="", text="CUDA_VISIBLE_DEVICES=0 {launch.command}\n"),),
        "torch-only": (CodeBlock(language="python", stack="torch", text="plain way\n"),),
    },
)
ENTRY = entry("thing", ["a"], fixes=RULES, verify=(VerifyRule(id="v", run="{launch.command}", expect="it runs"),))


def prescribed(*facts, bundle=None):
    pack = pack_of(ENTRY, facts=[spec("launch.command", "text"), spec("run.steps_done", "int")])
    pack = msgspec.structs.replace(pack, bodies={"thing": msgspec.Raw(msgspec.msgpack.encode(BODY))})
    known = Stated(pack, *facts)
    found = align(bundle or Bundle(reports=(Log("run.log").report(),)))
    return prescribe(ENTRY, known, found.bundle, pack, Blanks(known, found.bundle, None))


def test_framework_and_condition_choose():
    fixes, verifications = prescribed(told("run.framework", "transformers"), told("launch.command", "python t.py"))
    assert [fix.title for fix in fixes] == ["Torch only", "Set it", "Edit", "Env"]
    assert [fix.text for fix in fixes if fix.title == "Set it"] == ["trainer way"]
    assert [fix.text for fix in fixes if fix.kind == "env"] == ["CUDA_VISIBLE_DEVICES=0 python t.py"]
    assert [(v.command, v.expect) for v in verifications] == [("python t.py", "it runs")]


def test_plain_torch_gets_no_trainer_fix():
    fixes, _ = prescribed(told("run.framework", "torch"))
    assert "Set it" not in [fix.title for fix in fixes]


def test_risk_with_an_unknown_number_is_dropped():
    fixes, _ = prescribed(told("run.framework", "transformers"))
    assert next(fix for fix in fixes if fix.title == "Set it").risk == ""


def test_fix_that_applies_stands_in_front():
    fixes, _ = prescribed(told("run.framework", "transformers"), bundle=config(YAML, "accelerate", "num_processes", 4))
    assert fixes[0].applies and fixes[0].file == "conf/run.yaml" and "+num_processes: 4" in fixes[0].text


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("gpu_ids: 0", "gpu_ids: '0'"),
        ("gpu_ids: [0, 1]  # both", "gpu_ids: '0,1'  # both"),
        ("gpu_ids: No", "gpu_ids: 'No'"),
    ],
)
def test_a_value_that_yaml_reads_as_no_text_is_quoted(line: str, after: str) -> None:
    made = patch([Change("accelerate", "gpu_ids", "", quote=True)], config(f"{line}\n", "accelerate", "gpu_ids", 1))
    assert made is not None
    assert f"-{line}\n+{after}\n" in made.diff


@pytest.mark.parametrize("line", ["gpu_ids: all", "gpu_ids: '0'", "other: 0"])
def test_text_is_not_quoted_again(line: str) -> None:
    assert patch([Change("accelerate", "gpu_ids", "", quote=True)], config(f"{line}\n", "accelerate", "gpu_ids", 1)) is None
