from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from firstfault.cli.main import run
from firstfault.cli.survey import listening_ports


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No nvidia-smi, no configuration and no interpreter of this machine is found."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HF_HOME", "XDG_CACHE_HOME", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    code = run(["plan", "--format", "json", *words])
    return code, json.loads(capsys.readouterr().out)


KNOWN = ("--gpus", "4", "--versions", "accelerate=1.15.0")


def test_a_command_is_planned_and_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    code, made = answer(capsys, *KNOWN, "--", "accelerate", "launch", "--num_processes", "2", "train.py")
    assert (code, made["nproc_per_node"], made["schema"]) == (0, 2, "firstfault.plan/1")


def test_an_error_of_the_launcher_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, made = answer(capsys, *KNOWN, "--", "accelerate", "launch", "--multi_gpu", "--num_processes", "1", "train.py")
    assert code == 1
    assert made["error"] == {
        "type": "ValueError", "message": "You need to use at least 2 processes to use `--multi_gpu`.", "code": None,
    }  # fmt: skip


def test_without_a_gpu_count_the_fact_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    code, made = answer(capsys, "--versions", "accelerate=1.15.0", "--", "accelerate", "launch", "train.py")
    assert (code, [fact["fact"] for fact in made["unknown"]]) == (3, ["gpus"])  # type: ignore[attr-defined]


def test_nvidia_smi_is_asked_for_the_gpus(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA GeForce RTX 4090, 535.54.03'\necho 'NVIDIA GeForce RTX 4090, 535.54.03'\n")
    smi.chmod(0o755)
    _, made = answer(capsys, "--versions", "accelerate=1.15.0", "--", "accelerate", "launch", "train.py")
    assert (made["gpus"], made["nproc_per_node"]) == (2, 2)
    assert made["env_set"]["NCCL_P2P_DISABLE"] == "1"  # type: ignore[index]


def test_versions_come_from_the_folders_beside_the_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "accelerate").touch()
    (tmp_path / "lib" / "python3.11" / "site-packages" / "accelerate-1.4.0.dist-info").mkdir(parents=True)
    _, made = answer(capsys, "--gpus", "2", "--", "accelerate", "launch", "train.py")
    assert (made["versions"], made["rdzv_backend"]) == ({"accelerate": "1.4.0"}, "c10d")


def test_the_named_interpreter_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _, made = answer(capsys, "--gpus", "2", "--python", sys.executable, "--", "python", "train.py")
    assert made["nproc_per_node"] == 1
    assert run(["plan", "--python", "/no/such/python", "--", "python", "train.py"]) == 2


def test_a_script_is_read_with_its_variables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        'export CUDA_VISIBLE_DEVICES=0,1\nN=2\naccelerate launch \\\n  --num_processes "$N" train.py\n'
    )
    code, made = answer(capsys, *KNOWN, "run.sh")
    assert (code, made["nproc_per_node"]) == (0, 2)
    assert made["rank0"]["visible_gpus"] == 2  # type: ignore[index]


def test_the_configuration_is_read_where_it_lies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text('distributed_type: "NO"\n')
    _, made = answer(capsys, *KNOWN, "--", "accelerate", "launch", "--config_file", "c.yaml", "train.py")
    assert made["launcher"] == "simple_launcher"
    default = tmp_path / ".cache" / "huggingface" / "accelerate"
    default.mkdir(parents=True)
    (default / "default_config.yaml").write_text('distributed_type: "NO"\n')
    _, made = answer(capsys, *KNOWN, "--", "accelerate", "launch", "train.py")
    assert made["launcher"] == "simple_launcher"


@pytest.mark.parametrize(
    "words", [["--versions", "accelerate", "--", "python", "t.py"], ["--gpus", "-1", "--", "python", "t.py"], []]
)
def test_what_cannot_be_understood_is_a_usage_error(words: list[str]) -> None:
    assert run(["plan", *words]) == 2


def test_a_script_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "no-such.sh"]) == 2
    assert "no-such.sh cannot be read" in capsys.readouterr().err


def test_a_whole_command_may_stand_in_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--gpus", "4", "--format", "json", "--", "bash -c 'CUDA_VISIBLE_DEVICES=0,1 torchrun -- t.py'"]) in (
        0,
        1,
    )
    made = json.loads(capsys.readouterr().out)
    assert (made["tool"], made["rank0"]["visible_gpus"]) == ("torchrun", 2)


