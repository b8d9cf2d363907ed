"""The pages of live runs in a real browser: findings appear by themselves, and after a break the page goes on where it was."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.server.accounts.principal import PRIVATE
from firstfault.server.records import Principal, RunEvent
from firstfault.server.store.store import open_store
from server.consoles import console, services_of
from server.live_console import live_console
from server.otlp.test_decode import request as otlp_request
from server.web.browsers import chromium, needs_browser, overflow, serious

PROTOBUF = {"Content-Type": "application/x-protobuf"}
CRASH = [
    "step 1 loss 2.0",
    "Traceback (most recent call last):",
    '  File "/home/alice/train.py", line 16, in main',
    "    weight = total / positives",
    "ZeroDivisionError: <img src=x onerror=alert(1)> division by zero",
]


def send(address: str, file: str, lines: list[str]) -> None:
    body = otlp_request((file, lines)).SerializeToString()
    with urllib.request.urlopen(
        urllib.request.Request(f"{address}/v1/logs", data=body, headers=PROTOBUF), timeout=20
    ) as answer:
        assert answer.status == 200


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with live_console(tmp_path) as found:
        yield found


@needs_browser
def test_what_is_found_appears_on_the_open_page(address: str, tmp_path: Path) -> None:
    send(address, "rank_0.log", ["loading data"])
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}/live")
        page.click("text=logs")
        page.wait_for_selector("text=Nothing has failed so far.")
        send(address, "rank_3.log", CRASH)
        page.wait_for_selector("#findings li a", timeout=30_000)
        assert page.text_content("#state") == "Something failed."
        page.wait_for_selector("#streams tr:nth-child(2)")
        assert page.text_content("#streams tr:nth-child(2) td:nth-child(2)") == "3"
        assert page.text_content("#count") == "2 streams"
        assert page.evaluate("document.images.length") == 0
        assert serious(page) == [] and overflow(page) <= 0
        if folder := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=f"{folder}/run-wide.png", full_page=True)
        page.set_viewport_size({"width": 390, "height": 844})
        assert overflow(page) <= 0
        if folder:
            page.screenshot(path=f"{folder}/run-narrow.png", full_page=True)
        page.click("#findings li a")
        page.wait_for_selector("h1")
        assert "/d/" in page.url
        page.goto(f"{address}/live")
        assert serious(page) == [] and overflow(page) <= 0
        if folder:
            page.screenshot(path=f"{folder}/live.png", full_page=True)


def test_after_a_break_it_goes_on_where_it_was(tmp_path: Path) -> None:
    with live_console(tmp_path) as address:
        send(address, "rank_0.log", ["loading data"])
        store = open_store(f"sqlite:///{tmp_path / 'console.db'}")
        (run,) = store.streams.runs(Principal(owner=PRIVATE, owners=(PRIVATE,)))
        for number in range(3):
            store.streams.add_event(RunEvent(run_id=run.id, kind="finding", data=f'{{"n": {number}}}'))
        first, second, third = (str(event.id) for event in store.streams.events(run.id, 0))
        store.close()
        assert told(f"{address}/live/{run.id}/events", {}, 3) == [first, second, third]
        assert told(f"{address}/live/{run.id}/events", {"Last-Event-ID": second}, 1) == [third]
        assert told(f"{address}/live/{run.id}/events?after={first}", {}, 2) == [second, third]


def told(url: str, headers: dict[str, str], count: int) -> list[str]:
    """The ids of the first events that a page is told."""
    found: list[str] = []
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        for line in answer:
            if line.startswith(b"id: "):
                found.append(line[4:].strip().decode())
            if len(found) == count:
                break
    return found


def test_a_run_of_somebody_else_is_not_there(tmp_path: Path) -> None:
    with console(tmp_path) as client:
        run, _, _ = services_of(client).store.streams.find_run(PRIVATE, "llm")
        for path in (f"/live/{run.id}", f"/live/{run.id}/events"):
            assert client.get(path).status_code == 404
        assert client.post(f"/live/{run.id}/delete").status_code == 404
