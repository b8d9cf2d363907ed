"""How a page is made: the templates, what all of them may use, and forms that were sent."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import MediaType, Request, Response
from litestar.enums import RequestEncodingType
from litestar.params import Body
from litestar.response import Redirect
from markupsafe import Markup

from firstfault.render import safe
from firstfault.render.html import prose
from firstfault.server.records import Principal
from firstfault.server.services import Services
from firstfault.units import format_size
from firstfault.version import __version__

FOLDER = Path(__file__).parent
Form = Annotated[dict[str, Any], Body(media_type=RequestEncodingType.URL_ENCODED)]
"""The fields of a form that was sent; one that was ticked several times is a list."""
Page = Response[Any]


def page(
    template: str, services: Services, principal: Principal | None = None, *, status_code: int = 200, **context: Any
) -> Page:
    """The page of a template; `principal` is None where nobody asked who it is."""
    shown = _environment().get_template(template)
    text = shown.render(
        url=services.url, settings=services.settings, principal=principal, version=__version__, place="", **context
    )
    headers = {"Cache-Control": "private, no-cache"}
    return Response(text, status_code=status_code, media_type=MediaType.HTML, headers=headers)


def go(services: Services, path: str) -> Page:
    """The answer to a form that did its work: the browser asks for that page."""
    return Redirect(services.url(path), status_code=303)


def address_of(path: str, request: Request[Any, Any, Any], services: Services) -> str:
    """The whole address of a page, to be sent to somebody: as the settings say, otherwise as it was asked for here."""
    settings = services.settings
    host = (
        settings.base_url.removesuffix("/").removesuffix(settings.path)
        or f"{request.base_url.scheme}://{request.base_url.netloc}"
    )
    return f"{host}{services.url(path)}"


def field(form: dict[str, Any], name: str) -> str:
    """The text of a field; empty if it was not sent."""
    value = form.get(name, "")
    return str(value[0] if isinstance(value, list) and value else value or "").strip()


def ticked(form: dict[str, Any], name: str) -> list[str]:
    """All values of a field."""
    value = form.get(name, [])
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["line"] = safe.line
    made.filters["prose"] = lambda text: Markup(prose(text))
    made.filters["moment"] = _moment
    made.filters["day"] = lambda time: f"{time:%Y-%m-%d}"
    made.filters["size"] = format_size
    return made


def _moment(time: datetime) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(time.isoformat(timespec="seconds"), f"{time:%Y-%m-%d %H:%M} UTC")
