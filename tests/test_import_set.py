"""The modules that the command line imports: the cold start is kept by what is not there, not by a stop-watch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.knowledge.pack import load_pack

SOURCES = Path(__file__).resolve().parents[1] / "src"
NEVER = {
    *("torch", "numpy", "asyncio", "pydantic", "sqlalchemy", "importlib.metadata", "http.server", "http.client", "ssl"),
    *("rich.console", "rich.markdown", "pygments", "unittest", "concurrent.futures", "multiprocessing"),
}
NOT_FOR_A_PASTE = {
    *("click", "rich", "yaml", "tomllib", "gettext", "difflib", "json", "gzip", "calendar", "statistics", "signal"),
    *("string", "html", "backports", "hyperscan", "firstfault.cli.group", "firstfault.cli.diagnose"),
    *("firstfault.ingest.elastic", "firstfault.ingest.kubernetes", "firstfault.ingest.scheduler", "firstfault.ingest.vitals"),
    *("firstfault.render.html", "firstfault.render.markdown"),
    # Rooms of sources that are not there, and the compilers of what an installation has compiled.
    *("firstfault.ingest.kernel", "firstfault.ingest.hardware", "firstfault.ingest.stacks", "firstfault.ingest.ras"),
    *("firstfault.ingest.script", "firstfault.ingest.flight_recorder", "firstfault.ingest.memory_snapshot"),
    *("firstfault.engine.derive.hangs", "firstfault.engine.derive.kernel_log", "firstfault.engine.derive.skips"),
    *("firstfault.engine.derive.stacks"),
    *("firstfault.knowledge.pattern", "firstfault.knowledge.problems", "firstfault.knowledge.toml_table"),
}
NOT_WITHOUT_SETTINGS = {
    *("firstfault.launch.accelerate", "firstfault.launch.machine", "firstfault.launch.processes", "firstfault.model.plan"),
}
PASTE = """\
Traceback (most recent call last):
  File "/home/user/project/train.py", line 88, in main
    optimizer.step()
  File "/opt/venv/lib/python3.11/site-packages/torch/optim/adam.py", line 178, in _init_group
    state["exp_avg"] = torch.zeros_like(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a total capacity of 23.69 GiB of which \
512.00 MiB is free.
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """The pack of the source tree, compiled once: its compiler reads TOML and YAML."""
    load_pack()


def _imported(*arguments: str, stdin: str = "") -> set[str]:
    """The modules that a whole run imports beyond those of a bare interpreter."""
    script = (
        "import sys\nbefore = set(sys.modules)\nfrom firstfault.cli.main import run\n"
        f"code = run({list(arguments)!r})\nsys.stdout.flush()\n"
        "print('\\n'.join(sorted(set(sys.modules) - before)), file=sys.stderr)\nsys.exit(0 if code in (0, 1, 3) else code)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, "-c", script], input=stdin, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_the_version_imports_next_to_nothing() -> None:
    names = _imported("--version")
    assert {name for name in names if name.startswith("firstfault")} <= {
        "firstfault",
        "firstfault.cli",
        "firstfault.cli.main",
        "firstfault.version",
    }
    assert not names & {"click", "msgspec", "rich", "yaml"}


def test_help_imports_no_command() -> None:
    names = _imported("--help")
    assert not names & NEVER
    assert not {name for name in names if name.startswith(("firstfault.engine", "firstfault.ingest", "firstfault.knowledge"))}


def test_a_paste_imports_nothing_heavy() -> None:
    names = _imported("-", stdin=PASTE * 8)
    assert "firstfault.render.terminal" in names
    assert not names & (NEVER | NOT_FOR_A_PASTE | NOT_WITHOUT_SETTINGS)


@pytest.mark.parametrize(("more", "parsed"), [("fsdp_config: {}\n", False), ("gpu_ids: [0, 1]\n", True)])
def test_yaml_is_parsed_where_lines_of_keys_are_not_all(more: str, parsed: bool) -> None:
    config = f"compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n{more}"
    names = _imported("-", stdin=f"My config:\n\n```yaml\n{config}```\n\nand it says:\n\n```\n{PASTE}```\n")
    assert "firstfault.ingest.configs" in names
    assert ("yaml" in names) is parsed
    assert not names & (NEVER | NOT_FOR_A_PASTE - {"yaml"})


def test_options_are_parsed_by_click() -> None:
    names = _imported("--color", "never", "-", stdin=PASTE)
    assert "click" in names
    assert not names & NEVER


def test_no_format_imports_more_than_it_needs() -> None:
    names = _imported("--format", "json", "-", stdin=PASTE)
    assert not names & NEVER
    assert not {name for name in names if name.startswith("firstfault.render.")} - {
        "firstfault.render.json",
        "firstfault.render.safe",
        "firstfault.render.words",
    }


def test_a_plan_without_a_finding_words_none() -> None:
    names = _imported("plan", "--gpus", "2", "--", "accelerate", "launch", "--multi_gpu", "--num_processes", "2", "train.py")
    assert not names & (NEVER | {"accelerate", "rich", "subprocess", "tomllib", "firstfault.render.terminal"})
    assert not names & {"firstfault.engine.prescribe", "firstfault.engine.edit", "firstfault.knowledge.template"}
    assert not {name for name in names if name.startswith("firstfault.scan")}
