"""The same failure again has the same fingerprint; another one has not."""

from __future__ import annotations

import pytest

import firstfault
from firstfault.history.fingerprint import NO_FAILURE, fingerprint

CRASH = """\
Traceback (most recent call last):
  File "/home/{user}/work/train.py", line {line}, in {function}
    weight = total / positives
ZeroDivisionError: division by zero
"""


def crash(user: str = "user", line: int = 16, function: str = "class_weight") -> str:
    text = CRASH.format(user=user, line=line, function=function)
    return fingerprint(firstfault.diagnose(text))


def test_another_machine_and_an_edited_file_do_not_make_another_failure() -> None:
    assert crash() == crash(user="other", line=31)


def test_another_function_makes_another_failure() -> None:
    assert crash() != crash(function="collate")


@pytest.mark.parametrize(("first", "second", "same"), [("2.00 GiB", "4.64 GiB", True)])
def test_numbers_do_not_count(first: str, second: str, same: bool) -> None:
    lines = [f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}. GPU 0 has\n" for size in (first, second)]
    one, two = (fingerprint(firstfault.diagnose(f"Traceback (most recent call last):\n{line}")) for line in lines)
    assert (one == two) is same


def test_a_healthy_run_has_no_failure_to_recognise() -> None:
    healthy = "step 1 loss 2.0\nstep 2 loss 1.9\nTraining completed.\n"
    diagnosis = firstfault.diagnose(healthy)
    assert diagnosis.verdict == "no_failure"
    assert fingerprint(diagnosis) == NO_FAILURE
