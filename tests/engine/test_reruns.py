from __future__ import annotations

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather_text
from firstfault.knowledge.pack import load_pack

PACK = load_pack()

FAILED = (
    "step 1/9 loss 2.3\nTraceback (most recent call last):\n"
    '  File "/home/user/train.py", line 22, in main\n    {code}\n{error}\n'
)
FIRST = FAILED.format(code="scale = 1 / len(shard)", error="ZeroDivisionError: division by zero")
SECOND = FAILED.format(code='x = row["label"]', error="KeyError: 'label'")
DONE = "step 1/9 loss 2.3\nstep 5/9 loss 1.9\nstep 9/9 loss 1.1\n{'train_runtime': 8.4, 'train_loss': 1.3, 'epoch': 1.0}\n"
START = "user@node-1:~/proj$ python train.py\n"


@pytest.mark.parametrize(
    ("text", "verdict", "error"),
    [
        (START + FIRST + START + DONE, "no_failure", None),
        (START + FIRST + START + SECOND, None, "KeyError"),
        (START + FIRST + "user@node-1:~/proj$ nvidia-smi -L\n", None, "ZeroDivisionError"),
        (START + FIRST + START, None, "ZeroDivisionError"),
        ("$ torchrun train.py\n" + FIRST + "$ python train.py\n" + DONE, None, "ZeroDivisionError"),
        (FIRST + START + DONE, None, "ZeroDivisionError"),
        (FIRST + "I start it with\n\n```\npython train.py\n```\n" + "\n", None, "ZeroDivisionError"),
    ],
)
def test_launch_at_a_prompt_begins_a_new_run(text, verdict, error):
    found = investigate(gather_text(text, PACK, name="terminal.txt"), PACK)
    if verdict:
        assert found.verdict == verdict
    else:
        assert found.verdict != "no_failure" and found.facts["exc.root_type"]["value"] == error
