"""What is shipped to run the console names options and settings that exist."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import click

from firstfault.cli.group import firstfault
from firstfault.server.settings import PREFIX, Settings

DEPLOY = Path(__file__).parents[2] / "deploy"


def serve_options() -> set[str]:
    command = firstfault.get_command(click.Context(firstfault), "serve")
    assert command is not None
    return {name for parameter in command.params for name in parameter.opts}


def test_the_service_starts_the_console_with_options_that_exist() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]  # keys of systemd are case-sensitive
    unit.read(DEPLOY / "firstfault-console.service")
    words = unit["Service"]["ExecStart"].split()
    assert words[1] == "serve"
    assert {word for word in words if word.startswith("--")} <= serve_options()
    assert unit["Service"]["StateDirectory"] in unit["Service"]["WorkingDirectory"]


def test_the_container_sets_variables_that_are_settings() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    names = {name.removeprefix(PREFIX).lower() for name in re.findall(rf"{PREFIX}[A-Z_]+", text)}
    assert names == {"host", "database_url"} <= set(Settings.__struct_fields__)
    assert f"EXPOSE {Settings().port}" in text and "/healthz" in text
