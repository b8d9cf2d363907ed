"""What every handler may use: one object, made when the console starts and closed when it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.knowledge.schema import Pack
from firstfault.server.settings import Settings

if TYPE_CHECKING:
    from firstfault.server.otlp.logs import Logs
    from firstfault.server.store.store import Store
    from firstfault.server.work import Work


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration, the knowledge, the store, the engine's workers and the intake of log records."""

    settings: Settings
    pack: Pack
    store: Store
    work: Work
    logs: Logs

    def url(self, path: str) -> str:
        """The path of a page as a browser must ask for it: behind a proxy a console may live below one."""
        return f"{self.settings.path}{path}"
