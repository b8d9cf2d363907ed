"""Requests that change something come from this console's own pages, or from no browser at all.

Browsers say where a request comes from (`Sec-Fetch-Site`, older ones `Origin` or at least `Referer`), and no page can make them
lie. Cookies are `SameSite=Lax` besides.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from litestar import Request
from litestar.exceptions import PermissionDeniedException

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN = frozenset({"same-origin", "none"})


async def refuse_other_sites(request: Request[Any, Any, Any]) -> None:
    """Before a handler: PermissionDeniedException for a change that another site's page asks for."""
    if request.method in _SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    page = request.headers.get("origin", request.headers.get("referer"))
    if site is not None:
        allowed = site in _OWN
    elif page is not None:
        allowed = urlsplit(page).netloc == _own_host(request)
    else:
        allowed = True
    if not allowed:
        raise PermissionDeniedException("this was asked for by a page of another site")


def _own_host(request: Request[Any, Any, Any]) -> str:
    base = urlsplit(request.app.state.services.settings.base_url).netloc
    return base or request.headers.get("host", "")
