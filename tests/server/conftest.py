"""The console's tests need its extra: without it they are not collected."""

from __future__ import annotations

from importlib.util import find_spec

needed = [
    name for name in ("litestar", "sqlalchemy", "alembic", "argon2", "jinja2", "prometheus_client") if find_spec(name) is None
]
collect_ignore_glob = ["*"] if needed else []
"""`nox -s console` installs the extra; `nox -s tests` does without."""
