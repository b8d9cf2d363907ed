"""The tables. Migrations bring a database here; a test holds the two against each other."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
"""Constraints have names, so that a migration can change them on every database."""
metadata = MetaData(naming_convention=NAMING)


class Words(TypeDecorator[str]):
    """Text of strangers as every database takes it: PostgreSQL has no NUL, and neither has halves of characters."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The text that is stored and compared."""
        if value is None or (value.isascii() and "\0" not in value):
            return value
        return value.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


class LongWords(Words):
    """The same without a length."""

    impl = Text
    cache_ok = True


ID = Words(64)
WHEN = DateTime(timezone=True)


def _owner() -> list[Column[str]]:
    return [Column("owner_kind", Words(16), nullable=False), Column("owner_id", ID, nullable=False)]


accounts = Table(
    "accounts",
    metadata,
    Column("id", ID, primary_key=True),
    Column("email", Words(320), nullable=False, unique=True),
    Column("password", Words(255), nullable=False),
    Column("tier", Words(32), nullable=False),
    Column("is_admin", Boolean, nullable=False, default=False),
    Column("disabled", Boolean, nullable=False, default=False),
    Column("created_at", WHEN, nullable=False),
)
sessions = Table(
    "sessions",
    metadata,
    Column("id", ID, primary_key=True),
    Column("account_id", ID, ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("digest", Words(64), nullable=False, unique=True),
    Column("created_at", WHEN, nullable=False),
    Column("last_used_at", WHEN, nullable=False),
    Column("expires_at", WHEN, nullable=False),
    Column("agent", Words(200), nullable=False, default=""),
)
teams = Table(
    "teams",
    metadata,
    Column("id", ID, primary_key=True),
    Column("name", Words(200), nullable=False),
    Column("created_at", WHEN, nullable=False),
)
memberships = Table(
    "memberships",
    metadata,
    Column("team_id", ID, ForeignKey("teams.id", ondelete="CASCADE"), primary_key=True),
    Column("account_id", ID, ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    Column("role", Words(16), nullable=False),
    Index("ix_memberships_account_id", "account_id"),
)
tokens = Table(
    "tokens",
    metadata,
    Column("id", ID, primary_key=True),
    *_owner(),
    Column("account_id", ID, ForeignKey("accounts.id", ondelete="CASCADE"), nullable=True, index=True),
    Column("name", Words(200), nullable=False),
    Column("prefix", Words(16), nullable=False),
    Column("digest", Words(64), nullable=False, unique=True),
    Column("scopes", JSON, nullable=False),
    Column("created_at", WHEN, nullable=False),
    Column("last_used_at", WHEN, nullable=True),
    Column("expires_at", WHEN, nullable=True),
)
invitations = Table(
    "invitations",
    metadata,
    Column("id", ID, primary_key=True),
    Column("digest", Words(64), nullable=False, unique=True),
    Column("email", Words(320), nullable=True),
    Column("team_id", ID, ForeignKey("teams.id", ondelete="CASCADE"), nullable=True),
    Column("invited_by", ID, ForeignKey("accounts.id", ondelete="SET NULL"), nullable=True),
    Column("expires_at", WHEN, nullable=False),
    Column("used", Boolean, nullable=False, default=False),
)
diagnoses = Table(
    "diagnoses",
    metadata,
    Column("id", ID, primary_key=True),
    *_owner(),
    Column("created_at", WHEN, nullable=False),
    Column("fingerprint", Words(32), nullable=False),
    Column("verdict", Words(16), nullable=False),
    Column("entry", Words(120), nullable=True),
    Column("title", LongWords, nullable=False),
    Column("rank", Integer, nullable=True),
    Column("project", Words(200), nullable=False, default=""),
    Column("visibility", Words(16), nullable=False),
    Column("follows", ID, nullable=True),
    Column("facts", JSON, nullable=False),
    Column("diagnosis", LargeBinary, nullable=False),
    Column("capsule", LargeBinary, nullable=False),
    Index("ix_diagnoses_owner", "owner_kind", "owner_id", "created_at"),
    Index("ix_diagnoses_created_at", "created_at"),
)
failures = Table(
    "failures",
    metadata,
    Column("owner_kind", Words(16), primary_key=True),
    Column("owner_id", ID, primary_key=True),
    Column("fingerprint", Words(32), primary_key=True),
    Column("entry", Words(120), nullable=True),
    Column("title", LongWords, nullable=False),
    Column("project", Words(200), nullable=False, default=""),
    Column("count", Integer, nullable=False),
    Column("first_seen_at", WHEN, nullable=False),
    Column("last_seen_at", WHEN, nullable=False),
    Column("state", Words(16), nullable=False),
    Column("last_id", ID, nullable=False),
    Column("fixed_at", WHEN, nullable=True),
)
allowances = Table(
    "allowances",
    metadata,
    Column("key", Words(120), primary_key=True),
    Column("day", Words(10), primary_key=True),
    Column("taken", Integer, nullable=False),
)
submissions = Table(
    "submissions",
    metadata,
    Column("owner_kind", Words(16), primary_key=True),
    Column("owner_id", ID, primary_key=True),
    Column("key", Words(200), primary_key=True),
    Column("digest", Words(64), nullable=False),
    Column("diagnosis_id", ID, nullable=False),
    Column("created_at", WHEN, nullable=False, index=True),
)
audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", WHEN, nullable=False, index=True),
    Column("actor", Words(200), nullable=False),
    Column("action", Words(80), nullable=False),
    Column("target", Words(200), nullable=False),
    Column("detail", LongWords, nullable=False, default=""),
)
secrets = Table(
    "secrets",
    metadata,
    Column("name", Words(40), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""Keys of this console: made when it first needs them, never shown."""
runs = Table(
    "runs",
    metadata,
    Column("id", ID, primary_key=True),
    *_owner(),
    Column("name", Words(200), nullable=False),
    Column("created_at", WHEN, nullable=False),
    Column("last_at", WHEN, nullable=False, index=True),
    Column("secret", LargeBinary, nullable=False),
    Column("diagnosis_id", ID, nullable=True),
    Column("records", BigInteger, nullable=False, default=0),
    UniqueConstraint("owner_kind", "owner_id", "name"),
)
streams = Table(
    "streams",
    metadata,
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Words(400), primary_key=True),
    Column("host", Words(200), nullable=True),
    Column("rank", Integer, nullable=True),
    Column("lines", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("kept", Integer, nullable=False),
    Column("last_text", LongWords, nullable=False),
    Column("last_at", WHEN, nullable=True),
)
stream_lines = Table(
    "stream_lines",
    metadata,
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("stream", Words(400), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("offset", BigInteger, nullable=False),
    Column("at", WHEN, nullable=True),
    Column("text", LongWords, nullable=False),
)
run_names = Table(
    "run_names",
    metadata,
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", LargeBinary(16), primary_key=True),
    Column("name", Words(40), nullable=False),
)
run_events = Table(
    "run_events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Words(16), nullable=False),
    Column("data", LongWords, nullable=False),
    Index("ix_run_events_run_id", "run_id", "id"),
)
