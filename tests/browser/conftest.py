"""A real Chromium for the explorer's page; `make browser-test` asks for it, and fails where there is none."""

import os
import re
import shutil

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hyperspn import fit_table
from hyperspn.data import read_table
from hyperspn.data.tables import find_table
from hyperspn.explorer.page import Explorer, page

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
TINY = {"recipe": "factored", "layer_size": 3, "replicas": 4, "steps": 100, "progress": False, "seed": 1}


@pytest.fixture(scope="session")
def chromium():
    if "HYPERSPN_BROWSER" not in os.environ:
        pytest.skip("pages are tested in a browser by `make browser-test`")
    sync_api = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found, f"expected a browser on the PATH, found none of {', '.join(NAMES)}"
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS.split())
        yield browser
        browser.close()


class Tab:
    """A page in the browser, with what went wrong in it and what it asked the network for."""

    def __init__(self, browser, path, address="", **options):
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", "accept_downloads": True}
            | options
        )
        self.page, self.faults, self.requests = self.context.new_page(), [], []
        self.page.on(
            "console", lambda said: self.faults.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto((Path(path).as_uri() if not str(path).startswith("http") else path) + address)
        self.page.wait_for_selector("body[data-ready]", timeout=60_000)
        self.settle()

    def settle(self):
        """Waits until what is shown follows from what is known."""
        self.page.wait_for_function("() => document.body.dataset.asked === document.body.dataset.shown", timeout=60_000)

    def card(self, name):
        return self.page.locator(f"article[data-name={name!r}]:visible")

    def bar(self, name, label):
        whole = re.compile(f"^{re.escape(label)}$")
        return self.card(name).locator(".bar").filter(has=self.page.locator(".label", has_text=whole))

    def shares(self, name):
        """The probabilities that a card shows, by label."""
        rows = self.card(name).locator(".bar").all()
        return {
            row.locator(".label").inner_text(): float(row.locator(".share").inner_text().strip("<> %")) / 100
            for row in rows
        }

    def field(self, name):
        return self.card(name).locator("input").input_value()

    def text(self, identity):
        return self.page.locator(f"#{identity}").inner_text()


@pytest.fixture
def opened(chromium):
    """Opens pages; none may have a fault in the end, or have asked for anything but itself."""
    tabs = []

    def opened(path, address="", **options):
        tabs.append(Tab(chromium, path, address, **options))
        return tabs[-1]

    yield opened
    for tab in tabs:
        assert tab.faults == []
        own = tab.page.url.partition("#")[0]
        assert [url for url in tab.requests if not url.startswith(("blob:", own))] == []
        tab.context.close()


@pytest.fixture(scope="session")
def penguins(chromium, tmp_path_factory):
    """A small model of the penguins, and its page; for pictures the default one."""
    frame = read_table(find_table("penguins")[""]).to_pandas()
    options = {"progress": False} if "HYPERSPN_SCREENSHOTS" in os.environ else TINY
    model = fit_table(frame, **options)
    return saved(model, tmp_path_factory.mktemp("penguins"), title="penguins", run="runs/penguins")


@pytest.fixture(scope="session")
def hostile(chromium, tmp_path_factory):
    """A table whose names and values would run if they were not text."""
    generator, attack = np.random.default_rng(0), "<img src=x onerror='document.title=1'>"
    frame = pd.DataFrame(
        {
            attack: generator.choice([attack, "</script><script>document.title=1</script>", "plain"], 200),
            "{policy} & ${1}": generator.normal(size=200).round(2),
            '"quoted, | name"': generator.choice(["a", "b"], 200),
        }
    )
    return saved(fit_table(frame, **TINY), tmp_path_factory.mktemp("hostile"), title=attack)


@pytest.fixture(scope="session")
def odd(chromium, tmp_path_factory):
    """Long names and categories, dates, numbers from thousands to billions, and categories that look like comparisons."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "satisfaction_after_the_last_call": generator.choice(["very satisfied with everything", "not at all"], 300),
            "income": generator.choice(["<=50K", ">50K", "~"], 300),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 500_000, 300), unit="min"),
            "huge": np.exp(3 * generator.normal(size=300) + 12),
            "cents": generator.exponential(size=300).round(2),
            "mostly_0": np.where(generator.random(300) < 0.8, 0, generator.integers(0, 1000, 300)),
        }
    )
    return saved(fit_table(frame, **TINY), tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="session")
def wide(chromium, tmp_path_factory):
    """200 columns, every other one of numbers."""
    generator = np.random.default_rng(0)
    hidden = generator.integers(0, 3, 300)
    columns = {
        f"column {i}": hidden + generator.normal(size=300).round(1)
        if i % 2
        else np.array(["low", "middle", "high"])[(hidden + (generator.random(300) < 0.2)) % 3]
        for i in range(200)
    }
    options = {**TINY, "recipe": "balanced", "layer_size": 4, "replicas": 8, "steps": 15}
    return saved(fit_table(pd.DataFrame(columns), **options), tmp_path_factory.mktemp("wide"), title="wide")


def saved(model, folder, **header):
    path = folder / "page.html"
    Explorer(page(model, header)).save(path)
    return model, path
