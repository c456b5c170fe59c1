"""How quickly pages of podsim web are there: the medians of five fresh profiles of a warm server, each with its limit.

python scripts/web_speed.py
"""

from __future__ import annotations

import shutil
import socket
import statistics
import sys
import time
from typing import Any

from playwright.sync_api import sync_playwright
from web_load import listening_seconds, server

JOB = "model=llama-3-8b&on=dgx-h100:8&tp=4&pp=2&micro_batch=1&zero=1&recompute=none&sequence_parallel=true&flash=true"
LIMITS = {"first paint": 1.0, "interactive": 1.5, "slider on Why": 0.15, "a second of pointer moves": 0.15}
_SLIDE = """() => new Promise((done) => {
  const slider = document.querySelector('.controls input[type=range]');
  const before = document.querySelector('.split .region data').value;
  const started = performance.now();
  const watch = new MutationObserver(() => {
    if (document.querySelector('.split .region data')?.value === before) return;
    watch.disconnect();
    requestAnimationFrame(() => done((performance.now() - started) / 1000));
  });
  watch.observe(document.querySelector('.split'), {childList: true, subtree: true});
  slider.value = +slider.value + 1;
  slider.dispatchEvent(new Event('input'));
})"""
_HOVER = """() => { const cells = [...document.querySelectorAll('svg .cell')], started = performance.now();
  for (const cell of cells.slice(0, 60)) cell.dispatchEvent(new PointerEvent('pointermove', {clientX: 5, clientY: 5}));
  document.body.offsetHeight; return (performance.now() - started) / 1000; }"""


def measure(browser: Any, address: str, run: int) -> dict[str, float]:
    """Seconds of each figure, once, in a fresh profile; each run asks for another batch, which no cache holds."""
    context = browser.new_context()
    page = context.new_page()
    started = time.monotonic()
    page.goto(f"{address}/#ask")
    page.wait_for_selector("[data-ready] input[name=model]")
    interactive = time.monotonic() - started
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime") or 0
    page.goto("about:blank")
    page.goto(f"{address}/#why?{JOB}&batch={512 * (run + 1)}")
    page.wait_for_selector("[data-screen=why][data-ready]")
    slides = [page.evaluate(_SLIDE) for _ in range(4)]
    figures = {
        "first paint": paint / 1000,
        "interactive": interactive,
        "slider on Why": statistics.median(slides),
    }
    context.close()
    return figures


def main() -> int:
    """Print the medians; 1 if one misses its limit."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = server(port)
    try:
        print(f"{'listening':28} {listening_seconds(port):7.3f} s  limit 1.5 s")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            address = f"http://127.0.0.1:{port}"
            measure(browser, address, 9)  # the server is warm after it
            runs = [measure(browser, address, run) for run in range(5)]
            medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            page = browser.new_page()
            page.goto(f"{address}/#alternatives?model=gpt3-175b&on=selene&gpus=4096&batch=4096")
            page.wait_for_selector("svg .cell", timeout=60_000)
            plans = float(page.locator("data[data-name=evaluated]").first.get_attribute("value"))
            medians["a second of pointer moves"] = page.evaluate(_HOVER)
            browser.close()
    finally:
        running.terminate()
        running.wait()
    for name, seconds in medians.items():
        print(f"{name:28} {seconds:7.3f} s  limit {LIMITS[name]:g} s")
    print(f"{plans:,.0f} plans in the picture")
    return int(any(seconds > LIMITS[name] for name, seconds in medians.items()))


if __name__ == "__main__":
    sys.exit(main())
