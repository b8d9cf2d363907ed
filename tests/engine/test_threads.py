"""An exception that ended a helper thread is the cause of the wait for it that ran out later."""

from __future__ import annotations

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather_text
from firstfault.knowledge.pack import load_pack

PACK = load_pack()
LIB = "/usr/lib/python3.11"
DIED = (
    "Exception in thread loader:\nTraceback (most recent call last):\n"
    f'  File "{LIB}/threading.py", line 1045, in _bootstrap_inner\n    self.run()\n'
    f'  File "{LIB}/threading.py", line 982, in run\n    self._target(*self._args, **self._kwargs)\n'
    '  File "/home/user/train.py", line 13, in fill\n    scale = 1 / len(shard)\nZeroDivisionError: division by zero\n'
)
WENT_ON = "step 3/20 loss 2.0\nstep 4/20 loss 1.9\nstep 5/20 loss 1.8\n"
WAITED = (
    "Traceback (most recent call last):\n"
    '  File "/home/user/train.py", line 40, in main\n    batch = ready.get(timeout=30)\n'
    f'  File "{LIB}/queue.py", line 179, in get\n    raise Empty\n_queue.Empty\n'
)
OTHER = (
    "Traceback (most recent call last):\n"
    '  File "/home/user/train.py", line 41, in main\n    loss = total / row["weight"]\nKeyError: \'weight\'\n'
)


def root_type(text: str) -> str:
    found = investigate(gather_text("step 1/20 loss 2.2\nstep 2/20 loss 2.1\n" + text, PACK, name="run.log"), PACK)
    return found.facts["exc.root_type"]["value"]


def test_the_thread_that_died_is_the_cause_of_the_wait_that_ran_out() -> None:
    assert root_type(DIED + WENT_ON + WAITED) == "ZeroDivisionError"


def test_a_thread_that_nobody_waited_for_was_survived() -> None:
    assert root_type(DIED + WENT_ON + OTHER) == "KeyError"


def test_a_wait_that_ran_out_before_is_no_consequence() -> None:
    assert root_type(WAITED + WENT_ON + DIED) != "ZeroDivisionError" or "Empty" in root_type(WAITED + DIED)
