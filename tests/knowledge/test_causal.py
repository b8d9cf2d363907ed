from textwrap import dedent

import pytest

from firstfault.errors import KnowledgeError
from firstfault.knowledge.causal import load_causal, read_causal
from firstfault.knowledge.problems import Problems

TABLE = """
[groups]
any_fatal = ["device_oom", "peer_lost"]

[[class]]
id = "device_oom"
prior = "initiating"
weight = 8
text = "OutOfMemoryError"

[[class]]
id = "peer_lost"
prior = "collateral"
weight = 1
text = "connection closed by peer"

[[class]]
id = "silent_end"
prior = "collateral"
weight = 0
text = "a log that stops"
derived = true

[[explains]]
a = "any_fatal"
b = "peer_lost"
scope = "group"
delay_s = [0, "timeout + 75"]

[[explains]]
a = "device_oom"
b = "silent_end"
scope = "reports"
delay_s = ["-inf", inf]
match = "pid"

[[exception_type]]
name = "OutOfMemoryError"
class = "device_oom"
"""


def causal(text):
    problems = Problems()
    found = read_causal(text, "encyclopedia/explains.toml", problems)
    problems.raise_if_any()
    return found


def test_the_whole_table_is_read():
    found = causal(TABLE)
    assert [(item.id, item.prior, item.weight, item.derived) for item in found.classes] == [
        ("device_oom", "initiating", 8, False),
        ("peer_lost", "collateral", 1, False),
        ("silent_end", "collateral", 0, True),
    ]
    assert found.groups == {"any_fatal": ("device_oom", "peer_lost")}
    assert [(item.name, item.fault_class) for item in found.exception_types] == [("OutOfMemoryError", "device_oom")]


def test_delays_may_be_open_or_follow_the_time_out():
    first, second = causal(TABLE).explains
    assert (first.min_delay_s, first.max_delay_s, first.after_timeout) == (0.0, 75.0, True)
    assert (second.min_delay_s, second.max_delay_s, second.after_timeout) == (None, None, False)
    assert second.match == "pid"


def test_every_error_is_reported_with_its_line():
    with pytest.raises(KnowledgeError) as caught:
        causal(
            dedent(
                """
                [[class]]
                id = "x"
                prior = "maybe"
                text = "t"
                [[explains]]
                a = "x"
                b = "y"
                scope = "rank"
                delay_s = [0]
                exceptions = []
                [[explains]]
                a = "x"
                b = "x"
                scope = "rank"
                delay_s = [0, "one log interval"]
                [[exception_type]]
                name = "E"
                class = "z"
                """
            )
        )
    for line in (
        "explains.toml:4: `prior` is 'maybe'",
        "explains.toml:8: `b` names `y`, which is no class or group",
        "explains.toml:10: `delay_s` must be [min, max]",
        "explains.toml:11: unknown key `exceptions`",
        "explains.toml:16: `delay_s`: 'one log interval' is no number",
        "explains.toml:19: unknown class `z`",
    ):
        assert line in str(caught.value)


def test_load_causal_reads_a_file(tmp_path):
    path = tmp_path / "explains.toml"
    path.write_text(TABLE, encoding="utf-8")
    assert len(load_causal(path).explains) == 2
