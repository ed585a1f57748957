"""The report on a model: its numbers, and a page that runs nothing and loads nothing."""

import base64
import hashlib
import re

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from sklearn.metrics import normalized_mutual_info_score

from hyperspn import TableModel, fit_table
from hyperspn.cli.rows import splits_of
from hyperspn.data import Splits, read_table
from hyperspn.explorer.comparison import compare_columns, dependence
from hyperspn.explorer.report import report

HOSTILE = "<img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """The tags, attributes and words of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def page(people):
    model = TableModel.load(people[0] / "run")
    return report(model, splits_of(model), read_table(people[0] / "people.csv"), "people")


def test_the_command(run, people, tmp_path):
    code, output, _ = run(f"report {people[0]}/run --out {tmp_path}/people.html")
    assert (code, output.strip()) == (0, str(tmp_path / "people.html"))
    assert (tmp_path / "people.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_page_tells_everything(page, people):
    words = " ".join(Page(page).words)
    names = ["color", "size", "price", "in stock", "Can it be trusted?", "Pairs of columns", "The most anomalous rows"]
    assert all(name in words for name in names)
    assert f"{people[1]['test']:.4f}" in words
    assert "Two-sample test" in words
    assert page.count("<svg") == 4 + 3


def test_nothing_runs_and_nothing_is_loaded(page):
    parsed = Page(page)
    assert "script" not in parsed.tags
    assert not {name for name, _ in parsed.attributes} & {"src", "href", "style", "onload", "onclick"}
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page
    assert not re.search(r"https?://|url\(|@import", page)


def test_names_and_values_are_data():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({HOSTILE: generator.choice([HOSTILE, "b & c"], 80), "n": generator.normal(size=80).round(1)})
    model = fit_table(frame, recipe="chow-liu", layer_size=2, replicas=1, steps=5, progress=False)
    x = model.schema.encode(model_table(frame))
    text = report(model, Splits(model.schema, x[:60], x[60:70], x[70:]), frame, title=HOSTILE)
    parsed = Page(text)
    assert "img" not in parsed.tags
    assert HOSTILE in parsed.words


def model_table(frame):
    import pyarrow as pa

    return pa.Table.from_pandas(frame)


def test_shares_are_counted():
    generator = np.random.default_rng(0)
    gain = np.where(generator.random(500) < 0.6, 0, generator.exponential(30, 500).round(1) + 0.1)
    frame = pd.DataFrame({"kind": generator.choice(list("abc"), 500, p=[0.5, 0.3, 0.2]), "gain": gain})
    model = fit_table(frame, recipe="chow-liu", layer_size=2, replicas=1, steps=5, progress=False)
    x = model.schema.encode(model_table(frame))
    kind, gains = compare_columns(model.schema, x[:250], x[250:])
    assert kind.labels == tuple(frame["kind"][:250].value_counts().index)
    np.testing.assert_allclose(kind.real, frame["kind"][:250].value_counts(normalize=True))
    np.testing.assert_allclose(kind.sampled, frame["kind"][250:].value_counts(normalize=True)[list(kind.labels)])
    assert (gains.spikes, gains.labels[0]) == (1, "0")
    assert gains.real[0] == pytest.approx((gain[:250] == 0).mean())
    assert gains.real.sum() == pytest.approx(1)
    assert gains.sampled.sum() == pytest.approx(1)
    assert 0 < kind.difference < 3 * kind.chance
    assert compare_columns(model.schema, x, x)[1].difference == 0


def test_dependence_is_normalized_mutual_information():
    generator = np.random.default_rng(0)
    first = generator.choice(list("abc"), 400)
    frame = pd.DataFrame(
        {"a": first, "b": np.where(generator.random(400) < 0.5, first, "z"), "c": generator.choice(list("uv"), 400)}
    )
    model = fit_table(frame, recipe="chow-liu", layer_size=2, replicas=1, steps=5, progress=False)
    x = model.schema.encode(model_table(frame))
    matrix = dependence(model.schema, x, x)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        expected = normalized_mutual_info_score(frame.iloc[:, i], frame.iloc[:, j])
        assert matrix[i, j] == matrix[j, i] == pytest.approx(expected, abs=1e-12)
