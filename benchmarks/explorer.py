"""How long the explorer's page takes from a click to the answer, in Chromium.

    python benchmarks/explorer.py [PAGE.html ...] [--columns 20] [--replicas 32] [--layer-size 16] [--clicks 20]

Without pages, that of an untrained model of so many columns, every other one of numbers with 160 hats. Printed for each page:
milliseconds from clicks to what follows from them, and the longest pause in which the page itself could not be used.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hyperspn import fit_table

ROWS = 8000
PAUSES = "window.pauses = [0]; new PerformanceObserver(list => list.getEntries().forEach(({ duration }) => pauses.push(duration))).observe({ type: 'longtask' })"
CLICK = """(bar) => new Promise((done) => {
  const { body } = document, start = performance.now();
  const seen = new MutationObserver(() => {
    if (body.dataset.asked !== body.dataset.shown) return;
    seen.disconnect();
    done(performance.now() - start);
  });
  seen.observe(body, { attributes: true });
  bar.click();
})"""


def untrained_page(path: Path, columns: int, replicas: int, layer_size: int) -> Path:
    generator = np.random.default_rng(0)
    hidden = generator.integers(0, 4, ROWS)
    frame = pd.DataFrame(
        {
            f"column {i}": hidden + generator.normal(size=ROWS) if i % 2 else (hidden + generator.integers(0, 7, ROWS))
            for i in range(columns)
        }
    )
    sizes = {"replicas": replicas, "layer_size": layer_size, "steps": 1}
    fit_table(frame, recipe="factored", progress=False, **sizes).explore().save(path)
    return path


def measure(browser: Any, path: Path, clicks: int) -> tuple[list[float], float]:
    """Milliseconds of each click, and of the longest pause."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("body[data-ready]", timeout=120_000)
    page.evaluate(PAUSES)
    bars = page.locator("#cards .bar").element_handles()
    order = np.random.default_rng(1).permutation(len(bars))
    times = [bars[order[click % len(bars)]].evaluate(CLICK) for click in range(clicks)]
    longest = page.evaluate("Math.max(...pauses)")
    page.close()
    return times, longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    for name, default in (("columns", 20), ("replicas", 32), ("layer-size", 16), ("clicks", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        sizes = (arguments.columns, arguments.replicas, arguments.layer_size)
        pages = arguments.pages or [untrained_page(Path(folder) / "untrained.html", *sizes)]
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for path in pages:
            times, longest = measure(browser, path, arguments.clicks)
            pause = f"longest pause {longest:.0f} ms" if longest else "no pause above 50 ms"
            print(
                f"{path.name}: median {statistics.median(times):.0f} ms, slowest {max(times):.0f} ms, {pause}",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
