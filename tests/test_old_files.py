"""Files of earlier versions open, and give the values that they gave then; the same runs give the same numbers."""

import json

from pathlib import Path

import numpy as np
import pytest
import torch

from hyperspn.recipes import Recipe

from hyperspn import SPN, HyperSPN, Mixture, TableModel, datasets, fit, load
from hyperspn.data import read_table

FILES = Path(__file__).parent / "files" / "0.1.0"
EXPECTED = json.loads((FILES / "expected.json").read_text())
DIGITS = datasets.digits(0)
RUN = {"steps": 60, "batch_size": 100, "evaluate_every": 20, "progress": False, "seed": 3}
EM = {"steps": 10, "batch_size": len(DIGITS.train), "evaluate_every": 5, "optimizer": "em", "pseudocount": 1.0}
RUNS = {
    "spn": (lambda: SPN(64, 3, 5, seed=2), RUN | {"weight_decay": 1e-3}),
    "hyperspn": (lambda: HyperSPN(64, 3, 5, seed=2), RUN | {"dropout": 0.1}),
    "factored": (
        lambda: Recipe("chow-liu", "factored", layer_size=4, replicas=6).build(DIGITS.train, seed=2),
        RUN | {"annealing": True, "softening": 0.01},
    ),
    "em": (lambda: SPN(64, 3, 5, seed=2), EM | {"progress": False}),
}


@pytest.mark.parametrize("name", ["spn", "hyperspn", "factored", "einet", "mixture"])
@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_models_open_and_agree(name, engine):
    path = FILES / f"{name}.safetensors"
    circuit = Mixture.load(FILES / name) if name == "mixture" else load(path, engine=engine)
    rows = np.array(EXPECTED[name]["rows"], float)
    assert np.isnan(rows).any()
    assert circuit.double().log_prob(rows).tolist() == pytest.approx(EXPECTED[name]["log_prob"], rel=1e-9)


def test_a_model_of_a_table_opens_and_agrees():
    expected = EXPECTED["people"]
    model = TableModel.load(FILES / "people")
    x = model.schema.encode(read_table(FILES / "people.csv"))
    assert model.log_likelihood_of_rows(x[:8]).tolist() == pytest.approx(expected["log_prob"], rel=1e-9)
    for given, answer in expected["query"].items():
        assert model.chance(given).log_p == pytest.approx(answer["log_p_given"], rel=1e-5)
        if "probabilities" in answer:
            assert model.distribution("sex", given).probabilities == pytest.approx(answer["probabilities"], rel=1e-5)
        else:
            income = model.distribution("income", given)
            assert (income.mean, income.std) == pytest.approx((answer["mean"], answer["std"]), rel=1e-5)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
def test_the_same_run_gives_the_same_numbers(name, dtype, tolerance):
    build, options = RUNS[name]
    circuit = build().to(dtype)
    history = fit(circuit, DIGITS.train, DIGITS.valid, **options)
    test = circuit.double().log_prob(DIGITS.test).mean().item()
    numbers = {"train": history.train, "valid": history.valid, "test": test}
    expected = EXPECTED["runs"][str(dtype).removeprefix("torch.")][name]
    for key, value in numbers.items():
        assert value == pytest.approx(expected[key], rel=tolerance), key
