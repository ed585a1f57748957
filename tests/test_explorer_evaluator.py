"""The explorer's evaluator gives the same numbers as Python, on random evidence of all kinds."""

import os

from functools import cache
from math import exp, inf
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evaluator import ask, random_evidence

from hyperspn import TableModel, fit_table
from hyperspn.asking.distributions import LEVELS
from hyperspn.asking.numbers import mean_and_std, quantiles
from hyperspn.asking.reading import known_of, read, values_of, width_of
from hyperspn.data import load_splits
from hyperspn.learning import recipes

needs_data = pytest.mark.skipif("HYPERSPN_DATA" not in os.environ, reason="needs the tables in HYPERSPN_DATA")
CASES = {
    "direct": ("learned", "direct", 3, 2),
    "hyper": ("chow-liu", "hyper", 4, 3),
    "factored": ("chow-liu", "factored", 3, 4),
    "hyper of low rank": ("chow-liu", "hyper", 7, 3),
    "factored of low rank": ("chow-liu", "factored", 7, 4),
}
RANK = 3
EACH, WHOLE = 70, 4
CLOSE = {"rel": 1e-6, "abs": 1e-12}
splits_of = cache(load_splits)


def small_model(table, case):
    """A model of a table with weights of some kind, trained for a moment."""
    splits, recipe = splits_of(table), recipes.Recipe(*CASES[case])
    if recipe.weights != "direct":
        recipe = recipe._replace(hidden=(8, 8), rank=RANK if "low rank" in case else None)
    rows = splits.train[:400]
    circuit, _ = recipe.train(
        rows, splits.valid[:50], recipes.leaf_families(splits.schema, 8), steps=15, progress=False, seed=1
    )
    assert ("low rank" in case) == (recipe.weights != "direct" and circuit.weights.layouts[0].rank == RANK)
    return TableModel(circuit, splits.schema)


def check_answers(folder, model, texts):
    (answers,) = ask(folder, (model, [("answer", {"given": text, "levels": LEVELS}) for text in texts]))
    known = [known_of(model.schema, text) for text in texts]
    evidence, again = read(model, *known), read(model, *(known_of(model.schema, answer["again"]) for answer in answers))
    log_scale = model.schema.log_scale(np.concatenate([values_of(model.schema, row) for row in known]))
    log_p = model.circuit.log_prob(evidence).numpy() - log_scale
    np.testing.assert_allclose(model.circuit.log_prob(again).numpy() - log_scale, log_p, rtol=1e-9, atol=1e-12)
    assert [answer["logP"] for answer in answers if answer["posterior"] is None] == ["-inf"] * int(
        np.isneginf(log_p).sum()
    )
    possible = np.flatnonzero(log_p > -inf)
    for row in possible:
        assert answers[row]["isProbability"] == all(entry.is_probability for entry in known[row].values()), texts[row]
        assert exp(answers[row]["logP"] - log_p[row]) == pytest.approx(1, rel=1e-6), texts[row]
    posterior = model.circuit.marginals(evidence)
    for row in possible:
        for variable in range(len(model.schema.columns)):
            own = posterior[row, variable, : width_of(model, variable)]
            found = answers[row]["posterior"][variable]
            np.testing.assert_allclose(found, own, rtol=1e-6, atol=1e-12, err_msg=texts[row])
    check_numbers(model, known, posterior, answers, possible[possible < WHOLE])


def check_numbers(model, known, posterior, answers, rows):
    """Quantiles, means and standard deviations of the numbers that are not known in some rows."""
    for variable, column in enumerate(model.schema.columns):
        free = [row for row in rows if variable not in known[row]]
        if not column.is_numeric or not free:
            continue
        own = posterior[free, variable, : width_of(model, variable)]
        levels = quantiles(model.circuit, variable, own, LEVELS) * column.std + column.mean
        for row, expected, mean, std in zip(free, levels, *mean_and_std(model.circuit, variable, own)):
            numbers = answers[row]["numbers"][variable]
            assert numbers["quantiles"] == pytest.approx(list(expected), **CLOSE), (column.name, known[row])
            expected = [mean * column.std + column.mean, std * column.std]
            assert [numbers["mean"], numbers["std"]] == pytest.approx(expected, **CLOSE), (column.name, known[row])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "table", ["penguins", *(pytest.param(name, marks=needs_data) for name in ("titanic", "adult"))]
)
def test_the_same_numbers_as_in_python(tmp_path, table, case):
    model, generator = small_model(table, case), np.random.default_rng(0)
    check_answers(tmp_path, model, [random_evidence(model, generator) for _ in range(EACH)])


