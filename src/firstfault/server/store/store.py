"""The store of a console: its parts by what they keep."""

from __future__ import annotations

from sqlalchemy import Engine, text

from firstfault.server.store.access import Access
from firstfault.server.store.accounts import Accounts, Teams
from firstfault.server.store.allowances import Allowances
from firstfault.server.store.audit import Audit
from firstfault.server.store.connect import connect
from firstfault.server.store.credentials import Invitations, Sessions, Tokens
from firstfault.server.store.diagnoses import Diagnoses
from firstfault.server.store.failures import Failures
from firstfault.server.store.keys import Keys
from firstfault.server.store.migrate import upgrade
from firstfault.server.store.retention import Retention
from firstfault.server.store.streams import Streams
from firstfault.server.store.submissions import Submissions


class Store:
    """Everything a console keeps. Safe for threads; each call is one transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.access = access = Access(engine)
        self.accounts = Accounts(access)
        self.teams = Teams(access)
        self.sessions = Sessions(access)
        self.tokens = Tokens(access)
        self.invitations = Invitations(access)
        self.diagnoses = Diagnoses(access)
        self.failures = Failures(access)
        self.allowances = Allowances(access)
        self.submissions = Submissions(access)
        self.streams = Streams(access)
        self.audit = Audit(access)
        self.keys = Keys(access)
        self.retention = Retention(access)

    def ping(self) -> None:
        """Raises what the driver raises if the database does not answer."""
        with self.access.read() as connection:
            connection.execute(text("SELECT 1"))

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()


def open_store(url: str) -> Store:
    """The store at a database URL, brought to the newest schema first. UsageError for a URL that cannot be used."""
    engine = connect(url)
    upgrade(engine)
    return Store(engine)
