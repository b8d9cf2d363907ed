"""The checks: `nox -s lint tests` locally, `launch` beside them in CI (`.ci/run`); `nox -s full` holds the slow rest."""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, import layers and the encyclopedia's own lint."""
    session.install("-e", ".[dev]")
    session.run("ruff", "format", "--check", "src", "tests", "bench", "noxfile.py", "hatch_build.py")
    session.run("ruff", "check", "src", "tests", "bench", "noxfile.py", "hatch_build.py")
    session.run("mypy")
    session.run("lint-imports")
    session.run("firstfault", "encyclopedia", "lint")


@nox.session
def tests(session: nox.Session) -> None:
    """Everything that is quick: the default of a contributor."""
    session.install("-e", ".[test]")
    session.run("pytest", "-m", "not full", *session.posargs)


@nox.session
def full(session: nox.Session) -> None:
    """All tests, with the slow ones: fresh virtual environments, a built wheel, the README's first block."""
    session.install("-e", ".[test]")
    session.install("build")
    session.run("pytest", *session.posargs)


@nox.session
def launch(session: nox.Session) -> None:
    """`plan` against the real torchrun and accelerate, with pretended GPUs; `forecast` against steps of the real torch."""
    session.install("-e", ".[test]")
    session.install("torch==2.13.0", "accelerate==1.15.0", "transformers==5.24.0")
    python = f"{session.virtualenv.bin}/python"
    traced = [f"tests/memory/test_{name}.py" for name in ("trace", "families")]
    session.run("pytest", "tests/launch", *traced, *session.posargs, env={"FIRSTFAULT_TORCH_PYTHON": python})


@nox.session
def console(session: nox.Session) -> None:
    """The console with everything it meets: SQLite, PostgreSQL, Chromium."""
    session.install("-e", ".[test,server]", "playwright>=1.45", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
    session.run("pytest", "tests/server", "tests/test_lazy_pattern.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Throughput and memory against the named yardsticks (figures decide nothing); then answers on damaged logs."""
    session.install("-e", ".")
    session.run("python", "bench/cold_start.py")
    session.run("python", "bench/plan_cost.py")
    session.run("python", "bench/scan.py", *session.posargs)
    session.run("python", "bench/robustness.py")
    session.run("python", "bench/attribution.py", "--renamed")
