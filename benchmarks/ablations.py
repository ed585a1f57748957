"""What each part of the recipes beyond the paper is worth: python benchmarks/ablations.py [--datasets plants,dna].

Trains one recipe per data set as it is, and again with one thing changed, and prints test log-likelihoods as Markdown.
One seed; everything else, and the step that counts, by validation rows.
"""

from __future__ import annotations

import argparse

from typing import Any

import joblib
import torch

from rich.progress import track

from hyperspn import datasets, fit
from hyperspn.learning.recipes import RECIPES, Recipe

FACTORED = Recipe("chow-liu", "factored", layer_size=4, replicas=64, features=16)
BALANCED = RECIPES["hyperspn"]["balanced"]

Changes = dict[str, Any]

VARIANTS: dict[str, tuple[Changes, Changes]] = {
    "as it is": ({}, {}),
    "cold start": ({"warm": False}, {}),
    "no prior": ({}, {"weight_decay": 0.0}),
    "constant learning rate": ({}, {"annealing": False}),
    "random order of the leaves": ({"structure": "random"}, {}),
    "one replica": ({"replicas": 1}, {}),
    "softening 0.002": ({}, {"softening": 0.002}),
    "dropout 0.02": ({}, {"dropout": 0.02}),
    "twice the steps": ({}, {"steps": 2.0}),
    "averaging 0.99": ({}, {"averaging": 0.99}),
    "averaging 0.999, constant learning rate": ({}, {"averaging": 0.999, "annealing": False}),
}
"""Changes of the recipe and of its schedule; those of `steps` are factors."""


def train_variant(name: str, recipe: Recipe, variant: str) -> tuple[str, str, float, int]:
    torch.set_num_threads(1)
    data = datasets.load_dataset(name)
    of_recipe, of_schedule = VARIANTS[variant]
    recipe = recipe._replace(**of_recipe)
    steps = int(recipe.schedule(*data.train.shape)["steps"] * of_schedule.get("steps", 1))
    schedule = recipe.schedule(*data.train.shape, **{**of_schedule, "steps": steps})
    circuit = recipe.build(data.train)
    fit(circuit, data.train, data.valid, **schedule, progress=False)
    with torch.no_grad():
        return name, variant, circuit.log_prob(data.test).double().mean().item(), circuit.num_parameters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default="dna,plants,jester,amzn_apparel")
    parser.add_argument("--balanced", default="amzn_furniture,amzn_safety", help="data sets for balanced trees")
    parser.add_argument("--jobs", type=int, default=-1)
    options = parser.parse_args()
    recipes = dict.fromkeys(options.datasets.split(","), FACTORED) | dict.fromkeys(
        options.balanced.split(","), BALANCED
    )
    jobs = [
        joblib.delayed(train_variant)(name, recipe, variant) for variant in VARIANTS for name, recipe in recipes.items()
    ]
    parallel = joblib.Parallel(options.jobs, return_as="generator_unordered")
    results = {(name, variant): values for name, variant, *values in track(parallel(jobs), total=len(jobs))}
    print("| |", " | ".join(recipes), "|\n|---|" + "---|" * len(recipes))
    for variant in VARIANTS:
        cells = (f"{test:.3f} ({size / 1000:.0f}k)" for test, size in (results[name, variant] for name in recipes))
        print(f"| {variant} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
