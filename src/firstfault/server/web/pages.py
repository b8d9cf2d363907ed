"""All pages of the console."""

from __future__ import annotations

from typing import Any

from litestar import Request
from litestar.types import ControllerRouterHandler

from firstfault.server.errors import Problem
from firstfault.server.services import Services
from firstfault.server.web import account, assets, data_handling, diagnosis, encyclopedia, history, live, start, teams
from firstfault.server.web.frame import Page, page


def problem_page(request: Request[Any, Any, Any], problem: Problem) -> Page:
    """Why a request was refused, for a person."""
    services: Services = request.app.state.services
    return page("problem.html", services, status_code=problem.status, problem=problem)


_ROOMS = (start, diagnosis, encyclopedia, history, live, account, teams, data_handling, assets)
handlers: list[ControllerRouterHandler] = [handler for room in _ROOMS for handler in room.handlers]
"""The pages: server-rendered, usable without script."""
