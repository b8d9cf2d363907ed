from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Engine
from firstfault.errors import KnowledgeError, UnreadableInputError
from firstfault.version import __version__

Call = Callable[..., tuple[int, str, str]]


def test_version(call: Call) -> None:
    assert call("--version") == (0, f"firstfault {__version__}\n", "")
    assert call("--version", "--help")[0] == 0


def test_help_names_every_command_and_every_exit_code(call: Call) -> None:
    code, out, _ = call("--help")
    assert code == 0
    for word in ("diagnose", "explain", "demo", "encyclopedia", "3 undetermined", "70"):
        assert word in out
    assert call("-h")[1] == out


def test_no_words_is_help_and_a_usage_error(call: Call) -> None:
    code, _, err = call()
    assert code == 2
    assert "Usage: firstfault" in err


def test_the_help_of_commands_is_the_one_they_carry(call: Call) -> None:
    from firstfault.cli.commands import COMMANDS
    from firstfault.cli.group import firstfault

    context = firstfault.make_context("firstfault", ["--help"], resilient_parsing=True)
    for name, text in COMMANDS.items():
        command = firstfault.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.short_help == text


def test_a_usage_error_is_one_paragraph(call: Call) -> None:
    code, out, err = call("diagnose", "--format", "pdf", "x")
    assert (code, out) == (2, "")
    assert "'pdf' is not one of" in err
    assert "See `firstfault diagnose --help`." in err


def test_inputs_alone_are_answered_as_with_the_parser_of_options(engine: Engine, call: Call, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("text")
    plain = call(str(log), str(tmp_path))
    assert engine.inputs == [str(log), str(tmp_path)]
    assert plain == call("--color", "auto", str(log), str(tmp_path)) == call("diagnose", str(log), str(tmp_path))
    assert plain == call("--", str(log), str(tmp_path))


def test_an_own_error_says_where_what_and_what_to_do(engine: Engine, call: Call) -> None:
    engine.error = UnreadableInputError("is a folder without logs", where="runs/\x1b[2Jempty", hint="hand over a log")
    code, out, err = call("runs")
    assert (code, out) == (4, "")
    assert err == "runs/\\x1b[2Jempty: is a folder without logs\nhand over a log\n"


def test_a_fault_of_the_knowledge_is_an_own_fault(engine: Engine, call: Call) -> None:
    engine.error = KnowledgeError("two ids", where="signals/x.toml:3")
    assert call("run.log") == (70, "", "signals/x.toml:3: two ids\n")


def test_an_unexpected_error_asks_for_a_report(engine: Engine, call: Call) -> None:
    engine.error = ZeroDivisionError("oops")
    code, out, err = call("run.log")
    assert (code, out) == (70, "")
    assert f"firstfault {__version__} failed by itself: ZeroDivisionError: oops" in err
    assert "--traceback" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [("run.log", "--traceback"), ("--traceback", "run.log")])
def test_the_traceback_is_shown_on_request(engine: Engine, call: Call, arguments: tuple[str, ...]) -> None:
    engine.error = ZeroDivisionError("oops")
    assert "Traceback (most recent call last)" in call(*arguments)[2]
    assert engine.inputs == ["run.log"]


def test_the_traceback_is_shown_by_the_environment(engine: Engine, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.error = ZeroDivisionError("oops")
    monkeypatch.setenv("FIRSTFAULT_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in call("run.log")[2]
    monkeypatch.setenv("FIRSTFAULT_TRACEBACK", "0")
    assert "Traceback (most recent call last)" not in call("run.log")[2]


def test_an_interrupt_is_quiet(engine: Engine, call: Call) -> None:
    engine.error = KeyboardInterrupt()
    assert call("run.log") == (130, "", "")


@pytest.mark.parametrize(
    ("arguments", "inputs"),
    [
        (("run.log",), ["run.log"]),
        (("-",), ["-"]),
        (("--format", "json", "run.log"), ["run.log"]),
        (("--width", "80", "a.log", "b.log", "--ascii"), ["a.log", "b.log"]),
        (("diagnose", "explain"), ["explain"]),
        (("a.log", "explain"), ["a.log", "explain"]),
        (("diagnose", "--", "--traceback"), ["--traceback"]),
    ],
)
def test_words_that_are_no_command_are_inputs(
    engine: Engine, call: Call, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], inputs: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert call(*arguments)[0] == 1
    assert engine.inputs == inputs


def test_a_closed_pipe_is_quiet() -> None:
    script = "import sys; from firstfault.cli.main import run; sys.exit(run(['--help']))"
    process = subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep(0.3); {script}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert errors == b""


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "firstfault", "--version"], capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout.decode() == f"firstfault {__version__}\n"


def _shell(command: str) -> tuple[int, str]:
    """The exit code and standard error of a shell line; `$FF` is the command."""
    line = command.replace("$FF", f"{sys.executable} -m firstfault")
    done = subprocess.run(["/bin/bash", "-c", line], stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("$FF - <&-", 4),
        ("$FF --help >&-", 0),
        ("$FF --version >&-", 0),
        ("$FF nosuch 2>&-", 4),
        ("$FF --version | true; exit ${PIPESTATUS[0]}", 141),
    ],
)
def test_closed_streams_are_no_fault(line: str, code: int) -> None:
    found, err = _shell(line)
    assert (found if found != 0 else code) == code
    assert "Traceback" not in err
    assert "failed by itself" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize("line", ["$FF --version >/dev/full", "$FF explain --list >/dev/full"])
def test_a_full_disk_is_said(line: str) -> None:
    assert _shell(line) == (2, "standard output: cannot be written: No space left on device\n")


def test_names_that_are_too_long_or_empty_are_unreadable() -> None:
    from firstfault.cli.main import run

    assert run(["a" * 5000]) == 4
    assert run([""]) == 4


def test_a_size_of_hundreds_of_digits_is_no_size(tmp_path: Path) -> None:
    from firstfault.cli.main import run

    (tmp_path / "run.log").write_text("hello\n")
    assert run([str(tmp_path / "run.log"), "--fact", f"oom.request_bytes={'9' * 500}GiB"]) == 2
