"""The console as one ASGI application: its rooms, what they share, and how they start and stop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import ControllerRouterHandler

from firstfault.knowledge.pack import load_pack
from firstfault.server import ops
from firstfault.server.otlp import api as otlp
from firstfault.server.otlp.logs import Logs
from firstfault.server.services import Services
from firstfault.server.settings import Settings
from firstfault.server.store.store import open_store
from firstfault.server.work import open_work


def create_app(settings: Settings) -> Litestar:
    """The application below the path of `settings.base_url`; its store is opened when it starts and closed when it stops."""

    @asynccontextmanager
    async def running(app: Litestar) -> AsyncIterator[None]:
        pack = load_pack()
        store = open_store(settings.database_url)
        work = open_work(settings, pack)
        logs = Logs(pack, store, work)
        app.state.services = Services(settings=settings, pack=pack, store=store, work=work, logs=logs)
        try:
            yield
        finally:
            logs.close()
            work.close()
            store.close()

    rooms: list[ControllerRouterHandler] = [*ops.handlers, *otlp.handlers]
    return Litestar(
        route_handlers=[Router(path=settings.path or "/", route_handlers=rooms)],
        dependencies={"services": Provide(_services, sync_to_thread=False)},
        lifespan=[running],
    )


def _services(state: State) -> Services:
    services: Services = state.services
    return services
