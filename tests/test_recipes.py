import numpy as np
import pytest
import torch

from worlds import all_worlds

import hyperspn

from hyperspn import Categorical, Gaussian
from hyperspn.data import recognize, table_of
from hyperspn.learning.history import Progress
from hyperspn.learning.recipes import PRIOR, QUALITIES, RECIPES, Recipe, candidates, leaf_families
from hyperspn.learning.search import search, trials
from hyperspn.weights.direct import DirectWeights
from hyperspn.weights.factored import FactoredWeights
from hyperspn.weights.hyper import HyperWeights

pytestmark = pytest.mark.usefixtures("one_thread")

SOURCES = {"direct": DirectWeights, "hyper": HyperWeights, "factored": FactoredWeights}
LOW_RANK = [Recipe("chow-liu", weights, layer_size=9, rank=2) for weights in ("hyper", "factored")]
ALL = [*(recipe for recipes in RECIPES.values() for recipe in recipes.values()), *LOW_RANK]


def pairs(rows, seed=0):
    """Rows of three pairs of equal bits, the two of a pair far apart."""
    x = np.random.default_rng(seed).integers(0, 2, (rows, 3))
    return np.concatenate([x, x], axis=1).astype(np.float64)


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: f"{recipe.structure} {recipe.weights}")
def test_every_recipe_makes_a_distribution(recipe):
    circuit = recipe._replace(replicas=3).build(pairs(100))
    assert isinstance(circuit.weights, SOURCES[recipe.weights])
    assert (circuit.sectors.layer_size, len(circuit.mixture)) == (recipe.layer_size, 3)
    assert getattr(circuit.weights, "rank", None) == recipe.rank
    with torch.no_grad():
        assert circuit.log_prob(all_worlds(circuit)).exp().sum().item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("structure", ["learned", "chow-liu"])
def test_structures_are_learned_from_the_table(structure):
    recipe = Recipe(structure, "hyper", replicas=1)
    circuit = recipe.build(pairs(500))
    regions = circuit.structure
    scopes = [set(regions.scope(region)) for region in range(regions.num_regions)]
    assert sum({v, v + 3} in scopes for v in range(3)) >= 1


def test_mixed_tables_and_single_columns():
    x = np.column_stack([pairs(200)[:, :2], np.random.default_rng(0).normal(size=200)])
    x[::7, 2] = np.nan
    for recipe in ALL:
        circuit = recipe._replace(replicas=2).build(x, [Categorical(2), Categorical(2), Gaussian(3)], seed=1)
        assert circuit.log_prob(x).isfinite().all()
        single = recipe._replace(replicas=2).build(x[:, :1])
        assert single.num_variables == 1
        assert torch.isfinite(single.log_prob(x[:, :1])).all()


def test_the_schedule_suits_the_table():
    recipe = Recipe("chow-liu", "factored")
    found = [recipe.schedule(rows, 200) for rows in (10, 1670, 10_000, 291_326)]
    assert [schedule["steps"] for schedule in found] == [800, 800, 1250, 4000]
    assert [schedule["batch_size"] for schedule in found] == [50, 83, 200, 200]
    for rows, schedule in zip((10, 1670, 10_000, 291_326), found, strict=True):
        of_all_rows = schedule["weight_decay"]["heads"] * rows / min(rows, schedule["batch_size"])
        assert of_all_rows == pytest.approx(PRIOR)
    assert [recipe.schedule(10**6, variables)["steps"] for variables in (1, 16, 64, 100)] == [
        125_000,
        25_000,
        6250,
        4000,
    ]
    assert "weight_decay" not in Recipe().schedule(100, 5)
    given = recipe.schedule(1000, 5, steps=40, batch_size=100, weight_decay=0.5, annealing=False, patience=None)
    assert given == {"steps": 40, "batch_size": 100, "evaluate_every": 2, "annealing": False, "weight_decay": 0.5}


def test_the_schedule_of_em_takes_all_rows():
    found = Recipe(weights="direct").schedule(3000, 5, optimizer="em", learning_rate=None)
    assert found == {"steps": 100, "batch_size": 3000, "evaluate_every": 5, "pseudocount": 1, "optimizer": "em"}
    given = Recipe(weights="direct").schedule(3000, 5, optimizer="em", batch_size=500, pseudocount=0, step_size=0.1)
    assert (given["batch_size"], given["pseudocount"], given["step_size"]) == (500, 0, 0.1)


def test_the_search_chooses_on_validation_and_goes_on(tmp_path):
    alone = {f"alone{seed}": Recipe(layer_size=1, replicas=1) for seed in range(3)}
    recipes = alone | {"trees": Recipe("chow-liu", "direct", replicas=2)}
    options = {"folder": tmp_path, "steps": 400, "progress": False, "notes": {"by": "me"}}
    found = search(recipes, pairs(200), pairs(100, 1), **options)
    assert found.name == "trees"
    runs = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("model.safetensors")}
    rounds = {"short": [*recipes], "long": ["trees", "alone0", "alone1"], "full": ["trees", "alone0"]}
    assert runs == {f"trials/{label}/{name}" for label in rounds for name in rounds[label]} | {"."}
    loaded = hyperspn.load(tmp_path / "model.safetensors")
    assert loaded.notes == {"by": "me", "recipe": "trees"}
    assert loaded.log_prob(pairs(100, 1)).double().mean().item() == pytest.approx(max(found.history.valid), abs=1e-5)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("trials/**/*.pt")}
    assert search(recipes, pairs(200), pairs(100, 1), **options).history == found.history
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("trials/**/*.pt")} == stamps


