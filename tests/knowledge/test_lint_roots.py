from __future__ import annotations

from pathlib import Path

from firstfault.knowledge.lint_roots import lint_roots
from firstfault.knowledge.pack import compile_pack
from knowledge.knowledge_samples import ENTRIES, EXPLAINS, write_tree


def test_class_without_a_root_is_named(tmp_path):
    lonely = EXPLAINS + '\n[[class]]\nid = "lonely"\nprior = "initiating"\nweight = 1\ntext = "x"\n'
    found = [issue.message for issue in lint_roots(compile_pack(write_tree(tmp_path, explains=lonely)))]
    assert "the class `lonely` opens no root of the tree" in found
    asked = {
        **ENTRIES,
        "cuda-oom": ENTRIES["cuda-oom"].replace('["device_oom", "silent_end"]', '["device_oom", "silent_end", "lonely"]'),
    }
    assert asked != ENTRIES
    found = [issue.message for issue in lint_roots(compile_pack(write_tree(tmp_path / "2", explains=lonely, entries=asked)))]
    assert not any("lonely" in message for message in found)


def test_every_class_of_the_encyclopedia_opens_a_root():
    assert list(lint_roots(compile_pack(Path(__file__).parents[2]))) == []
