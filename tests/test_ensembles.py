import json

import numpy as np
import pandas as pd
import pytest
import torch

from typer.testing import CliRunner

from hyperspn import Mixture, TableModel, fit_table, load
from hyperspn.cli.main import app
from hyperspn.explorer.page import page
from hyperspn.explorer.serve import Answers
from hyperspn.learning import checkpoint
from hyperspn.learning.ensembles import fit_ensemble, judging_rows, mixture_weights
from hyperspn.learning.recipes import Recipe

pytestmark = pytest.mark.usefixtures("one_thread")

RECIPES = {
    "small": Recipe("chow-liu", "direct", layer_size=2, replicas=1),
    "factored": Recipe("chow-liu", "factored", layer_size=2, replicas=4),
}
OPTIONS = {"steps": 20, "evaluate_every": 10, "progress": False}


def binary_rows(count, seed=0):
    generator = np.random.default_rng(seed)
    kind = generator.random((count, 1)) < 0.4
    return ((generator.random((count, 6)) < np.where(kind, 0.8, 0.3)) ^ (kind & (np.arange(6) > 3))).astype(np.uint8)


def people(count=300):
    generator = np.random.default_rng(0)
    kind = generator.random(count) < 0.5
    frame = pd.DataFrame(
        {"job": np.where(kind, "nurse", "smith"), "age": generator.normal(np.where(kind, 30, 60), 5).round(1)}
    )
    frame["city"] = np.where(generator.random(count) < 0.8, frame["job"].str[0], "x")
    frame.loc[::17, "age"] = np.nan
    return frame


@pytest.fixture(scope="module")
def model():
    return fit_table(people(), ensemble=3, quality="fast", **OPTIONS)


