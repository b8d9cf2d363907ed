from __future__ import annotations

import pytest

from firstfault.errors import UsageError
from firstfault.trial.label import read_cases


def folder_with(tmp_path, **labels):
    for name, text in labels.items():
        (tmp_path / name / "input").mkdir(parents=True)
        (tmp_path / name / "expected.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def test_cases_come_by_name_with_their_set_and_unknown_keys_are_passed_over(tmp_path):
    found = read_cases(folder_with(tmp_path, **{"b-2": "id: x\nroot_cause: told\n", "a-1": "id: null\nnegative: true\n"}))
    assert [(case.name, case.set, case.label.id) for case in found] == [("a-1", "a", None), ("b-2", "b", "x")]
    assert found[1].input == tmp_path / "b-2" / "input"


@pytest.mark.parametrize("text", ["id: [1, 2]\n", "id: x\ninitiating_rank: some\n", "id: {\n", "- 1\n"])
def test_wrong_label_is_named_with_its_file(tmp_path, text):
    with pytest.raises(UsageError, match=r"expected\.yaml"):
        read_cases(folder_with(tmp_path, **{"a-1": text}))


def test_folder_without_cases_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no labelled case"):
        read_cases(tmp_path)