@pytest.fixture(scope="module")
def mixed():
    """Dates, spelled numbers, pooled categories, booleans, point masses, holes that are data, and awkward names."""
    generator, rows = np.random.default_rng(0), 500
    rare = [f"rare {i}" for i in range(rows // 2)]
    size = generator.normal(size=rows)
    frame = pd.DataFrame(
        {
            "a, b": generator.choice(["x", "y|z", 'say "no"', "missing"], rows),
            "town": [*rare, *["big: city"] * (rows - len(rare))],
            "size": size,
            "gain": np.where(generator.random(rows) < 0.6, 0, generator.exponential(3000, rows).round()).astype(int),
            "price": [f"{1000 * np.exp(value):,.2f} €".translate(str.maketrans(",.", ".,")) for value in size],
            "day": [f"{1 + int(i) % 28}/{1 + int(i) % 12}/{2000 + int(i) % 20}" for i in 40 + 9 * size],
            "seen": np.datetime64("2020-01-01T10:00") + (600 * size).astype("timedelta64[m]"),
            "grade": generator.integers(1, 5, rows),
            "flag": generator.random(rows) < 0.3,
        }
    )
    for name in ("gain", "a, b", "price"):
        frame[name] = frame[name].where(generator.random(rows) < 0.8)
    return fit_table(
        frame, recipe="factored", layer_size=3, replicas=3, steps=20, progress=False, missing_as_data=True, seed=1
    )


def test_columns_of_all_kinds(mixed, tmp_path):
    kinds = [column.kind for column in mixed.schema.columns]
    assert kinds.count("date") == 2
    assert mixed.schema.columns[1].pooled
    assert mixed.schema.columns[4].spelling is not None
    generator = np.random.default_rng(1)
    check_answers(tmp_path, mixed, [random_evidence(mixed, generator) for _ in range(EACH)])


def test_a_file_of_version_0_1_0(tmp_path):
    model = TableModel.load(Path(__file__).parent / "files" / "0.1.0" / "people")
    texts = ["", "age=30.5", "age>40, city=Ulm", "age=..25|60.., code=1..2", "sex~f:0.7|m:0.3, income!=20..30"]
    check_answers(tmp_path, model, texts)


def test_samples_are_as_probable_as_they_should_be(mixed, tmp_path):
    """A thousand rows under evidence: they are as it says, and categories and quartiles as often as the model has it."""
    given, count = 'gain>0, "a, b=x|missing"', 1000
    (answers,) = ask(tmp_path, (mixed, [("sample", {"given": given, "count": count, "seed": 1})]))
    drawn = pd.DataFrame(answers[0], columns=mixed.schema.names)
    assert (pd.to_numeric(drawn["gain"]) > 0).all()
    assert set(drawn["a, b"]) == {"x", ""}
    for name in ("grade", "flag"):
        for value, p in mixed.distribution(name, given).probabilities.items():
            if value != "missing":
                error = 4.5 * (p * (1 - p) / count) ** 0.5
                assert (drawn[name] == str(value)).mean() == pytest.approx(p, abs=error)
    for level, value in mixed.distribution("size", given).quantiles.items():
        assert (pd.to_numeric(drawn["size"]) <= value).mean() == pytest.approx(level, abs=0.08)


def test_influence_joint_distributions_and_explanations(mixed, tmp_path):
    given, others = "grade=1|2, gain>=0", [name for name in mixed.schema.names if name != "flag"]
    questions = [
        ("influence", {"given": given, "target": "flag", "others": others}),
        ("influence", {"given": given, "target": "gain", "others": ["size", "flag"]}),
        ("joint", {"given": given, "columns": ["grade", "flag"]}),
        ("explain", {"given": given, "target": "flag", "code": 1}),
        *(("explain", {"given": given, "target": name}) for name in ("size", "price", "day")),
    ]
    ((of_flag, of_gain, joint, explained, *of_numbers),) = ask(tmp_path, (mixed, questions))
    expected = mixed.influence("flag", given).bits
    assert of_flag == pytest.approx([expected[name] for name in others], abs=1e-8)
    expected = mixed.influence("gain", given).bits
    assert of_gain == pytest.approx([expected[name] for name in ("size", "flag")], abs=1e-8)
    table = mixed.distribution(["grade", "flag"], given).probabilities
    shown = {(i, j): p for i, row in zip(joint["labels"][0], joint["rows"]) for j, p in zip(joint["labels"][1], row)}
    assert shown == pytest.approx({(str(i), str(j)): p for (i, j), p in table.items()}, abs=1e-9)
    for name, answer in zip(("flag=True", "size", "price", "day"), (explained, *of_numbers)):
        explanation = mixed.explain(name, given)
        assert answer["values"] == pytest.approx([explanation.start, *(s.answer for s in explanation.steps)], **CLOSE)
