from textwrap import dedent

import pytest

from firstfault.errors import KnowledgeError
from firstfault.knowledge.fact_list import load_facts, read_facts
from firstfault.knowledge.problems import Problems

COMMON = 'says = "s"\nask = "a?"\nobtain = "o"\ncost = "seconds"\n'


def facts(text, classes=()):
    problems = Problems()
    found = read_facts(text, "encyclopedia/facts.toml", problems, classes)
    problems.raise_if_any()
    return found


def test_an_array_as_type_is_an_enum():
    found = facts(f'[oom.phase]\ntype = ["load", "forward"]\nproducer = "engine/derive/memory"\n{COMMON}')["oom.phase"]
    assert (found.type, found.values, found.cost, found.producer) == (
        "enum",
        ("load", "forward"),
        "seconds",
        "engine/derive/memory",
    )


def test_names_have_any_number_of_parts():
    found = facts(f'[gpu.xid.first]\ntype = "int"\nunit = "number"\n{COMMON}[gpu.xid.all]\ntype = "int list"\n{COMMON}')
    assert {name: spec.unit for name, spec in found.items()} == {"gpu.xid.first": "number", "gpu.xid.all": ""}


def test_values_may_come_from_the_classes_of_the_causal_table():
    text = f'[fault.class]\ntype = "enum"\nvalues_from = "classes"\nvalues = ["none"]\n{COMMON}'
    assert facts(text, ["device_oom", "peer_lost"])["fault.class"].values == ("device_oom", "peer_lost", "none")


def test_every_error_is_reported_with_its_line():
    text = dedent(
        """
        version = 1
        [a.b]
        type = "integer"
        says = "s"
        ask  = ""
        obtain = "o"
        cost = "cheap"
        [a.c]
        type = "enum"
        says = "s"
        ask = "a"
        obtain = "o"
        cost = "rerun"
        used_by = ["x"]
        """
    )
    with pytest.raises(KnowledgeError) as caught:
        facts(text)
    for line in (
        "facts.toml:1: `version` stands outside of a fact's table",
        "facts.toml:4: `type` is 'integer'",
        "facts.toml:6: [a.b] lacks `ask`",
        "facts.toml:8: `cost` is 'cheap'",
        "facts.toml:9: a.c: `values` belong to",
        "facts.toml:15: unknown key `used_by` in [a.c]",
    ):
        assert line in str(caught.value)


def test_load_facts_reads_a_file(tmp_path):
    path = tmp_path / "facts.toml"
    path.write_text(f'[a.b]\ntype = "bytes"\n{COMMON}', encoding="utf-8")
    assert load_facts(path)["a.b"].type == "bytes"
