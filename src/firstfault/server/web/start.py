"""`/`: hand over what there is of a run."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, get, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from firstfault.server.accounts.allowance import left, tier_of
from firstfault.server.accounts.principal import address_key
from firstfault.server.api.body import read_body
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.submit import Submission, submit
from firstfault.server.web.frame import Page, go, page
from firstfault.server.web.samples import sample_files, sample_titles
from firstfault.server.web.scan_pack import served_pack

_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@get("/", include_in_schema=False, sync_to_thread=True)
def start(request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal) -> Page:
    """The start page, with what is left for today."""
    tier = tier_of(principal, services.settings)
    remaining = left(principal, address_key(request, services), services)
    name = served_pack(services.pack).name
    return page("start.html", services, principal, left=remaining, tier=tier, pack_name=name, samples=sample_titles())


@post("/", include_in_schema=False, request_max_body_size=None)
async def hand_over(request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal) -> Page:
    """The form without script: small text and files are masked on arrival."""
    capsule = await read_body(request, services.work, tier_of(principal, services.settings).submission_bytes)
    return await _answered(capsule, request, services, principal)


@get("/scan/{name:str}", include_in_schema=False, sync_to_thread=True)
def signals(name: FromPath[str], services: GivenServices) -> Response[bytes]:
    """What the browser scans and masks with."""
    made = served_pack(services.pack)
    if name != made.name:
        raise NotFoundException("the console has other signals by now: load the page again")
    return Response(made.data, media_type="application/json", headers=_FOR_EVER)


@get("/samples/{name:str}", include_in_schema=False, sync_to_thread=True)
def sample(name: FromPath[str]) -> dict[str, list[tuple[str, str]]]:
    """The files of a sample, to be scanned in the browser."""
    return {"files": [(path, data.decode("utf-8", "replace")) for path, data in sample_files(name)]}


@post("/samples/{name:str}", include_in_schema=False)
async def try_sample(
    name: FromPath[str], request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal
) -> Page:
    """A sample without script: its answer."""
    capsule = await asyncio.to_thread(lambda: services.work.gather(sample_files(name)))
    return await _answered(capsule, request, services, principal)


async def _answered(
    capsule: bytes, request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal
) -> Page:
    def run() -> Page:
        made = submit(Submission(capsule=capsule), principal, address_key(request, services), services)
        return go(services, f"/d/{made.id}")

    return await asyncio.to_thread(run)


handlers = [start, hand_over, signals, sample, try_sample]