def test_the_search_returns_the_best_of_all_rounds():
    noise = np.random.default_rng(0).integers(0, 2, (140, 8))
    train, valid = noise[:40], noise[40:]
    recipes = {name: Recipe(layer_size=3, replicas=5) for name in "abcd"}
    options = {"seed": 0, "progress": False, "steps": 200, "batch_size": 40, "evaluate_every": 200}
    parts = [recipes["a"].train(train, valid, part=part, **options)[1].best_valid for part in (0.1, 0.4, 1)]
    assert parts[0] > parts[2]
    assert search(recipes, train, valid, **options).history.best_valid == max(parts)


def test_a_search_over_another_run_is_refused_before_it_trains(tmp_path, monkeypatch):
    recipes = {name: Recipe(layer_size=size, replicas=1) for name, size in (("a", 1), ("b", 2), ("c", 3))}
    options = {"steps": 4, "progress": False}
    folders = {names: tmp_path / names for names in ("a", "ab", "abc")}
    for names, folder in folders.items():
        chosen = {name: recipes[name] for name in names}
        search(chosen, pairs(50), pairs(50, 1), folder=folder, **options)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(Recipe, "train", None)
    for names in ("a", "abc"):
        two = {name: recipes[name] for name in "ab"}
        with pytest.raises(ValueError, match=rf"there is another run in {folders[names]}: choose another folder"):
            search(two, pairs(50), pairs(50, 1), folder=folders[names], **options)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="found train"):
        search(recipes, pairs(50, 2), pairs(50, 1), folder=folders["abc"], **options)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_quality_decides_what_is_tried():
    mixed = [Categorical(2), Categorical(3)]
    assert list(candidates("hyperspn", "auto")) == list(QUALITIES["good"].binary)
    for quality in QUALITIES:
        large = candidates("hyperspn", "auto", quality, 10_000, mixed)
        assert set(large) == set(QUALITIES[quality].large)
        assert not any("forest" in name for name in candidates("hyperspn", "auto", quality, 1000, mixed))
    assert list(candidates("hyperspn", "forest", "fast", 10, mixed)) == ["forest"]
    assert candidates("spn", "auto", "best", 10_000, mixed).keys() == {"forest"}
    assert candidates("spn", "auto", "good", 1000, mixed).keys() == {"chow-liu"}
    with pytest.raises(ValueError, match="expected quality fast, good, best, found 'god'; did you mean good"):
        candidates("hyperspn", "auto", "god")
    recipe = Recipe("chow-liu", "factored")
    assert recipe.schedule(10_000, 200, effort=2)["steps"] == 2 * recipe.schedule(10_000, 200)["steps"]
    assert recipe._replace(learning_rate=0.1).schedule(100, 2)["learning_rate"] == {"heads": 0.1}


def test_time_that_is_over_ends_the_search_with_the_best_so_far(tmp_path):
    recipes = {name: Recipe(layer_size=1, replicas=1) for name in "abcd"}
    found = list(trials(recipes, pairs(50), pairs(50, 1), minutes=0, steps=400, progress=False, folder=tmp_path))
    assert [trained.name for trained in found] == ["a"]
    assert found[0].history.steps == [0]
    assert found[0].history.stopped_early
    assert (tmp_path / "trials" / "short" / "a" / "model.safetensors").exists()
    assert search(recipes, pairs(50), pairs(50, 1), minutes=0, steps=400, progress=False).name == "a"


def test_a_hopeless_recipe_stops_early():
    recipes = {"trees": Recipe("chow-liu", "direct", replicas=2), "alone": Recipe(layer_size=1, replicas=1)}
    trees, alone = trials(recipes, pairs(300), pairs(100, 1), steps=200, progress=False)
    assert not trees.history.stopped_early
    assert alone.history.stopped_early
    assert alone.value < trees.value
    entries = [{"step": step, "valid": value} for step, value in ((0, -9.0), (50, -4.0), (100, -3.0))]
    progress = Progress(False)
    assert not progress.is_hopeless(entries[:2], 100)
    progress.rival = entries
    for value, expected in ((-4.9, False), (-5.1, True)):
        assert progress.is_hopeless([entries[0], {"step": 100, "valid": value}], 200) is expected


def test_one_progress_bar_names_the_stages(capsys):
    recipes = {name: Recipe(layer_size=1, replicas=1) for name in ("one", "two")}
    search(recipes, pairs(50), pairs(50, 1), steps=20)
    shown = capsys.readouterr().err
    assert "two, full round: train" in " ".join(shown.split())
    assert "40/40" in shown


def test_a_table_of_numbers_is_learned_by_a_forest():
    rows = np.random.default_rng(0).normal(size=(200, 2)).round(2)
    schema = recognize(table_of(rows, ["a", "b"]))
    x = schema.encode(table_of(rows, ["a", "b"]))
    recipe = RECIPES["hyperspn"]["forest"]._replace(layer_size=4, replicas=3)
    circuit, history = recipe.train(x, x, leaf_families(schema, 8), steps=30, progress=False)
    assert history.best_valid > history.valid[0]
    assert circuit.log_prob(x).isfinite().all()
