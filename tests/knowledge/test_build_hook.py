import importlib.util
import sys
from pathlib import Path

import pytest

from firstfault.errors import KnowledgeError
from firstfault.knowledge.pack import compile_pack, encode_pack
from knowledge.knowledge_samples import SIGNALS, write_tree

HOOK = Path(__file__).parents[2] / "hatch_build.py"


@pytest.fixture
def hook_class(monkeypatch):
    pytest.importorskip("hatchling")
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("hatch_build", HOOK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PackHook


def build(hook_class, root, *, target="wheel", version="standard"):
    hook = hook_class(str(root), {}, None, None, str(root / "dist"), target)
    data = {"force_include": {}}
    hook.initialize(version, data)
    return hook, data["force_include"]


def test_a_standard_wheel_carries_the_same_pack_that_development_reads(hook_class, tmp_path):
    root = write_tree(tmp_path / "tree")
    hook, included = build(hook_class, root)
    ((file, target),) = included.items()
    assert target == "firstfault/knowledge/pack.msgpack"
    assert Path(file).read_bytes() == encode_pack(compile_pack(root))
    hook.finalize("standard", {}, "x.whl")
    assert not Path(file).exists()


@pytest.mark.parametrize(("target", "version"), [("wheel", "editable"), ("sdist", "standard")])
def test_other_builds_read_the_sources(hook_class, tmp_path, target, version):
    _, included = build(hook_class, write_tree(tmp_path / "tree"), target=target, version=version)
    assert not included


def test_an_error_in_a_data_file_ends_the_build(hook_class, tmp_path):
    root = write_tree(tmp_path / "tree", signals=SIGNALS.replace("role", "rule"))
    with pytest.raises(KnowledgeError, match=r"signals/torch.toml"):
        build(hook_class, root)
