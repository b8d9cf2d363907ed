from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from firstfault.errors import UnreadableInputError
from firstfault.ingest.capsule import Capsule, encode, gather_capsule, shown, text_capsule
from firstfault.knowledge.pack import load_pack
from firstfault.render.json import schema

EXPORTED = Path(__file__).parents[2] / "docs" / "json-schema" / "firstfault.capsule-1.json"
ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity of 23.69 GiB"
PACK = load_pack()


def test_what_is_sent_names_nobody_and_says_what_was_masked(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(f"HOSTNAME=gn-08\ncopy from gn-08\n[rank2]: {ERROR}\n", encoding="utf-8")
    (tmp_path / "command.txt").write_text("HF_TOKEN=aaaaBBBB1111 accelerate launch train.py\n", encoding="utf-8")
    capsule = gather_capsule([tmp_path], PACK)
    by_name = {Path(source.path).name: source for source in capsule.sources}
    assert [line.text for line in by_name["command.txt"].stretches[0]] == ["HF_TOKEN=‹token-1› accelerate launch train.py"]
    assert [line.text for line in by_name["run.log"].stretches[0]][:2] == ["HOSTNAME=‹host-1›", "copy from ‹host-1›"]
    sent = encode(capsule).decode()
    assert "gn-08" not in sent and "aaaaBBBB" not in sent
    assert {item.pseudonym for item in capsule.masked} == {"host-1", "token-1"}


def test_a_path_is_masked_too() -> None:
    capsule = text_capsule("alice is logged in\n", PACK, name="/home/alice/runs/log_gn-08_0.txt")
    assert capsule.sources[0].path.startswith("/home/‹user-1›/")


def test_what_is_shown_is_what_is_sent(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(f"{ERROR}\n", encoding="utf-8")
    capsule = gather_capsule([tmp_path], PACK)
    assert json.loads(shown(encode(capsule))) == json.loads(encode(capsule))
    assert encode(capsule) == encode(gather_capsule([tmp_path], PACK))


def test_what_is_no_text_stays_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(f"{ERROR}\n", encoding="utf-8")
    (tmp_path / "dump").write_bytes(b"\x80\x02}q\x00.")
    capsule = gather_capsule([tmp_path], PACK)
    assert [Path(source.path).name for source in capsule.sources] == ["run.log"]
    assert any("dump" in note and "stays on this machine" in note for note in capsule.notes)
    with pytest.raises(UnreadableInputError):
        gather_capsule([tmp_path / "dump"], PACK)


def test_the_exported_schema_is_current_and_describes_a_capsule(tmp_path: Path) -> None:
    text = json.dumps(schema(Capsule), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        EXPORTED.write_text(text, encoding="utf-8")
    assert EXPORTED.read_text(encoding="utf-8") == text, "run with UPDATE_GOLDEN=1; a breaking change needs a new version"
    (tmp_path / "run.log").write_text(f"{ERROR}\n", encoding="utf-8")
    made = json.loads(encode(gather_capsule([tmp_path], PACK)))
    jsonschema.Draft202012Validator(json.loads(text)).validate(made)
