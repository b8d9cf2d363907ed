from __future__ import annotations

import pytest

from firstfault.errors import UsageError
from firstfault.memory.alloc_conf import read_alloc_conf
from firstfault.memory.plan import Allocator


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("", Allocator()),
        ("expandable_segments:True", Allocator(expandable_segments=True)),
        ("expandable_segments:False, max_split_size_mb:512", Allocator(max_split_bytes=512 << 20)),
        (
            "garbage_collection_threshold:0.8,roundup_power2_divisions:4",
            Allocator(garbage_collection_threshold=0.8, power_of_two_divisions=4),
        ),
        ("roundup_power2_divisions:[256:1,512:2,>:8],backend:native", Allocator(power_of_two_divisions=8)),
    ],
)
def test_the_settings_that_decide_bytes(text, made):
    assert read_alloc_conf(text) == made


@pytest.mark.parametrize("text", ["expandable_segments", "max_split_size_mb:much", "no_such_setting:1", ",", "a:[b"])
def test_what_torch_would_refuse(text):
    with pytest.raises(UsageError):
        read_alloc_conf(text)
