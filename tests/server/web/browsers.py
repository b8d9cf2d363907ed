"""A real browser that uses a real console, and what the tests of pages look for in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from firstfault.ingest.capsule import encode, gather_capsule
from firstfault.knowledge.pack import load_pack

ROOT = Path(__file__).parents[3]
CHROMIUM = Path("/usr/bin/chromium")
AXE = ROOT / "tests" / "server" / "vendor" / "axe.min.js"
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
needs_browser = pytest.mark.skipif(
    find_spec("playwright") is None or not CHROMIUM.exists(), reason="needs Playwright for Python and Debian's Chromium"
)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def example_capsule(name: str) -> bytes:
    """What would be sent of one of the bundled runs."""
    return encode(gather_capsule([ROOT / "examples" / name], load_pack()))


def submit(address: str, body: bytes, kind: str = "application/json") -> str:
    """The id of the answer."""
    with urlopen(Request(f"{address}/api/v1/diagnoses", data=body, headers={"Content-Type": kind}), timeout=60) as answer:
        found: str = json.load(answer)["id"]
    return found


def serious(page: Any) -> list[str]:
    """What axe finds serious or critical on a page, one line each."""
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{page.url} {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def overflow(page: Any) -> int:
    """By how many pixels the page is wider than its window."""
    found: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return found
