import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.errors import KnowledgeError
from firstfault.knowledge import pack as packing
from firstfault.knowledge.pack import body, compile_pack, decode_pack, encode_pack, load_pack
from firstfault.knowledge.redaction import redaction_rules
from knowledge.knowledge_samples import ENTRIES, EXPLAINS, FACTS, SIGNALS, entry_text, write_tree


def faults(root):
    with pytest.raises(KnowledgeError) as caught:
        compile_pack(root)
    return str(caught.value)


def test_a_tree_compiles_to_one_pack(tmp_path):
    pack = compile_pack(write_tree(tmp_path))
    assert sorted(pack.entries) == ["cuda-oom", "oom-forward", "oom-optimizer"]
    assert pack.facts["fault.class"].values == ("device_oom", "silent_end", "none")
    assert pack.signals[0].source == "signals/torch.toml:2"
    assert body(pack, "oom-forward").sections["Why it happens"] == "Memory is finite."


def test_bytes_hold_all_of_it_and_are_the_same_each_time(tmp_path):
    pack = compile_pack(write_tree(tmp_path))
    data = encode_pack(pack)
    read = decode_pack(data)
    assert (read.signals, read.facts, read.causal, read.entries) == (pack.signals, pack.facts, pack.causal, pack.entries)
    assert body(read, "oom-forward") == body(pack, "oom-forward")
    assert encode_pack(compile_pack(tmp_path)) == data == encode_pack(read)


def test_damaged_bytes_are_refused():
    with pytest.raises(KnowledgeError, match="damaged"):
        decode_pack(b"\x81\xa1x")


def test_errors_of_all_files_come_at_once(tmp_path):
    write_tree(
        tmp_path,
        facts=FACTS.replace('cost = "seconds"', 'cost = "cheap"', 1),
        explains=EXPLAINS.replace('"initiating"', '"first"'),
        signals=SIGNALS.replace('"initiating"', '"first"'),
        entries={"cuda-oom": ENTRIES["cuda-oom"].replace('"initiating"', '"first"')},
    )
    found = faults(tmp_path)
    assert found.startswith("4 errors")
    for file in (
        "encyclopedia/facts.toml:9",
        "encyclopedia/explains.toml:4",
        "signals/torch.toml:4",
        "encyclopedia/memory/cuda-oom.md:5",
    ):
        assert file in found


def test_ids_are_unique_and_the_tree_has_no_circle(tmp_path):
    write_tree(
        tmp_path,
        signals=SIGNALS + SIGNALS,
        entries={
            "cuda-oom": entry_text("cuda-oom", "script.retain_graph", refines="oom-forward"),
            "oom-forward": entry_text("oom-forward", "script.retain_graph", refines="cuda-oom"),
        },
    )
    (tmp_path / "encyclopedia" / "launch").mkdir()
    again = entry_text("cuda-oom", "script.retain_graph", refines="oom-forward").replace(
        'category = "memory"', 'category = "launch"'
    )
    (tmp_path / "encyclopedia" / "launch" / "cuda-oom.md").write_text(again, encoding="utf-8")
    found = faults(tmp_path)
    assert "signals/torch.toml:2: the signal id `torch.cuda.oom` is used twice" in found
    assert "signals/torch.toml:10: the signal id" in found
    assert "`cuda-oom` exists already in encyclopedia/launch/cuda-oom.md" in found
    assert "`refines` of `oom-forward` leads in a circle" in found


def test_a_missing_or_unreadable_file_is_named(tmp_path):
    write_tree(tmp_path)
    (tmp_path / "encyclopedia" / "facts.toml").unlink()
    (tmp_path / "signals" / "torch.toml").write_bytes(b"\xff\xfe")
    found = faults(tmp_path)
    assert "facts.toml: cannot be read" in found and "torch.toml: cannot be read" in found


def test_redaction_is_no_signal_file(tmp_path):
    write_tree(tmp_path)
    (tmp_path / "signals" / "redaction.toml").write_text(
        "[[rule]]\nid = 'a'\nkind = 'token'\nvalue = 'x{9}'\nexamples = ['«xxxxxxxxx»']\n", encoding="utf-8"
    )
    pack = compile_pack(tmp_path)
    assert len(pack.signals) == 1
    assert [rule.id for rule in redaction_rules(pack)] == ["a"]


class TestDevelopmentCache:
    @pytest.fixture
    def root(self, tmp_path, monkeypatch):
        monkeypatch.setattr(packing, "SOURCES", write_tree(tmp_path))
        monkeypatch.setattr(packing, "PACKED", tmp_path / "none.msgpack")
        load_pack.cache_clear()
        yield tmp_path
        load_pack.cache_clear()

    def reload(self):
        load_pack.cache_clear()
        return load_pack()

    def test_the_compiled_pack_is_kept_and_used_again(self, root, monkeypatch):
        first = load_pack()
        assert [path.suffix for path in (root / "build").iterdir()] == [".msgpack"]
        monkeypatch.setattr(packing, "compile_pack", lambda _root: pytest.fail("compiled again"))
        assert self.reload() == first

    def test_a_change_compiles_anew_and_leaves_one_file(self, root):
        load_pack()
        path = root / "encyclopedia" / "memory" / "oom-forward.md"
        path.write_text(path.read_text(encoding="utf-8").replace("Memory is finite.", "Memory is small."), encoding="utf-8")
        assert body(self.reload(), "oom-forward").sections["Why it happens"] == "Memory is small."
        assert len(list((root / "build").iterdir())) == 1

    def test_a_damaged_cache_is_replaced(self, root):
        first = load_pack()
        (cache,) = (root / "build").iterdir()
        cache.write_bytes(b"broken")
        assert self.reload() == first

    def test_a_tree_that_cannot_be_written_works(self, root):
        (root / "build").write_text("a file where the folder should be", encoding="utf-8")
        assert "cuda-oom" in load_pack().entries

    def test_without_pack_and_sources_the_advice_is_to_reinstall(self, root, monkeypatch):
        monkeypatch.setattr(packing, "SOURCES", root / "nowhere")
        with pytest.raises(KnowledgeError, match="reinstall firstfault"):
            load_pack()

    def test_an_installation_reads_its_packed_file(self, root, monkeypatch):
        packed = root / "pack.msgpack"
        packed.write_bytes(encode_pack(compile_pack(root)))
        monkeypatch.setattr(packing, "PACKED", packed)
        monkeypatch.setattr(packing, "SOURCES", root / "nowhere")
        assert "cuda-oom" in load_pack().entries


def test_decoding_needs_neither_toml_nor_the_readers(tmp_path):
    packed = tmp_path / "pack.msgpack"
    packed.write_bytes(encode_pack(compile_pack(write_tree(tmp_path / "tree"))))
    code = (
        "import sys; from pathlib import Path; from firstfault.knowledge.pack import decode_pack, body\n"
        "body(decode_pack(Path(sys.argv[1]).read_bytes()), 'cuda-oom')\n"
        "print([name for name in ('tomllib', 'yaml', 'firstfault.knowledge.entry', 'hashlib') if name in sys.modules])"
    )
    source = Path(packing.__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", code, str(packed)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(source)}
    )
    assert run.stdout.strip() == "[]", run.stderr
