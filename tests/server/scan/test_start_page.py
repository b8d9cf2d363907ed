from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firstfault.scan.scanner import Scanner
from server.live_console import live_console
from server.scan.hostile import write_hostile
from server.scan.sides import FOLDERS, PACK, Side, python_side

CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.64 GiB. GPU 2 has a total capacity of 23.69 GiB"
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser is driven here")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="Debian's chromium is not installed")

SCAN_ALL = """async (lists) => {
  const from = (name) => import(new URL(`static/js/scan/${name}.js`, document.baseURI).href);
  const modules = await Promise.all(["scanner", "source", "capsule"].map(from));
  const [{ Scanner }, { scanFile }, { capsuleOf, encode, excerptOf }] = modules;
  const pack = await (await fetch(document.getElementById("hand-over").dataset.pack)).json();
  const scanner = new Scanner(pack);
  const isOdd = (value) => typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value));
  const plain = ([name, value]) => [name, isOdd(value) ? String(value) : value];
  const said = [];
  for (const list of lists) {
    const [items, events] = [[], []];
    for (const [path, base64] of list) {
      const file = new File([Uint8Array.from(atob(base64), (one) => one.charCodeAt(0))], path);
      const scan = await scanFile(file, scanner);
      if (scan.why) { items.push({ path, why: scan.why }); continue; }
      for (const { signal, line, offset, captures } of scan.hits) {
        events.push([path, signal.id, line, offset, Object.fromEntries(Object.entries(captures).map(plain))]);
      }
      items.push(excerptOf(path, scan, list.length));
    }
    said.push([events, new TextDecoder().decode(encode(capsuleOf(items, [], pack.redaction).capsule))]);
  }
  return said;
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_console(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as play:
        made = play.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    made = browser.new_page(viewport=WIDE)
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    made.goto(f"{address}/")
    yield made
    made.close()
    assert faults == []


def shown(page: Any) -> str:
    """What the drawer says of the amount, as soon as it says it."""
    page.wait_for_selector("#review:not([hidden])", timeout=60_000)
    page.wait_for_function("document.getElementById('state').textContent === ''", timeout=60_000)
    found: str = page.inner_text("#amount")
    return found


def open_drawer(page: Any) -> None:
    page.click("#review > summary")
    page.wait_for_selector("#lines .one")


def posts(page: Any) -> list[Any]:
    found: list[Any] = []
    page.on("request", lambda request: found.append(request) if request.method == "POST" else None)
    return found


def in_browser(page: Any, sides: list[Side]) -> list[Any]:
    lists = [[[name, base64.b64encode(path.read_bytes()).decode()] for name, path in side.files] for side in sides]
    said: list[Any] = page.evaluate(SCAN_ALL, lists)
    return said


def test_chromium_finds_the_events_and_makes_the_capsules_of_the_engine(page, tmp_path):
    scanner = Scanner(PACK.signals)
    for folder in [*FOLDERS, *write_hostile(tmp_path)]:
        side = python_side(folder, scanner)
        if side is not None:
            ((events, capsule),) = in_browser(page, [side])
            assert events == side.events, folder
            assert capsule.encode() == side.capsule, folder


def test_pasted_text_is_masked_shown_and_sent_as_shown(page):
    sent = posts(page)
    page.fill("#text", f"HF_TOKEN=hf_EXAMPLEexampleEXAMPLEexample00 on anne@example.org\n[rank2]: {ERROR}\n")
    amount = shown(page)
    size = int(re.search(r"([\d,]+) bytes", amount)[1].replace(",", ""))
    open_drawer(page)
    text = page.inner_text("#lines")
    assert "‹token-1›" in text and "‹email-1›" in text and "hf_EXAMPLE" not in text
    assert sent == []
    page.click("#diagnose")
    page.wait_for_url("**/d/*", timeout=60_000)
    (request,) = sent
    body = request.post_data_buffer
    assert len(body) == size
    assert [line["text"] for source in json.loads(body)["sources"] for run in source["stretches"] for line in run] == [
        "HF_TOKEN=‹token-1› on ‹email-1›",
        f"[rank2]: {ERROR}",
    ]


def test_a_line_whose_tick_is_taken_away_is_not_sent(page):
    sent = posts(page)
    page.fill("#text", f"something private\n[rank2]: {ERROR}\n")
    before = shown(page)
    open_drawer(page)
    page.get_by_label("Send line 1", exact=True).uncheck()
    page.wait_for_function("(before) => document.getElementById('amount').textContent !== before", arg=before)
    page.click("#diagnose")
    page.wait_for_url("**/d/*", timeout=60_000)
    assert b"private" not in sent[0].post_data_buffer and b"OutOfMemoryError" in sent[0].post_data_buffer


def test_of_a_large_file_only_the_capsule_leaves(page, tmp_path):
    log = write_hostile(tmp_path)[0] / "run.log"
    requests: list[Any] = []
    page.on("request", lambda request: requests.append(request))
    page.set_input_files("#files", str(log))
    shown(page)
    expected = python_side(log.parent, Scanner(PACK.signals))
    page.click("#diagnose")
    page.wait_for_url("**/d/*", timeout=60_000)
    bodies = [request.post_data_buffer for request in requests if request.post_data_buffer]
    assert bodies == [expected.capsule]
    assert len(expected.capsule) < log.stat().st_size / 10


def test_a_folder_is_read_as_the_command_line_reads_it(page, tmp_path):
    sent = posts(page)
    folder = tmp_path / "run"
    for name in ("logs/rank_10.log", "logs/rank_2.log", ".hidden/secret.log", "weights.safetensors"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} {ERROR}\n", encoding="utf-8")
    page.set_input_files("#folder", str(folder))
    shown(page)
    page.click("#diagnose")
    page.wait_for_url("**/d/*", timeout=60_000)
    assert sent[0].post_data_buffer == python_side(folder, Scanner(PACK.signals)).capsule


def test_keys_alone_are_enough(page):
    page.focus("#text")
    page.keyboard.type(f"[rank2]: {ERROR}")
    shown(page)
    page.keyboard.press("Escape")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "diagnose":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/d/*", timeout=60_000)


def test_a_sample_is_loaded_and_answered(page):
    page.click("[data-sample$='/nccl-timeout']")
    assert "lines" in shown(page)
    page.click("#diagnose")
    page.wait_for_url("**/d/*", timeout=60_000)
    assert page.inner_text("h1")


def test_markup_in_names_and_lines_stays_text(page, tmp_path):
    log = tmp_path / "<img src=x onerror=alert(1)>.log"
    log.write_text(f"<script>alert(1)</script> {ERROR}\n", encoding="utf-8")
    page.set_input_files("#files", str(log))
    shown(page)
    open_drawer(page)
    assert page.locator("#lines img, #lines script, #list img").count() == 0
    assert "<script>" in page.inner_text("#lines")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_nothing_serious_for_those_who_listen_and_nothing_wider_than_the_screen(page, size):
    page.set_viewport_size(size)
    page.fill("#text", f"x {'y' * 400}\n[rank2]: {ERROR}\n")
    shown(page)
    open_drawer(page)
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_without_script_a_form_is_answered(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/")
    page.fill("#text", f"[rank2]: {ERROR}\n")
    page.click("#diagnose")
    page.wait_for_url("**/d/*", timeout=60_000)
    page.goto(f"{address}/")
    page.click("[data-sample$='/nccl-timeout']")
    page.wait_for_url("**/d/*", timeout=60_000)
    context.close()
