"""What every handler may use: one object, made when the console starts and closed when it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.knowledge.schema import Pack
from firstfault.server.settings import Settings

if TYPE_CHECKING:
    from firstfault.server.accounts.allowance import Rates
    from firstfault.server.encyclopedia import Finder
    from firstfault.server.otlp.logs import Logs
    from firstfault.server.store.store import Store
    from firstfault.server.work import Work


class Services:
    """The configuration, the knowledge, the store, the engine's workers, the intake of log records, limits."""

    # No msgspec type: Litestar would look into its fields, and some of them are only known to the type checker.

    def __init__(
        self, *, settings: Settings, pack: Pack, store: Store, work: Work, logs: Logs, finder: Finder, rates: Rates
    ) -> None:
        self.settings = settings
        self.pack = pack
        self.store = store
        self.work = work
        self.logs = logs
        self.finder = finder
        self.rates = rates

    def url(self, path: str) -> str:
        """The path of a page as a browser must ask for it: behind a proxy a console may live below one."""
        return f"{self.settings.path}{path}"
