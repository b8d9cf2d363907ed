"""What pages load: style sheets, scripts and the icon, all from the console itself."""

from __future__ import annotations

from litestar import Response, get
from litestar.static_files import create_static_files_router

from firstfault.render.html_style import CSS
from firstfault.server.web.frame import FOLDER

_HOURS = {"Cache-Control": "public, max-age=3600"}


@get("/report.css", include_in_schema=False, sync_to_thread=False)
def report_css() -> Response[str]:
    """The style sheet that reports and pages share."""
    return Response(CSS, media_type="text/css", headers=_HOURS)


handlers = [report_css, create_static_files_router(path="/static", directories=[FOLDER / "static"], include_in_schema=False)]
