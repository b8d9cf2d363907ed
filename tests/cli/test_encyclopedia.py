from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import small_pack
from firstfault.cli.group import all_options
from firstfault.knowledge import lint as lint_module
from firstfault.knowledge import pack as pack_module
from firstfault.knowledge.lint_issue import LintIssue

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree whose pack is the small one."""
    for name in ("encyclopedia/memory", "signals", "below/deep"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "below" / "deep")
    monkeypatch.setattr(pack_module, "compile_pack", lambda root: small_pack())
    return tmp_path


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 0)])
def test_lint_prints_every_issue(tree: Path, call: Call, monkeypatch: pytest.MonkeyPatch, severity: str, code: int) -> None:
    seen: list[frozenset[str]] = []

    def lint(pack: object, options: frozenset[str]) -> list[LintIssue]:
        seen.append(options)
        return [LintIssue("encyclopedia/memory/a.md:3", "unknown fact", severity)]  # type: ignore[arg-type]

    monkeypatch.setattr(lint_module, "lint", lint)
    got, out, _ = call("encyclopedia", "lint")
    assert got == code
    assert out.startswith(f"encyclopedia/memory/a.md:3: {severity}: unknown fact\n5 entries, ")
    assert seen == [all_options()]


def test_all_options_are_known_to_the_lint() -> None:
    assert {"--fact", "--answer", "--patch", "--format", "--keep", "--list", "--refines", "--traceback"} <= all_options()


def test_new_writes_a_skeleton(tree: Path, call: Call) -> None:
    code, out, _ = call("encyclopedia", "new", "a-new-cause", "--title", "What is wrong", "--category", "memory")
    path = tree / "encyclopedia" / "memory" / "a-new-cause.md"
    assert code == 0
    assert out.startswith(f"{path}\n")
    assert 'id       = "a-new-cause"' in path.read_text()


def test_build_writes_the_pack(tree: Path, call: Call, tmp_path: Path) -> None:
    code, out, _ = call("encyclopedia", "build", "--output", str(tmp_path / "pack.msgpack"), "--root", str(tree))
    assert code == 0
    assert "5 entries" in out
    assert pack_module.decode_pack((tmp_path / "pack.msgpack").read_bytes()) == small_pack()


def test_outside_a_source_tree(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = call("encyclopedia", "lint")
    assert code == 2
    assert "no encyclopedia here" in err
