"""The public face is exactly what `__all__` says, sorted, and loaded only when asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import firstfault


def test_all_is_sorted_and_complete():
    assert list(firstfault.__all__) == sorted(firstfault.__all__)
    public = {name for name in dir(firstfault) if not name.startswith("_")}
    modules = {name for name in public if f"firstfault.{name}" in sys.modules}
    helpers = {"Any", "Literal", "Mapping", "PathLike", "Sequence", "TYPE_CHECKING", "annotations", "fspath"}
    assert public - modules - helpers == set(firstfault.__all__) - {"__version__"}


@pytest.mark.parametrize("name", firstfault.__all__)
def test_every_name_can_be_had_and_is_documented(name):
    value = getattr(firstfault, name)
    assert name == "__version__" or value.__doc__


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = firstfault.no_such_name


def test_importing_the_face_loads_nothing_else():
    code = "import sys, firstfault; print(sorted(m for m in sys.modules if m.startswith('firstfault.') or m == 'msgspec'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['firstfault.version']"


def test_text_and_paths_give_the_same_answer(tmp_path):
    text = (
        'step 1/10 loss 1.0\nTraceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
        "ValueError: no\n"
    )
    path = tmp_path / "run.log"
    path.write_text(text)
    by_text, by_path, by_list = firstfault.diagnose(text), firstfault.diagnose(path), firstfault.diagnose([str(path)])
    assert isinstance(by_text, firstfault.Diagnosis)
    assert by_text.entry == by_path.entry == by_list.entry == "python-exception"


def test_wrong_fact_says_which_was_meant():
    with pytest.raises(firstfault.UsageError) as caught:
        firstfault.diagnose("one line\nand another\n", facts={"oom.phas": "forward"})
    assert "oom.phase" in caught.value.hint
