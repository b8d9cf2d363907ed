r"""How fast a log is scanned in a browser, against the engine's scanner in the same run.

    python bench/browser_scan.py [--mb 250] [--rounds 3]

Starts a console, hands a file to its start page in Chromium, and prints the time until what will be sent is shown, the longest
task of the page meanwhile, and what left: the requests with a body. Needs the extra `server`, Playwright and /usr/bin/chromium.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from corpus import MB, write_rank_log

from firstfault.ingest.capsule import encode, gather_capsule
from firstfault.knowledge.pack import load_pack
from firstfault.scan.scanner import Scanner

# Beside this file lies a `server.py`: the folder itself is named.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "server"))
from live_console import live_console

CHROMIUM = "/usr/bin/chromium"
WATCH_TASKS = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
  }).observe({ type: "longtask" });
  // In the page: a test tool looks only twice a second.
  const review = document.querySelector("#review");
  document.querySelector("#files").addEventListener("change", () => { window.begun = performance.now(); }, { capture: true });
  new MutationObserver(() => { if (!review.hidden) window.shown ??= performance.now(); }).observe(review, { attributes: true });
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    pack = load_pack()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "rank_3.log"
        write_rank_log(log, 3, options.mb * MB, seed=7)
        size = log.stat().st_size
        for number in range(options.rounds):
            seconds = engine(log, Scanner(pack.signals))
            print(f"round {number + 1}: engine (hyperscan) {size / seconds / 1e9:.2f} GB per second of processor")
        with live_console(Path(name)) as address:
            in_browser(address, log, encode(gather_capsule([log], pack)), options.rounds)
    return 0


def engine(log: Path, scanner: Scanner) -> float:
    """Seconds of processor of one scan."""
    begin = time.process_time()
    with log.open("rb", buffering=0) as stream:
        scanner.scan(stream)  # type: ignore[arg-type]
    return time.process_time() - begin


def renderer_seconds() -> float:
    """Seconds of processor that the processes which run pages and their workers took so far."""
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (folder / "cmdline").read_bytes():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
    return total


def in_browser(address: str, log: Path, capsule: bytes, rounds: int) -> None:
    """Print what each round takes, and whether the capsule was all that left."""
    from playwright.sync_api import sync_playwright

    size = log.stat().st_size
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for number in range(rounds):
            page = browser.new_page()
            bodies: list[bytes] = []
            page.on("request", lambda request, kept=bodies: kept.append(request.post_data_buffer or b""))
            page.goto(f"{address}/", wait_until="networkidle")
            page.evaluate(WATCH_TASKS)
            used = renderer_seconds()
            page.set_input_files("#files", str(log))
            page.wait_for_selector("#review:not([hidden])", timeout=300_000)
            used = renderer_seconds() - used
            seconds = page.evaluate("(window.shown - window.begun) / 1000")
            longest = page.evaluate("window.longest")
            before = [body for body in bodies if body]
            sent = _sent(page, bodies)
            print(
                f"round {number + 1}: browser {size / seconds / 1e9:.2f} GB/s ({size / MB:.0f} MB in {seconds:.2f} s; "
                f"{size / max(used, 0.01) / 1e9:.2f} GB per second of processor), "
                f"longest task of the page {longest:.0f} ms; left before the button {sum(map(len, before))} bytes, "
                f"after it {len(sent)} bytes, {'the' if sent == capsule else 'NOT THE'} bytes of the engine's capsule"
            )
            page.close()
        browser.close()


def _sent(page: Any, bodies: list[bytes]) -> bytes:
    page.click("#diagnose")
    page.wait_for_url("**/d/*", timeout=60_000)
    return b"".join(bodies)


if __name__ == "__main__":
    raise SystemExit(main())
