from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.ingest.capsule import CONTEXT_LINES, Capsule, encode, make_capsule, shown
from firstfault.knowledge.pack import load_pack
from firstfault.render.json import schema

EXPORTED = Path(__file__).parents[2] / "docs" / "json-schema" / "firstfault.capsule-1.json"
ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity of 23.69 GiB"


def capsule_of(folder: Path) -> Capsule:
    pack = load_pack()
    bundle = gather([folder], pack)
    return make_capsule(bundle, investigate(bundle, pack), pack)


def test_a_long_log_gives_its_evidence_with_context_and_a_small_file_all(tmp_path):
    lines = [f"step {number} loss 1.0 on gn-08 HOSTNAME=gn-08" for number in range(1, 1001)]
    (tmp_path / "run.log").write_text("\n".join([*lines, f"[rank2]: {ERROR}"]) + "\n", encoding="utf-8")
    (tmp_path / "command.txt").write_text("HF_TOKEN=aaaaBBBB1111 accelerate launch train.py\n", encoding="utf-8")
    capsule = capsule_of(tmp_path)
    by_name = {Path(source.path).name: source for source in capsule.sources}
    assert [line.text for line in by_name["command.txt"].lines] == ["HF_TOKEN=‹token-1› accelerate launch train.py"]
    log = by_name["run.log"].lines
    assert CONTEXT_LINES < len(log) < 100
    assert any(line.evidence and ERROR in line.text and line.number == 1001 for line in log)
    sent = encode(capsule).decode()
    assert "gn-08" not in sent and "aaaaBBBB" not in sent
    assert {item.pseudonym for item in capsule.masked} == {"host-1", "token-1"}


def test_what_is_shown_is_what_is_sent(tmp_path):
    (tmp_path / "run.log").write_text(f"{ERROR}\n", encoding="utf-8")
    capsule = capsule_of(tmp_path)
    assert json.loads(shown(encode(capsule))) == json.loads(encode(capsule))
    assert encode(capsule) == encode(capsule_of(tmp_path))


def test_the_exported_schema_is_current_and_describes_a_capsule(tmp_path):
    text = json.dumps(schema(Capsule), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        EXPORTED.write_text(text, encoding="utf-8")
    assert EXPORTED.read_text(encoding="utf-8") == text, "run with UPDATE_GOLDEN=1; a breaking change needs a new version"
    (tmp_path / "run.log").write_text(f"{ERROR}\n", encoding="utf-8")
    jsonschema.Draft202012Validator(json.loads(text)).validate(json.loads(encode(capsule_of(tmp_path))))
