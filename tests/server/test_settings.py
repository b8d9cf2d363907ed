"""Settings come from a file, the environment and the command line, in that order; a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.errors import UsageError
from firstfault.server.settings import load_settings


def test_nothing_needs_to_be_configured() -> None:
    settings = load_settings(environment={})
    assert settings.database_url == "sqlite:///firstfault.db"
    assert settings.tiers["anonymous"].diagnoses_a_day == 3
    assert settings.path == ""


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "console.toml"
    file.write_text('port = 1\nhost = "0.0.0.0"\nsign_up = "off"\n')
    settings = load_settings(file, environment={"FIRSTFAULT_PORT": "2", "FIRSTFAULT_HOST": "10.0.0.1"}, given={"port": 3})
    assert (settings.port, settings.host, settings.sign_up) == (3, "10.0.0.1", "off")


def test_tables_can_stand_in_the_environment() -> None:
    settings = load_settings(environment={"FIRSTFAULT_TIERS": "{anonymous = {diagnoses_a_day = 9}}"})
    assert settings.tiers["anonymous"].diagnoses_a_day == 9


@pytest.mark.parametrize("text", ["prot = 1\n", 'port = "many"\n', "port = \n"])
def test_a_wrong_setting_is_named_with_its_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "console.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        load_settings(file, environment={})
    assert str(file) in str(error.value.where)


def test_a_console_below_a_path_of_a_proxy() -> None:
    settings = load_settings(environment={"FIRSTFAULT_BASE_URL": "https://example.org/tools/firstfault/"})
    assert settings.path == "/tools/firstfault"
    assert settings.is_https
