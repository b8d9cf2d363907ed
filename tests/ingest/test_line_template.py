from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.bundle import gather
from firstfault.ingest.line_template import VARIABLE, chosen_template, line_template
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan
from ingest_pack import PACK


@pytest.mark.parametrize(
    ("template", "line", "groups"),
    [
        ("[${role_name}-${rank}]: ", "[default-3]: x", {"rank": "3"}),
        ("<$rank/$local_rank> ", "<11/3> x", {"rank": "11", "local": "3"}),
        ("[rank$rank-group$group_rank-try$restart_count]:", "[rank4-group1-try0]:x", {"rank": "4"}),
        ("$$${local_rank}# ", "$2# x", {"local": "2"}),
        ("[${rank} ${unknown}] ", "[3 ${unknown}] x", {"rank": "3"}),
        ("[${rank}|${rank}] ", "[3|3] x", {"rank": "3"}),
    ],
)
def test_what_a_template_prints_is_read_back(template, line, groups):
    found = line_template(template).pattern.match(line)
    assert found is not None
    assert found.groupdict() == groups


@pytest.mark.parametrize("template", ["", "plain text ", "${role_name}: ", "${rank} ", "<$rank>" * 9, "<$rank>" + "x" * 300])
def test_templates_that_say_too_little_or_too_much(template):
    assert line_template(template) is None


@given(st.text(max_size=60))
def test_any_text_is_a_template_or_none(text):
    line_template(text)


def _setting(value):
    return Setting(family="environment", key=VARIABLE, value=value, span=SourceSpan("env.txt", 1, 0), text=value)


def test_two_templates_decide_nothing():
    assert chosen_template([_setting("<$rank> ")]) is not None
    assert chosen_template([_setting("<$rank> "), _setting("[$rank] ")]) is None
    assert chosen_template([]) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("launch.sh", f"export {VARIABLE}='<${{role_name}} ${{rank}}> '\ntorchrun --nproc_per_node 2 train.py\n"),
        ("env.txt", f"MASTER_ADDR=node-1\n{VARIABLE}='<${{role_name}} ${{rank}}> '\nWORLD_SIZE=2\n"),
    ],
)
def test_the_template_stands_in_another_source(tmp_path, name, text):
    (tmp_path / "console.log").write_text(
        "<trainer 0> step 1/9\n<trainer 1> step 1/9\n<trainer 1> Traceback (most recent call last):\n"
        '<trainer 1>   File "/x/train.py", line 3, in main\n<trainer 1> ValueError: bad\n'
    )
    alone = gather([tmp_path / "console.log"], PACK)
    assert [event.place.rank for report in alone.reports for event in report.events] == [None]
    (tmp_path / name).write_text(text)
    together = gather([tmp_path], PACK)
    assert [event.place.rank for report in together.reports for event in report.events] == [1]
    assert {one.rank for report in together.reports for one in report.progress} == {0, 1}
