"""`/e`: the encyclopedia by family, by a pasted message, and entry by entry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from litestar import Response, get, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath, FromQuery

from firstfault.knowledge.pack import body
from firstfault.knowledge.schema import Entry, Pack
from firstfault.render.entry import entry_markdown
from firstfault.server.encyclopedia import MAX_QUERY_CHARS
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.records import Principal
from firstfault.server.services import Services
from firstfault.server.web.entry_view import view
from firstfault.server.web.frame import Form, Page, field, go, page

MAX_FOUND = 20


@get("/e", include_in_schema=False, sync_to_thread=True)
def index(services: GivenServices, principal: GivenPrincipal, q: FromQuery[str] = "") -> Page:
    """All entries as trees, one for each family; with `q`, those that fit it."""
    return _found(q, services, principal)


@post("/e", include_in_schema=False, status_code=200, sync_to_thread=True)
def search(data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """The entries for a pasted message: it may be longer than an address can be."""
    return _found(field(data, "query"), services, principal)


@get("/e/{category:str}/{entry_id:str}", include_in_schema=False, sync_to_thread=True)
def show(category: FromPath[str], entry_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> Page:
    """What is known of one cause."""
    entry = _entry(entry_id, services.pack)
    if entry.category != category:
        return go(services, f"/e/{entry.category}/{entry.id}")
    shown = view(entry, services.pack, lambda one: services.url(f"/e/{one.category}/{one.id}"))
    return page("entry.html", services, principal, here=f"/e/{entry.category}/{entry.id}", **shown._asdict())


@get("/e/{category:str}/{entry_id:str}/entry.md", include_in_schema=False, sync_to_thread=True)
def markdown(category: FromPath[str], entry_id: FromPath[str], services: GivenServices) -> Response[str]:
    """The entry as Markdown, for a chat or an issue."""
    entry = _entry(entry_id, services.pack)
    return Response(entry_markdown(entry, body(services.pack, entry.id)), media_type="text/markdown")


def _entry(entry_id: str, pack: Pack) -> Entry:
    if entry_id not in pack.entries:
        raise NotFoundException("The encyclopedia has no such entry.")
    return pack.entries[entry_id]


def _found(query: str, services: Services, principal: Principal) -> Page:
    families, below = _trees(services.pack)
    return page(
        "encyclopedia.html",
        services,
        principal,
        query=query[:MAX_QUERY_CHARS],
        most=MAX_QUERY_CHARS,
        found=services.finder.search(query)[:MAX_FOUND] if query else [],
        count=len(services.pack.entries),
        families=families,
        below=below,
    )


def _trees(pack: Pack) -> tuple[Mapping[str, Sequence[Entry]], Mapping[str, Sequence[Entry]]]:
    """The entries on top of each family, and what stands below an entry; one of another family stands on top of its own."""
    families: dict[str, list[Entry]] = defaultdict(list)
    below: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(pack.entries.values(), key=lambda item: (item.category, item.title.casefold())):
        above = pack.entries.get(entry.refines or "")
        if above is not None and above.category == entry.category:
            below[above.id].append(entry)
        else:
            families[entry.category].append(entry)
    return families, below


handlers = [index, search, show, markdown]