@pytest.mark.parametrize("rows", [1, 7, 200])
def test_weights_are_the_most_likely_ones(rows):
    """With one row's worth of doubt they maximize sum_b log p(b) + 1/2 sum_c log w_c: by a grid."""
    log_p = 3 * torch.randn(rows, 2, generator=torch.Generator().manual_seed(rows), dtype=torch.float64)
    importance = torch.rand(rows, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    grid = torch.linspace(0.0005, 0.9995, 1000, dtype=torch.float64)
    log_weights = torch.stack([grid, 1 - grid]).log()  # (2, grid)
    likelihoods = (log_p[:, :, None] + log_weights).logsumexp(1)  # (rows, grid)
    best = (importance / importance.mean()) @ likelihoods + 0.5 * log_weights.sum(0)
    weights = mixture_weights(log_p, importance)
    assert weights.sum().item() == pytest.approx(1)
    assert weights[0].item() == pytest.approx(grid[best.argmax()].item(), abs=2e-3)


def test_rows_that_nothing_explains_do_not_count():
    log_p = torch.tensor([[-1.0, -2.0], [-3.0, -torch.inf], [-0.5, -0.1]], dtype=torch.float64)
    impossible = torch.full((1, 2), -torch.inf, dtype=torch.float64)
    torch.testing.assert_close(mixture_weights(torch.cat([log_p, impossible])), mixture_weights(log_p))


def test_the_other_half_judges():
    for count in (2, 3, 100):
        assert judging_rows(count, seed=1).sum() == count // 2
    assert not np.array_equal(judging_rows(100, 1), judging_rows(100, 2))


def test_an_ensemble_is_better_than_its_members():
    train, valid, test = binary_rows(400), binary_rows(200, 1), binary_rows(2000, 2)
    mixture = fit_ensemble(RECIPES, train, valid, members=4, seed=3, steps=100, progress=False)
    assert isinstance(mixture, Mixture)
    values = [circuit.log_prob(test).mean().item() for circuit in mixture.components]
    assert mixture.log_prob(test).mean().item() > max(values) - 0.01
    learned = torch.stack([c.log_prob(valid[~judging_rows(200, 3)]) for c in mixture.components], 1).double()
    torch.testing.assert_close(mixture.log_weights.exp().double(), mixture_weights(learned), rtol=1e-4, atol=1e-5)
    assert {circuit.notes["recipe"] for circuit in mixture.components} <= set(RECIPES)
    assert mixture.notes["trained"] == 4


def test_further_members_learn_other_trees():
    recipes = {"tree": Recipe("chow-liu", "direct", layer_size=2, replicas=1)}
    noise = np.random.default_rng(0).integers(0, 2, (100, 6))
    mixture = fit_ensemble(recipes, noise, None, members=3, seed=0, **OPTIONS)
    structures = {
        circuit.structure.leaf_variables.tobytes() + circuit.structure.children.tobytes()
        for circuit in mixture.components
    }
    assert len(structures) > 1
    torch.testing.assert_close(mixture.log_weights.exp(), torch.full((3,), 1 / 3))


def test_an_interrupted_ensemble_goes_on(tmp_path, monkeypatch):
    train, valid = binary_rows(200), binary_rows(100, 1)
    arguments = {"members": 4, "seed": 1, **OPTIONS}
    fit_ensemble(RECIPES, train, valid, folder=tmp_path / "whole", **arguments)
    keep, calls = checkpoint.Folder.keep, []

    def watched(*given):
        if len(calls) == 10:
            raise KeyboardInterrupt
        calls.append(given)
        keep(*given)

    monkeypatch.setattr(checkpoint.Folder, "keep", watched)
    with pytest.raises(KeyboardInterrupt):
        fit_ensemble(RECIPES, train, valid, folder=tmp_path / "parts", **arguments)
    assert not (tmp_path / "parts" / "model.safetensors").exists()
    calls.clear()
    fit_ensemble(RECIPES, train, valid, folder=tmp_path / "parts", **arguments)
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert files[0] == files[1]
    (tmp_path / "parts" / "checkpoint.pt").touch()
    with pytest.raises(ValueError, match="there is another run in"):
        fit_ensemble(RECIPES, train, valid, folder=tmp_path / "parts", **arguments)


def test_time_that_is_over_ends_with_what_there_is():
    mixture = fit_ensemble(RECIPES, binary_rows(100), binary_rows(50, 1), members=8, minutes=0, **OPTIONS)
    assert mixture.notes["trained"] < 8


def single(model, component):
    return TableModel(model.circuit.components[component], model.schema)


def test_a_table_is_learned_by_an_ensemble_and_answers_as_its_members_together(model):
    weights, parts = model.circuit.log_weights.exp().tolist(), range(len(model.circuit.components))
    frame = people()
    expected = sum(w * np.exp(single(model, c).log_likelihood(frame)) for c, w in zip(parts, weights))
    np.testing.assert_allclose(np.exp(model.log_likelihood(frame)), expected, rtol=1e-9)
    given = "age=25..40"
    p_given = [w * np.exp(single(model, c).chance(given).log_p) for c, w in zip(parts, weights)]
    p_both = [w * np.exp(single(model, c).chance(given + ", job=nurse").log_p) for c, w in zip(parts, weights)]
    assert model.probability("job=nurse", given) == pytest.approx(sum(p_both) / sum(p_given), rel=1e-9)
    means = [single(model, c).distribution("age", "job=smith").mean for c in parts]
    shares = [w * np.exp(single(model, c).chance("job=smith").log_p) for c, w in zip(parts, weights)]
    answer = model.distribution("age", "job=smith")
    assert answer.mean == pytest.approx(np.average(means, weights=shares), rel=1e-6)
    below = np.average(
        [single(model, c).probability(f"age=..{answer.quantiles[0.5]}", "job=smith") for c in parts], weights=shares
    )
    assert 0.5 <= below < 0.6


def test_questions_to_an_ensemble(model):
    frame = people()
    strangeness = model.surprisal(frame)
    row = frame.iloc[[3]]
    rest = row.assign(age=np.nan)
    bits = (model.log_likelihood(rest) - model.log_likelihood(row)) / np.log(2)
    assert strangeness.cells[3, 1] == pytest.approx(bits[0] + np.log2(10), rel=1e-6)  # cells are 0.1 wide
    assert len(model.anomalies(frame, top=2)) == 2
    assert set(model.influence("job").bits) == {"age", "city"}
    assert model.influence("job").bits["age"] <= model.influence("job").entropy
    alike = model.similar(row, frame)
    assert alike[3] == pytest.approx(alike.max(), rel=0.3)
    assert model.explain("job=nurse", "age=30").answer > 0
    filled = model.impute(frame)
    assert not filled["age"].isna().any()
    assert filled["age"][1] == frame["age"][1]
    assert (model.impute(frame, interval=0.9)["age.low"].dropna() < 80).all()
    assert len(model.sample(5, given="job=smith")) == 5
    assert model.predict(frame, "age").shape == (300, 6)
    assert len(model.impute(frame, draws=2)) == 600


def test_an_ensemble_is_one_file(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = TableModel.load(tmp_path)
    assert isinstance(load(tmp_path / "model.safetensors"), Mixture)
    assert again.recipe == f"ensemble of {len(model.circuit.components)}"
    assert again.num_rows == model.num_rows
    np.testing.assert_allclose(again.log_likelihood(people()), model.log_likelihood(people()), rtol=1e-6)


def test_a_server_shows_an_ensemble_and_a_page_alone_says_why_not(model):
    with pytest.raises(ValueError, match=r"this model is an ensemble of \d circuits, which a page cannot evaluate"):
        model.explore()
    assert "<html" in page(model, served=True)
    (answer,) = Answers(model).infer([[None, None, {"weights": [1.0, 0.0, 0.0]}]])
    for variable, posterior in enumerate(answer["posterior"]):
        assert len(posterior) == model.circuit.leaves.families[variable].width
        assert sum(posterior) == pytest.approx(1)


def test_the_command_tells_of_members_and_resumes(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    command = f"train {tmp_path}/people.csv --out {tmp_path}/run --ensemble 3 --quality fast --steps 20 --json".split()
    report = json.loads(CliRunner().invoke(app, command).stdout)
    members = report["members"]
    assert sum(member["weight"] for member in members) == pytest.approx(1, abs=1e-5)
    assert len(members) + report["left_out_members"] == 3
    assert report["parameters"] == sum(member["parameters"] for member in members)
    assert report["test"] > min(member["test"] for member in members)
    assert all({"recipe", "seed", "valid"} <= member.keys() for member in members)
    again = json.loads(CliRunner().invoke(app, command).stdout)
    assert again["already_trained"]
    assert again["members"] == members
    shown = CliRunner().invoke(app, command[:-1]).stdout
    assert "member 1 (" in shown
    assert "this model (ensemble of" in shown


@pytest.mark.parametrize("count", ["0", "-1"])
def test_a_wrong_number_of_members_is_refused(count, tmp_path):
    result = CliRunner().invoke(app, f"train digits --out {tmp_path} --ensemble {count}".split())
    assert "expected --ensemble to be a whole number >= 1" in str(result.exception)
