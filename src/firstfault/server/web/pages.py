"""All pages of the console."""

from __future__ import annotations

from typing import Any

from litestar import MediaType, Request, Response
from litestar.types import ControllerRouterHandler

from firstfault.server.errors import Problem


def problem_page(request: Request[Any, Any, Any], problem: Problem) -> Response[Any]:
    """Why a request was refused, for a person."""
    return Response(
        f"{problem.title}: {problem.detail}\n{problem.hint}\n", status_code=problem.status, media_type=MediaType.TEXT
    )


handlers: list[ControllerRouterHandler] = []
