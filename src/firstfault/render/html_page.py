"""The frame of every HTML report: nothing is loaded, nothing is run, and a policy says so to the browser."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape

from firstfault.render import safe
from firstfault.render.html_style import CSS


def page(title: str, header: Sequence[str], sections: Sequence[str], footer: str, *, style: str = "") -> str:
    """The whole document. `sections` and `footer` are HTML; `style` is what the common style sheet lacks."""
    css = CSS + style
    policy = f"default-src 'none'; style-src 'sha256-{_digest(css)}'; base-uri 'none'; form-action 'none'"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{line(title)}</title>",
            f"<style>{css}</style>",
            "</head>",
            "<body>",
            f'<header><p class="name">firstfault</p><p>{" · ".join(header)}</p></header>',
            "<main>",
            *sections,
            "</main>",
            f"<footer>{footer}</footer>",
            "</body>",
            "</html>",
            "",
        ]
    )


def section(name: str, title: str, body: str) -> str:
    """A section with its heading, `name` being unique in the page."""
    return f'<section aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>{body}</section>'


def line(text: str) -> str:
    """Text of a stranger on one line, escaped."""
    return escape(safe.line(text))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
