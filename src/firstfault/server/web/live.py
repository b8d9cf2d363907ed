"""`/live`: runs whose log records come in; what was found in them, told as it is found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import get, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath, FromQuery, HeaderParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from firstfault.server.accounts.principal import requires
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.records import Principal, Run, RunEvent, StreamState
from firstfault.server.services import Services
from firstfault.server.web.frame import Page, go, page

LOOK_EVERY_S = 1.0
KEPT_ALIVE_S = 15.0
"""An idle connection says something so often, or proxies close it."""
LONGEST_S = 3_600.0
"""Then the browser connects again, and goes on where it stopped."""
SILENT_AFTER_S = 60
SHOWN_STREAMS = 200
LastSeen = Annotated[str | None, HeaderParameter(name="Last-Event-ID")]


class Pulse(msgspec.Struct, frozen=True):
    """What changes on a page while its run goes on: counts, and the last lines of its first streams."""

    records: int
    last_at: datetime
    count: int
    streams: list[StreamView]


class StreamView(msgspec.Struct, frozen=True):
    """A stream as the page shows it."""

    name: str
    rank: int | None
    host: str | None
    lines: int
    last_text: str
    last_at: datetime | None


@get("/live", include_in_schema=False, sync_to_thread=True)
def index(services: GivenServices, principal: GivenPrincipal) -> Page:
    """The runs that send log records, the last heard of first; and how to make one send them."""
    requires("read", principal)
    runs = [(run, services.store.streams.finding(run.id)) for run in services.store.streams.runs(principal)]
    base = services.settings.base_url.rstrip("/") or f"http://{services.settings.host}:{services.settings.port}"
    return page("live.html", services, principal, runs=runs, endpoint=f"{base}/v1/logs", now=datetime.now(UTC))


@get("/live/{run_id:str}", include_in_schema=False, sync_to_thread=True)
def show(run_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> Page:
    """One run: its streams, their last lines, and what was found."""
    run = _found(run_id, principal, services)
    events = services.store.streams.events(run.id, 0)
    pulse = _pulse(run, services)
    findings = [msgspec.json.decode(event.data) for event in events if event.kind == "finding"]
    return page(
        "run.html",
        services,
        principal,
        run=run,
        pulse=pulse,
        findings=findings[::-1],
        last_event=events[-1].id if events else 0,
        silent_s=(datetime.now(UTC) - run.last_at).total_seconds(),
        silent_after_s=SILENT_AFTER_S,
    )


@get("/live/{run_id:str}/events", include_in_schema=False)
async def events(
    run_id: FromPath[str],
    services: GivenServices,
    principal: GivenPrincipal,
    last_seen: LastSeen = None,
    after: FromQuery[int] = 0,
) -> ServerSentEvent:
    """Findings after the event that was seen last, and the pulse of the run, as long as the page is open."""
    run = await asyncio.to_thread(_found, run_id, principal, services)
    seen = int(last_seen) if last_seen is not None and last_seen.isascii() and last_seen.isdigit() else after
    return ServerSentEvent(_told(run, seen, principal, services))


@post("/live/{run_id:str}/delete", include_in_schema=False, sync_to_thread=True)
def delete(run_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> Page:
    """Forget the run and what was kept of it; answers that were made stay in the history."""
    requires("manage", principal)
    if not services.store.streams.delete(run_id, principal):
        raise NotFoundException("there is no such run, or it is not yours")
    return go(services, "/live")


async def _told(run: Run, seen: int, principal: Principal, services: Services) -> AsyncIterator[ServerSentEventMessage]:
    records, until, spoke = -1, time.monotonic() + LONGEST_S, time.monotonic()
    while time.monotonic() < until:
        now, found = await asyncio.to_thread(_news, run.id, seen, principal, services)
        if now is None:
            yield ServerSentEventMessage(event="gone", data="{}")
            return
        for event in found:
            seen = event.id
            yield ServerSentEventMessage(event=event.kind, id=str(event.id), data=event.data)
        if now.records != records:
            records = now.records
            pulse = await asyncio.to_thread(_pulse, now, services)
            yield ServerSentEventMessage(event="pulse", data=msgspec.json.encode(pulse).decode())
            spoke = time.monotonic()
        elif time.monotonic() - spoke > KEPT_ALIVE_S:
            yield ServerSentEventMessage(comment="still here")
            spoke = time.monotonic()
        await asyncio.sleep(LOOK_EVERY_S)


def _news(run_id: str, seen: int, principal: Principal, services: Services) -> tuple[Run | None, list[RunEvent]]:
    return services.store.streams.run(run_id, principal), list(services.store.streams.events(run_id, seen))


def _found(run_id: str, principal: Principal, services: Services) -> Run:
    requires("read", principal)
    run = services.store.streams.run(run_id, principal)
    if run is None:
        raise NotFoundException("there is no such run, or it is not yours")
    return run


def _pulse(run: Run, services: Services) -> Pulse:
    states = sorted(services.store.streams.states(run.id), key=_order)
    return Pulse(run.records, run.last_at, len(states), [_view(state) for state in states[:SHOWN_STREAMS]])


def _order(state: StreamState) -> tuple[bool, int, str]:
    return state.rank is None, state.rank or 0, state.name


def _view(state: StreamState) -> StreamView:
    shown: dict[str, Any] = {name: getattr(state, name) for name in StreamView.__struct_fields__}
    return StreamView(**shown)


handlers = [index, show, events, delete]
