from __future__ import annotations

import pytest

from firstfault.ingest.linekind import is_command


@pytest.mark.parametrize("line", ["torchrun --nproc-per-node 4 train.py", "CUDA_VISIBLE_DEVICES=0 torchrun train.py"])
def test_launch_line_is_a_command(line):
    assert is_command(line)


@pytest.mark.parametrize("line", ["torchrun: error: unrecognized arguments: --nproc", "torchrun.log was written"])
def test_what_a_launcher_says_of_itself_is_no_command(line):
    assert not is_command(line)
