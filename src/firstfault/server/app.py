"""The console as one ASGI application: its rooms, what they share, and how they start and stop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Request, Response, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from firstfault.knowledge.pack import load_pack
from firstfault.server import errors, ops
from firstfault.server.accounts.allowance import Rates
from firstfault.server.accounts.principal import address_key, principal_of, set_anonymous_cookie
from firstfault.server.api import diagnoses, rest
from firstfault.server.encyclopedia import Finder
from firstfault.server.errors import Problem
from firstfault.server.headers import add_security_headers
from firstfault.server.inject import GivenServices
from firstfault.server.keeper import Keeper
from firstfault.server.origin import refuse_other_sites
from firstfault.server.otlp import api as otlp
from firstfault.server.otlp.logs import Logs
from firstfault.server.records import Principal
from firstfault.server.services import Services
from firstfault.server.settings import Settings
from firstfault.server.store.store import open_store
from firstfault.server.web import pages
from firstfault.server.work import open_work
from firstfault.version import __version__

MAX_BODY_BYTES = 64 << 20
"""No request may be longer, whatever its tier; the API refuses earlier."""


def create_app(settings: Settings) -> Litestar:
    """The application below the path of `settings.base_url`; its store is opened when it starts and closed when it stops."""

    @asynccontextmanager
    async def running(app: Litestar) -> AsyncIterator[None]:
        pack = load_pack()
        store = open_store(settings.database_url)
        work = open_work(settings, pack)
        logs = Logs(pack, store, work)
        keeper = Keeper(store, settings)
        app.state.services = Services(
            settings=settings, pack=pack, store=store, work=work, logs=logs, finder=Finder(pack), rates=Rates()
        )
        try:
            yield
        finally:
            keeper.close()
            logs.close()
            work.close()
            store.close()

    api = Router(path="/api/v1", route_handlers=[*diagnoses.handlers, *rest.handlers])
    rooms = Router(path=settings.path or "/", route_handlers=[*ops.handlers, *otlp.handlers, api, *pages.handlers])
    return Litestar(
        route_handlers=[rooms],
        dependencies={
            "services": Provide(_services, sync_to_thread=False),
            "principal": Provide(_principal, sync_to_thread=False),
        },
        exception_handlers=errors.handlers(_page),
        before_request=refuse_other_sites,
        before_send=[set_anonymous_cookie, add_security_headers],
        lifespan=[running],
        # Python's own: warnings and errors go to standard error, nothing of a request is written.
        logging_config=None,
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=OpenAPIConfig(
            title="firstfault console",
            version=__version__,
            path=f"{settings.path}/openapi",
            render_plugins=[JsonRenderPlugin(path="/openapi.json")],
        ),
    )


def _services(state: State) -> Services:
    services: Services = state.services
    return services


def _principal(request: Request[Any, Any, Any], services: GivenServices) -> Principal:
    found = principal_of(request, services)
    if not services.settings.private:
        services.rates.take(found, address_key(request, services), services.settings)
    return found


def _page(request: Request[Any, Any, Any], problem: Problem) -> Response[Any]:
    return pages.problem_page(request, problem)
