"""The paper's hand-crafted comparison: a large SPN, a small SPN and a HyperSPN learn the same data; then a question.

Run with `make demo`. Writes demo/hand_crafted.png and demo/hyperspn.safetensors.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

import hyperspn

from hyperspn import SPN, Circuit, HyperSPN
from hyperspn.engines import NativeEngine

matplotlib.use("Agg")
from matplotlib import pyplot as plt

STEPS, EVALUATE_EVERY, BATCH = 1000, 50, 500
FOLDER = Path("demo")


def train(circuit: Circuit, rows: torch.Tensor, valid: torch.Tensor, name: str, progress: Progress) -> dict[int, float]:
    """Adam on the summed log-likelihood of random batches, until the validation value stops rising: its curve."""
    optimizer = torch.optim.Adam(circuit.parameter_groups(), fused=True)
    generator = torch.Generator().manual_seed(0)
    task = progress.add_task(name, total=STEPS)
    curve: dict[int, float] = {}
    for step in range(STEPS + 1):
        if step % EVALUATE_EVERY == 0:
            with torch.no_grad():
                curve[step] = circuit.log_prob(valid).mean().item()
            progress.update(task, completed=step, description=f"{name}  valid {curve[step]:.2f}")
            if step - max(curve, key=curve.__getitem__) >= 3 * EVALUATE_EVERY:
                progress.update(task, total=step)
                break
        batch = rows[torch.randperm(len(rows), generator=generator)[:BATCH]]
        optimizer.zero_grad()
        (-circuit.log_prob(batch).sum()).backward()
        optimizer.step()
    return curve


def question(circuit: Circuit) -> str:
    """How much does one variable tell about its neighbor, with the other 254 unknown?"""
    x = torch.zeros(3, 256)
    x[:, :2] = torch.tensor([[1, 1], [1, 1], [0, 1]])
    hidden = torch.ones(3, 256, dtype=torch.bool)
    hidden[:, 1] = False
    hidden[1:, 0] = False
    query = torch.zeros(256, dtype=torch.bool)
    query[1] = True
    with torch.no_grad():
        alone, after_one, after_zero = circuit.conditional_log_prob(x, query, hidden).exp().tolist()
    return (
        f"Variable 1 is on with probability {alone:.3f}; given that its neighbor, variable 0, is on, {after_one:.3f};\n"
        f"given that it is off, {after_zero:.3f}. The other 254 variables were integrated out, exactly."
    )


def picture(curves: dict[str, dict[int, float]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, curve in curves.items():
        axes.plot(list(curve), list(curve.values()), marker=".", label=name)
    axes.set(xlabel="step", ylabel="validation log-likelihood", title="Hand-crafted data, 256 binary variables")
    axes.set_ylim(bottom=max(min(curve.values()) for curve in curves.values()) - 1)
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    train_rows, valid, test = (torch.from_numpy(part) for part in hyperspn.datasets.load_dataset("hand-crafted"))
    replicas = 50 if isinstance(SPN(2).engine, NativeEngine) else 3
    circuits = {
        "SPN-Large": SPN(256, layer_size=5, replicas=replicas),
        "SPN-Small": SPN(256, layer_size=2, replicas=replicas),
        "HyperSPN": HyperSPN(256, layer_size=5, replicas=replicas),
    }
    columns = [*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns) as progress:
        curves = {name: train(circuit, train_rows, valid, name, progress) for name, circuit in circuits.items()}
    for name, circuit in circuits.items():
        with torch.no_grad():
            mean = circuit.log_prob(test).mean()
        print(f"{name:10}{circuit.num_parameters:8,} learnable parameters, test log-likelihood {mean:.2f}")
    print(question(circuits["HyperSPN"]))
    FOLDER.mkdir(exist_ok=True)
    picture(curves, FOLDER / "hand_crafted.png")
    circuits["HyperSPN"].save(FOLDER / "hyperspn.safetensors")
    print(f"Saved {FOLDER / 'hand_crafted.png'} and {FOLDER / 'hyperspn.safetensors'}.")


if __name__ == "__main__":
    main()
