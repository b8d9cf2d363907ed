from __future__ import annotations

from click.testing import CliRunner

from firstfault.cli.bench import bench


def test_cases_of_a_folder_are_diagnosed_and_scored(tmp_path):
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity of 23.69 GiB"
    for name, text, label in (
        ("x-1", log, "id: cuda-oom\nundecidable: true\nmissing_keywords: [traceback]\n"),
        ("x-2", "step 1/2 loss 1.0\n", "id: null\nnegative: true\n"),
    ):
        (tmp_path / name / "input").mkdir(parents=True)
        (tmp_path / name / "input" / "run.log").write_text(text, encoding="utf-8")
        (tmp_path / name / "expected.yaml").write_text(label, encoding="utf-8")
    found = CliRunner().invoke(bench, ["cases", str(tmp_path)], standalone_mode=False)
    assert found.return_value == 0
    assert "undecidable, right question  1 of 1" in found.output
    assert "nothing failed, and said so  1 of 1" in found.output
    one = CliRunner().invoke(bench, ["cases", str(tmp_path), "--only", "x-2"], standalone_mode=False)
    assert one.output.startswith("1 cases: 0 decidable")
