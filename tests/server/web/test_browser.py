"""Every page and flow in a real browser: with keyboard and without script, in light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from server.live_console import live_console
from server.web.browsers import SIZES, chromium, example_capsule, needs_browser, overflow, serious, submit

pytestmark = needs_browser
PASSWORD = "correct horse battery"
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 23.69 GiB"
HOSTILE = (
    '</code></pre><script>document.title="owned"</script><img src=x onerror=alert(1)>\n\x1b[31m\u202egnp\x1b[0m\n'
    'Traceback (most recent call last):\n  File "<svg onload=alert(2)>/train.py", line 9, in main\n    x = 1 / 0\n'
    "RuntimeError: <iframe srcdoc='<script>alert(3)</script>'>\n"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_console(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def answers(address: str) -> dict[str, str]:
    """Paths of answers of each kind."""
    names = ("evaluation-predictions", "accelerate-uses-all-gpus", "one-rank-exception", "late-rank-with-dumps")
    found = {name: f"/d/{submit(address, example_capsule(name))}" for name in names}
    return {**found, "undetermined": f"/d/{submit(address, OOM, 'text/plain')}"}


@contextmanager
def opened(browser: Any, **options: Any) -> Iterator[Any]:
    """A page of a new browser; anything that its console calls an error, or that a dialog says, fails the test."""
    context = browser.new_context(**options)
    said: list[str] = []
    page = context.new_page()
    page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    try:
        yield page
    finally:
        context.close()
    assert said == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Any, address: str, answers: dict[str, str], scheme: str, size: str
) -> None:
    width, height = SIZES[size]
    found: list[str] = []
    with opened(browser, viewport={"width": width, "height": height}, color_scheme=scheme) as page:
        for path in (
            "/",
            "/e",
            "/e?q=NCCL+timeout",
            "/e/memory/cuda-oom",
            "/h",
            "/data",
            "/sign-in",
            "/sign-up",
            *answers.values(),
        ):
            page.goto(address + path)
            found += serious(page)
            assert overflow(page) <= 0, path
        page.goto(address + "/h")
        page.click("tbody a >> nth=0")
        found += serious(page)
        page.goto(address + "/sign-up")
        page.fill("#email", f"{scheme}-{size}@example.org")
        page.fill("#password", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/account")
        found += serious(page)
        page.fill("#team-name", "Vision")
        page.keyboard.press("Enter")
        page.wait_for_url("**/teams/*")
        page.click("text=Make a link")
        page.wait_for_selector("text=The invitation.")
        found += serious(page)
        assert overflow(page) <= 0
    assert found == []


def test_tabs_and_folds_are_keys_away(browser: Any, address: str, answers: dict[str, str]) -> None:
    with opened(browser) as page:
        page.goto(address + answers["evaluation-predictions"])
        tabs = page.get_by_role("tab")
        assert tabs.count() == 2 and page.locator(".tab:visible").count() == 1
        tabs.nth(0).focus()
        page.keyboard.press("ArrowRight")
        assert tabs.nth(1).get_attribute("aria-selected") == "true"
        assert page.evaluate("document.activeElement.textContent") == tabs.nth(1).text_content()
        page.keyboard.press("ArrowRight")
        assert tabs.nth(0).get_attribute("aria-selected") == "true"
        fold = page.locator("details.around summary").first
        fold.focus()
        page.keyboard.press("Enter")
        assert page.locator("details.around[open] .here").first.is_visible()
        page.goto(address + "/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_code_and_pages_are_copied(browser: Any, address: str, answers: dict[str, str]) -> None:
    with opened(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(address + answers["accelerate-uses-all-gpus"])
        page.get_by_role("link", name="Copy as Markdown").click()
        page.wait_for_selector("#announced:has-text('Copied')", state="attached")
        text = page.evaluate("navigator.clipboard.readText()")
        assert text.startswith("## FAILED: ") and "nothing left this machine" not in text
        page.locator(".tab:visible button.copy, .card > div > .tab button.copy").first.click()
        page.wait_for_function("() => navigator.clipboard.readText().then((text) => !text.startsWith('## FAILED'))")
        shown = page.locator(".tab:visible pre").first.inner_text()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.split() == shown.split()


def test_a_patch_is_downloaded_as_the_api_gives_it(browser: Any, address: str, answers: dict[str, str]) -> None:
    with opened(browser, accept_downloads=True) as page:
        page.goto(address + answers["accelerate-uses-all-gpus"])
        with page.expect_download() as download:
            page.get_by_role("link", name="Download patch").click()
        text = download.value.path().read_text("utf-8")
        assert download.value.suggested_filename == "fix.patch" and text.startswith("--- ")


def test_without_script_a_run_is_diagnosed_and_its_question_answered(browser: Any, address: str) -> None:
    with opened(browser, java_script_enabled=False) as page:
        page.goto(address)
        page.fill("#text", OOM.decode())
        page.get_by_role("button", name="Diagnose", exact=True).click()
        page.wait_for_url("**/d/*")
        first = page.url
        assert page.locator(".word").text_content() == "UNDETERMINED"
        page.fill("#answer-text", HOSTILE)
        page.get_by_role("button", name="Go on with this answer").click()
        page.wait_for_url(lambda url: "/d/" in url and url != first)
        assert page.locator(".chain a").count() == 1
        page.get_by_text("Delete…").click()
        page.get_by_role("button", name="Delete this answer").click()
        page.wait_for_url("**/h")


def test_a_log_cannot_act_in_the_browser(browser: Any, address: str) -> None:
    path = f"/d/{submit(address, HOSTILE.encode(), 'text/plain')}"
    asked: list[str] = []
    with opened(browser) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address + path)
        assert "owned" not in page.title() and page.title().endswith("firstfault")
        assert page.locator("iframe, main img, main script, svg[onload]").count() == 0
        page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        assert "<iframe srcdoc" in page.locator("main").inner_text()
    assert asked and all(url.startswith(address) for url in asked)


def test_what_to_do_stands_beside_why_and_stays_in_sight(browser: Any, address: str, answers: dict[str, str]) -> None:
    place = "name => document.querySelector('.side-' + name).getBoundingClientRect().toJSON()"
    with opened(browser, viewport={"width": 1280, "height": 800}) as page:
        page.goto(address + answers["one-rank-exception"])
        why, do, evidence = (page.evaluate(place, name) for name in ("why", "do", "evidence"))
        assert why["right"] < do["left"] and evidence["right"] < do["left"]
        page.evaluate("document.querySelector('.side-evidence').lastElementChild.scrollIntoView({ block: 'end' })")
        assert 0 <= page.evaluate(place, "do")["top"] < 800
    with opened(browser, viewport={"width": 390, "height": 800}) as page:
        page.goto(address + answers["one-rank-exception"])
        why, do, evidence = (page.evaluate(place, name) for name in ("why", "do", "evidence"))
        assert why["bottom"] <= do["top"] and do["bottom"] <= evidence["top"]


def test_the_list_of_files_fits_a_narrow_page(browser: Any, address: str) -> None:
    files = [{"name": "a_rather_long_name_of_a_log_of_rank_12.log", "mimeType": "text/plain", "buffer": OOM + b"\n"}]
    with opened(browser, viewport={"width": 390, "height": 800}) as page:
        page.goto(f"{address}/")
        page.set_input_files("#files", files)
        page.wait_for_selector("#review:not([hidden])")
        heights = page.evaluate("[...document.querySelectorAll('.handed td')].map(cell => cell.offsetHeight)")
        assert heights and max(heights) < 40
        assert page.inner_text("#amount").count("bytes") == 1
