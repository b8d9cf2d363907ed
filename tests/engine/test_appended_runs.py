"""Several runs in one file: what an earlier one said is not said of a later one."""

from __future__ import annotations

import pytest

import firstfault

FAILS = """Traceback (most recent call last):
  File "/home/user/a/train.py", line 50, in <module>
    main()
KeyError: 'label'
"""
STEPS = "".join(f"step {step} loss 2.{step}\n" for step in range(1, 6))
DONE = "Training completed. Do not forget to share your model on huggingface.co/models =)\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [(STEPS + DONE + FAILS, True), (STEPS + DONE + STEPS + FAILS, False), (STEPS + DONE + STEPS + DONE + FAILS, True)],
)
def test_work_of_an_earlier_run_is_not_that_of_the_run_that_failed(tmp_path, text, said):
    log = tmp_path / "runs.log"
    log.write_text(text)
    diagnosis = firstfault.diagnose([str(log)])
    assert ("the work was done" in diagnosis.cause) is said
    assert ("exit.after_work" in diagnosis.facts) is said