@pytest.mark.parametrize(("words", "code"), [(["accelerate", "config"], 0), (["accelerate", "env"], 0), ([""], 3)])
def test_words_that_start_no_training_have_no_plan(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--gpus", "4", "--", *words]) == code
    assert f"WILL START  {'not known without the facts below' if code else 'nothing'}\n" in capsys.readouterr().out


@pytest.mark.parametrize("count", ["0", "-1"])
def test_no_process_at_all_is_a_finding(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--gpus", "4", "--", "torchrun", f"--nproc_per_node={count}", "t.py"]) == 1
    assert "AssertionError" in capsys.readouterr().out


def test_a_file_without_a_launch_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here\n")
    assert run(["plan", "notes.txt"]) == 2


CONFIG = 'compute_environment: LOCAL_MACHINE\ndistributed_type: "NO"\nnum_machines: 1\nnum_processes: 1\n'


def test_findings_end_with_1_and_their_change_applies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    words = ("--", "accelerate", "launch", "--config_file", "c.yaml", "train.py")
    code, made = answer(capsys, *KNOWN, *words)
    assert (code, [one["entry"] for one in made["findings"]]) == (1, ["trainer-implicit-dataparallel"])  # type: ignore[attr-defined, index]
    assert run(["plan", "--patch", *KNOWN, *words]) == 1
    patch = capsys.readouterr().out
    assert patch.startswith("--- a/c.yaml\n+++ b/c.yaml\n")
    assert '-distributed_type: "NO"\n+distributed_type: MULTI_GPU\n' in patch


@pytest.mark.parametrize(("gpus", "code"), [("1", 0), ("4", 1)])
def test_a_plan_is_held_against_what_is_expected(capsys: pytest.CaptureFixture[str], gpus: str, code: int) -> None:
    assert run(["plan", "--gpus", gpus, "--expect", "1 process on 1 GPU", "--", "python", "train.py"]) == code
    assert capsys.readouterr().err == ("" if code == 0 else "expected gpus 1: it is 4\n")


def test_an_expectation_that_cannot_be_answered_is_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--expect", "1 process on 1 GPU", "--", "python", "train.py"]) == 3
    assert capsys.readouterr().err == "expected gpus 1: not known\n"
    assert run(["plan", "--expect", "a lot", "--", "python", "train.py"]) == 2


def test_files_are_checked_with_file_and_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(CONFIG.replace('"NO"', "MULTI_GPU"))
    (tmp_path / "bad.yaml").write_text(CONFIG.replace('"NO"', "MULTI_GPU") + "mixed_precision: no\n")
    assert run(["plan", "--check", *KNOWN, "good.yaml"]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
    assert run(["plan", "--check", *KNOWN, "good.yaml", "bad.yaml"]) == 1
    assert "launcher-config-value-type (bad.yaml:5)" in capsys.readouterr().out
    assert run(["plan", "--check", "absent.yaml"]) == 4


def test_ports_that_somebody_listens_on_are_read_from_the_kernel(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(
        "  sl  local_address rem_address   st tx_queue\n"
        "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000\n"
        "   1: 0100007F:8AE2 0100007F:733C 01 00000000:00000000\n"
    )
    assert listening_ports((str(table), str(tmp_path / "absent"))) == {29500}


def test_the_file_at_which_a_launch_stops_gets_its_change(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG + "gpu_ids: 0\n")
    assert run(["plan", "--gpus", "4", "--patch", "--", "accelerate", "launch", "--config_file", "c.yaml", "train.py"]) == 1
    assert "-gpu_ids: 0\n+gpu_ids: '0'\n" in capsys.readouterr().out


def test_the_gpus_may_be_those_of_a_listing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [f"GPU {number}: NVIDIA L4 (UUID: GPU-0000000{number}-0000-0000)" for number in range(2)]
    (tmp_path / "smi.txt").write_text("\n".join(rows) + "\n")
    assert run(["plan", "--gpus", "smi.txt", "--format", "json", "--", "torchrun", "--nproc_per_node", "gpu", "train.py"]) == 0
    assert json.loads(capsys.readouterr().out)["nproc_per_node"] == 2
    (tmp_path / "smi.txt").write_text("no listing\n")
    assert run(["plan", "--gpus", "smi.txt", "--", "torchrun", "train.py"]) == 2
    assert run(["plan", "--gpus", "none.txt", "--", "torchrun", "train.py"]) == 2
