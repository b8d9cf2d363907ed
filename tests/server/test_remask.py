"""A capsule that is sent is masked once more: what is redacted stays to the byte, what is not is never kept."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from firstfault.errors import UnreadableInputError
from firstfault.ingest.capsule import Capsule, CapsuleLine, CapsuleSource, encode, gather_capsule
from firstfault.ingest.redact import Masked, Redactor
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.redaction import redaction_rules
from firstfault.server.remask import masked_again
from server.consoles import console, services_of, signed_in

ROOT = Path(__file__).parents[2]
PACK = load_pack()
RULES = redaction_rules(PACK)
TOKEN = "hf_EXAMPLEexampleEXAMPLEexample00"
CRASH = (
    "Traceback (most recent call last):",
    '  File "/home/alice/train.py", line 9, in main',
    "    x = 1 / 0",
    "ZeroDivisionError: division by zero",
)


def capsule_of(*lines: str, path: str = "run.log", **more: object) -> Capsule:
    stretch = tuple(CapsuleLine(number, 100 * number, text) for number, text in enumerate(lines, 1))
    size = sum(len(line) + 1 for line in lines)
    source = CapsuleSource(path=path, bytes=size, lines=len(lines), ended=True, whole=True, stretches=(stretch,))
    return msgspec.structs.replace(Capsule(sources=(source,)), **more)


def text_of(capsule: Capsule) -> list[str]:
    return [line.text for source in capsule.sources for stretch in source.stretches for line in stretch]


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*/")), ids=lambda path: path.name)
def test_what_the_client_made_stays_to_the_byte(example: Path) -> None:
    made = encode(gather_capsule([example], PACK))
    again, facts = masked_again(msgspec.json.decode(made, type=Capsule), {"launch.processes": "4"}, RULES)
    assert encode(again) == made and facts == {"launch.processes": "4"}


def test_every_labelled_line_is_masked_as_it_was_and_only_once() -> None:
    rows = (ROOT / "tests" / "data" / "redaction" / "contexts.jsonl").read_text("utf-8").splitlines()
    for text in (json.loads(row)["line"] for row in rows):
        first = Redactor(RULES)
        first.learn(text.split("\n"))
        masked = [first.mask(line) for line in text.split("\n")]
        capsule = capsule_of(*masked, masked=first.manifest())
        assert masked_again(capsule, {}, RULES)[0] == capsule, text


def test_new_pseudonyms_are_none_that_stand_for_something_else() -> None:
    capsule = capsule_of("‹token-2› left out a line", f"HF_TOKEN={TOKEN}", f"again {TOKEN}")
    again, _ = masked_again(capsule, {}, RULES)
    assert text_of(again) == ["‹token-2› left out a line", "HF_TOKEN=‹token-3›", "again ‹token-3›"]
    assert [(item.pseudonym, item.times) for item in again.masked] == [("token-3", 2)]


def test_part_of_a_value_beside_a_pseudonym_is_masked() -> None:
    again, _ = masked_again(capsule_of("token: ‹token-1›MoreOfTheSecret12345"), {}, RULES)
    assert "MoreOf" not in text_of(again)[0]


def test_a_private_key_is_masked_and_a_masked_one_stays() -> None:
    raw = ("-----BEGIN RSA PRIVATE KEY-----", "MIIEexampleexampleexample", "-----END RSA PRIVATE KEY-----", "step 1")
    once, _ = masked_again(capsule_of(*raw), {}, RULES)
    assert "MIIE" not in str(once) and text_of(once)[3] == "step 1"
    assert masked_again(once, {}, RULES)[0] == once


def test_nothing_hides_in_names_notes_facts_or_the_manifest() -> None:
    masked = (
        Masked(f"token-1 {TOKEN}", "token", "x", 1),
        Masked("token-1", TOKEN, "x", 1),
        Masked("token-1", "token", TOKEN, 1),
        Masked("token-1", "token", "huggingface-token", 3),
    )
    capsule = capsule_of("x", path=f"logs/{TOKEN}.log", notes=(f"a.log: {TOKEN}",), masked=masked)
    again, facts = masked_again(capsule, {"run.command": f"HF_TOKEN={TOKEN} torchrun train.py"}, RULES)
    assert TOKEN not in encode(again).decode() + str(facts)
    assert masked[3] in again.masked


def test_another_schema_is_refused() -> None:
    with pytest.raises(UnreadableInputError):
        masked_again(capsule_of("x", schema="firstfault.capsule/9"), {}, RULES)


def test_numbers_of_a_hostile_text_are_not_counted_to() -> None:
    again, _ = masked_again(capsule_of("‹token-999999999›", f"HF_TOKEN={TOKEN}"), {}, RULES)
    assert text_of(again)[1] == "HF_TOKEN=‹token-1›"


def test_raw_secrets_that_are_posted_are_not_kept(tmp_path: Path) -> None:
    raw = encode(capsule_of(*CRASH, f"export HF_TOKEN={TOKEN}", "mail alice@example.org", path="/home/alice/run.log"))
    hidden = json.dumps({**json.loads(raw), "comment": TOKEN}).encode()
    with console(tmp_path) as client:
        anne = signed_in(client)
        made = client.post(
            "/api/v1/diagnoses?fact=run.finished%3Dno", content=hidden, headers={"Content-Type": "application/json", **anne}
        )
        assert made.status_code == 201, made.text
        assert TOKEN not in made.text and "alice" not in made.text
        kept = client.get(f"/api/v1/diagnoses/{made.json()['id']}/capsule.json", headers=anne).text
        assert TOKEN not in kept and "alice" not in kept and "‹token-1›" in kept and "ZeroDivisionError" in kept
        services_of(client).store.close()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not any(TOKEN.encode() in data or b"alice@" in data for data in files)
