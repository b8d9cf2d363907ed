from __future__ import annotations

import pytest

from firstfault.errors import KnowledgeError
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.problems import Problems
from firstfault.knowledge.redaction import found_values, read_rules, redaction_rules

GOOD = "[[rule]]\nid = 'a'\nkind = 'token'\nvalue = 'x{4}'\nexamples = ['an «xxxx»']\n"


def errors(text: str) -> str:
    problems = Problems()
    read_rules(text, "signals/redaction.toml", problems)
    with pytest.raises(KnowledgeError) as caught:
        problems.raise_if_any()
    return str(caught.value)


def test_every_rule_of_the_pack_has_an_id_of_its_own_and_masks_its_examples():
    rules = redaction_rules(load_pack())
    assert len({rule.id for rule in rules}) == len(rules) > 40
    for rule in rules:
        for example in rule.examples:
            assert found_values(rule, example.replace("«", "").replace("»", "")), example


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("x{4}", "(?<=a)x"), "look-around"),
        (GOOD.replace("x{4}", "y"), "of the example"),
        (GOOD + "harmless = ['xxxx']\n", "of the harmless"),
        (GOOD + "literals = ['ABC']\n", "lower case"),
        (GOOD.replace("'token'", "'thing'"), "must be one of"),
        (GOOD.split("examples")[0], "a rule has `examples`"),
    ],
)
def test_a_faulty_rule_is_refused_with_its_line(text, message):
    said = errors(text)
    assert message in said
    assert "signals/redaction.toml:" in said


def test_a_kept_value_does_not_hide_the_next_one():
    problems = Problems()
    (rule,) = read_rules(
        "[[rule]]\nid='a'\nkind='host'\nbefore='(?:to |host )'\nvalue='[a-z]+[0-9]?'\n"
        "holds=['[0-9]']\nexamples=['to host «b1»']",
        "r",
        problems,
    )
    assert not len(problems)
    assert found_values(rule, "to host b1") == ["b1"]
