from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.redact import MAX_LINE_CHARS, Redactor, lines_of, without_marks
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.redaction import redaction_rules

DATA = Path(__file__).parents[1] / "data" / "redaction"


def redactor(*, plain: bool = False) -> Redactor:
    return Redactor(redaction_rules(load_pack()), plain=plain)


@pytest.mark.parametrize("name", ["rules.jsonl", "contexts.jsonl"])
def test_labelled_lines_are_masked_and_their_look_alikes_stay(name):
    items = [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    rules = redaction_rules(load_pack())
    secrets = [item for item in items if "secret" in item]
    harmless = [item for item in items if "harmless" in item]
    missed = [item for item in secrets if item["secret"] in Redactor(rules).mask_text(item["line"])]
    lost = [item for item in harmless if item["harmless"] not in Redactor(rules).mask_text(item["line"])]
    assert len(secrets) >= 300 and len({item["kind"] for item in secrets}) >= 40 and len(harmless) >= 300
    assert len(missed) <= 0.005 * len(secrets), missed
    assert len(lost) <= 0.01 * len(harmless), lost


def test_one_value_has_one_pseudonym_and_the_rest_of_the_line_stays():
    text = (
        'gn-08:17:17 [3] NCCL INFO x\n  File "/home/mkowal/a/train.py", line 31, in main\nsrun: error: gn-08: task 3: Killed\n'
    )
    assert redactor().mask_text(text) == (
        '‹host-1›:17:17 [3] NCCL INFO x\n  File "/home/‹user-1›/a/train.py", line 31, in main\n'
        "srun: error: ‹host-1›: task 3: Killed\n"
    )


def test_the_full_name_of_a_host_and_a_mention_without_context_are_the_same_host():
    lines = ["unclear mention of gn-08x, log_gn-08_0.log and gn-08", "MASTER_ADDR=gn-08.cluster.local"]
    masks = redactor()
    masks.learn(lines)
    assert masks.mask(lines[0]) == "unclear mention of gn-08x, log_‹host-1›_0.log and ‹host-1›"
    assert masks.mask(lines[1]) == "MASTER_ADDR=‹host-1›"


def test_hosts_are_numbered_in_the_order_of_their_names():
    masks = redactor(plain=True)
    masks.learn(["HOSTNAME=node-10", "HOSTNAME=node-02"])
    assert masks.mask("HOSTNAME=node-10 after HOSTNAME=node-02") == "HOSTNAME=host-2 after HOSTNAME=host-1"


def test_the_lines_of_a_private_key_go_and_what_follows_stays():
    text = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\nAAAA\n-----END OPENSSH PRIVATE KEY-----\nstep 3\n"
    masked = redactor().mask_text(text)
    assert "b3BlbnNz" not in masked and "AAAA" not in masked
    assert masked.endswith("-----END OPENSSH PRIVATE KEY-----\nstep 3\n")


def test_the_manifest_counts_and_holds_no_value():
    masks = redactor()
    masks.mask_text("HF_TOKEN=aaaaBBBB1111\nHF_TOKEN=aaaaBBBB1111 HOSTNAME=gn-08\n")
    counted = [(item.pseudonym, item.kind, item.times) for item in masks.manifest()]
    assert counted == [
        ("host-1", "host", 1),
        ("token-1", "token", 2),
    ]
    assert "aaaaBBBB" not in repr(masks.manifest())


def test_redacted_text_is_read_without_its_marks():
    assert without_marks("‹host-12›:1:1 NCCL ‹not a pseudonym›") == "host-12:1:1 NCCL ‹not a pseudonym›"


def test_what_no_rule_has_looked_at_is_left_out():
    assert len(redactor().mask("a" * (MAX_LINE_CHARS + 10))) == MAX_LINE_CHARS


@given(st.text(alphabet=st.sampled_from("a1.:-/@= \"'\n\r[]_ghp"), max_size=120))
def test_any_text_keeps_its_line_ends(text):
    assert "".join(line + end for line, end in lines_of(text)) == text
    assert redactor().mask_text(text).count("\n") == text.count("\n")


def test_colours_do_not_hide_a_value() -> None:
    line = "\x1b[1mHF_TOKEN\x1b[0m: \x1b[36mEXAMPLEexample0a0EXAMPLE\x1b[0m"
    assert Redactor(redaction_rules(load_pack())).mask(line) == "HF_TOKEN: ‹token-1›"
