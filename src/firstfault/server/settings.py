"""How one console is run: read from a TOML file and `FIRSTFAULT_*` variables, nothing of it needed for a private one."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from firstfault.errors import UsageError

PREFIX = "FIRSTFAULT_"
SignUp = Literal["open", "invitation", "off"]


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """What a group of accounts may do a day; None is without limit."""

    diagnoses_a_day: int | None = None
    submission_bytes: int = 16 << 20
    requests_a_minute: int = 120


def _tiers() -> dict[str, Tier]:
    return {
        "anonymous": Tier(diagnoses_a_day=3, submission_bytes=8 << 20, requests_a_minute=30),
        "new": Tier(diagnoses_a_day=20),
        "trusted": Tier(diagnoses_a_day=200, submission_bytes=32 << 20, requests_a_minute=600),
    }


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a console. `private`: no allowances and no rate limits (a server of one person or team).

    `database_url` is a SQLAlchemy URL (`sqlite:///firstfault.db`, `postgresql+psycopg://...`); `base_url` is what people
    type, with the path behind which a proxy serves it; `trusted_proxies` may name the client in `X-Forwarded-For`.
    """

    database_url: str = "sqlite:///firstfault.db"
    host: str = "127.0.0.1"
    port: int = 8765
    base_url: str = ""
    sign_up: SignUp = "open"
    anonymous: bool = True
    private: bool = False
    tiers: dict[str, Tier] = msgspec.field(default_factory=_tiers)
    new_accounts_are: str = "new"
    retention_days: int | None = 90
    anonymous_retention_days: int = 30
    stream_retention_days: int = 14
    session_days: int = 30
    diagnosis_seconds: float = 60.0
    workers: int = 2
    trusted_proxies: tuple[str, ...] = ()
    operator: str = ""
    """Who runs this console and how to reach them, shown on the data handling page."""

    @property
    def path(self) -> str:
        """The path of `base_url` without a slash at the end: empty at the root of a host."""
        return urlsplit(self.base_url).path.rstrip("/")

    @property
    def is_https(self) -> bool:
        """True if people reach the console by https: cookies are then marked secure."""
        return self.base_url.startswith("https://")


def load_settings(
    file: Path | None = None, *, environment: Mapping[str, str] | None = None, given: Mapping[str, object] | None = None
) -> Settings:
    """Settings of a TOML file, over them `FIRSTFAULT_*` variables, over them what was `given`. UsageError names the key."""
    values: dict[str, object] = {}
    if file is not None:
        try:
            values.update(tomllib.loads(file.read_text("utf-8")))
        except OSError as error:
            raise UsageError(f"cannot be read: {error.strerror}", where=str(file)) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"is not TOML: {error}", where=str(file)) from error
    values.update(_of_environment(os.environ if environment is None else environment))
    values.update({key: value for key, value in (given or {}).items() if value is not None})
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"setting: {error}", where=str(file) if file else "settings") from error


def _of_environment(environment: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in Settings.__struct_fields__:
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            found[name] = tomllib.loads(f"value = {text}")["value"] if text[:1] in "[{" else text
    return found
