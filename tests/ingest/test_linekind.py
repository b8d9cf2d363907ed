from __future__ import annotations

import pytest

from firstfault.ingest.linekind import is_command, is_log


@pytest.mark.parametrize("line", ["torchrun --nproc-per-node 4 train.py", "CUDA_VISIBLE_DEVICES=0 torchrun train.py"])
def test_launch_line_is_a_command(line):
    assert is_command(line)


@pytest.mark.parametrize("line", ["torchrun: error: unrecognized arguments: --nproc", "torchrun.log was written"])
def test_what_a_launcher_says_of_itself_is_no_command(line):
    assert not is_command(line)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError                              Traceback (most recent call last)",
        "Cell In[14], line 3",
        "Input In [14], in <cell line: 3>()",
        "File ~/envs/nb/lib/python3.10/site-packages/torch/nn/modules/linear.py:114, in Linear.forward(self, input)",
        "      1 model.train()",
        "----> 3     out = model(batch)",
        "   1517 else:",
        "    115 ",
    ],
)
def test_a_notebook_traceback_is_printed_to_its_last_line(text):
    assert is_log(text)


@pytest.mark.parametrize("text", ["  3 days later it was gone", "File a bug report for me", "12 things that I tried:"])
def test_numbers_and_files_of_a_sentence_are_no_notebook(text):
    assert not is_log(text)
