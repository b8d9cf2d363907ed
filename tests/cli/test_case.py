from __future__ import annotations

from click.testing import CliRunner

from firstfault.cli.case import case
from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.render.json import to_json


def test_a_saved_diagnosis_stands_for_its_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.log").write_text("HOSTNAME=gn-08\ntorch.OutOfMemoryError: CUDA out of memory.\n", encoding="utf-8")
    pack = load_pack()
    (tmp_path / "answer.json").write_bytes(to_json(investigate(gather(["run.log"], pack), pack)))
    found = CliRunner().invoke(case, ["new", "answer.json", "--expected", "cuda-oom", "--rank", "0"], standalone_mode=False)
    assert found.return_value == 0, found.output
    assert "host-1" in found.output and "Read every file" in found.output
    assert "gn-08" not in found.output
    assert "HOSTNAME=host-1" in (tmp_path / "cases" / "cuda-oom" / "input" / "run.log").read_text(encoding="utf-8")
    again = CliRunner().invoke(case, ["new", "run.log", "--expected", "none"], standalone_mode=False)
    assert again.return_value == 0
    assert "negative: true" in (tmp_path / "cases" / "none" / "expected.yaml").read_text(encoding="utf-8")


def test_a_diagnosis_whose_files_are_gone_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "run.log"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory.\n", encoding="utf-8")
    pack = load_pack()
    (tmp_path / "answer.json").write_bytes(to_json(investigate(gather(["run.log"], pack), pack)))
    log.unlink()
    found = CliRunner().invoke(case, ["new", "answer.json", "--expected", "cuda-oom"], standalone_mode=False)
    assert "are not here" in str(found.exception)
