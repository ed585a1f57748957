"""How many directions are left in the published HyperSPNs: python benchmarks/plateaus.py amzn_furniture [--seeds 8].

Trains a setting of the paper's tables with several seeds, and prints as Markdown the best validation value of each and
the rank of the last hidden layer over all sectors: few directions, where the ReLU has silenced units, go with plateaus.
"""

from __future__ import annotations

import argparse

import torch

from hyperspn import datasets, fit
from hyperspn.experiments.settings import METHODS, SCHEDULES, SETTINGS
from hyperspn.weights.hyper import HyperWeights

SMALLEST = 0.01


@torch.no_grad()
def directions(weights: HyperWeights) -> int:
    """The singular values of the last hidden layer's outputs above `SMALLEST` of the largest."""
    x = weights.embeddings
    for layer in weights.net:
        x = layer(x).relu()
    return int(torch.linalg.matrix_rank(x - x.mean(0), rtol=SMALLEST))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=SCHEDULES)
    parser.add_argument("--setting", default="hyperspn_h10", choices=METHODS["hyperspn"] + METHODS["hyperspn_careful"])
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = datasets.load_dataset(options.dataset)
    print("| seed | directions | validation | at step |\n| --- | --- | --- | --- |")
    for seed in range(options.seeds):
        circuit = SETTINGS[options.setting].build(data.train.shape[1], seed)
        schedule = SCHEDULES[options.dataset]._asdict()
        history = fit(circuit, data.train, data.valid, **schedule, seed=seed, progress=False)
        print(
            f"| {seed} | {directions(circuit.weights)} | {history.best_valid:.3f} | {history.best_step} |", flush=True
        )


if __name__ == "__main__":
    main()
