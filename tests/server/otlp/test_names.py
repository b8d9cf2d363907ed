"""A value keeps its pseudonym over a restart, and what is stored does not tell the value."""

from __future__ import annotations

from firstfault.ingest.redact import Redactor
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.redaction import redaction_rules
from firstfault.server.otlp.names import DigestNames

RULES = redaction_rules(load_pack())


def test_a_value_keeps_its_pseudonym_and_numbers_go_on() -> None:
    names = DigestNames(b"secret", {})
    first = Redactor(RULES, names=names).mask("mail to a@example.org and b@example.org")
    stored = names.take_new()
    assert len(stored) == 2 and names.take_new() == {}
    again = Redactor(RULES, names=DigestNames(b"secret", stored)).mask("c@example.org wrote to b@example.org")
    assert first == "mail to ‹email-1› and ‹email-2›"
    assert again == "‹email-3› wrote to ‹email-2›"


def test_values_are_not_stored() -> None:
    names = DigestNames(b"secret", {})
    Redactor(RULES, names=names).mask("mail to a@example.org")
    (stored,) = names.take_new()
    assert b"example" not in stored
    assert DigestNames(b"other", {stored: "email-1"}).get(("email", "a@example.org")) is None
