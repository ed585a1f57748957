"""Kills commands at random moments: `python benchmarks/kills.py train --kills 100`, or `reproduce`.

A command is run once without a break. Then it is killed at random moments and started again until it ends, in a new
folder each time, until there were so many kills. Its numbers and its files must be those of the unbroken run, and no
draft of a file may be left. `train` searches among all recipes; `reproduce` makes Table 2 for one data set, with two
jobs at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

from pathlib import Path
from time import monotonic
from typing import Any

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
TIMES = {"seconds", "command", "commit", "clean", "already_trained"}


def command(task: str, model: str, steps: int, folder: Path) -> list[str]:
    arguments = {
        "train": f"train digits --model {model} --steps {steps} --json --out",
        "reproduce": "reproduce table2 --datasets amzn_furniture --seeds 1 --jobs 2 --results",
    }
    return [sys.executable, "-m", "hyperspn", *arguments[task].split(), str(folder)]


def run(arguments: list[str], seconds: float | None = None) -> str | None:
    """What a command prints, or None if it is killed before it ends; its workers may live a moment longer."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(arguments, env=ENVIRONMENT, stdout=output, stderr=errors)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            sys.exit(f"{' '.join(arguments)} ended with {process.returncode}: {errors.read()}")
        return output.read()


def outcome(task: str, folder: Path, output: str) -> dict[str, Any]:
    """All numbers that a command leaves, without times, and the names of its files."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if ".unfinished" not in path.parts)
    if task == "train":
        printed = {name: value for name, value in json.loads(output).items() if name not in TIMES}
        return {"names": names, "printed": printed, "model": (folder / "model.safetensors").read_bytes()}
    records = {path.name: json.loads(path.read_text()) for path in folder.glob("*/*.json")}
    numbers = {name: {k: v for k, v in record.items() if k not in TIMES} for name, record in records.items()}
    return {"names": names, "records": numbers, "table": (folder / "table2.md").read_text()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["train", "reproduce"])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--model", choices=["hyperspn", "spn"], default="hyperspn", help="of train")
    parser.add_argument("--steps", type=int, default=200, help="of train")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, kills, rounds = random.Random(options.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        start = monotonic()
        arguments = command(options.task, options.model, options.steps, Path(name, "whole"))
        whole = outcome(options.task, Path(name, "whole"), run(arguments) or "")
        seconds = monotonic() - start
        while kills < options.kills:
            rounds += 1
            folder, before, start = Path(name, str(rounds)), kills, monotonic()
            arguments = command(options.task, options.model, options.steps, folder)
            while (
                output := run(arguments, chance.uniform(0, 0.7 * seconds) if kills < options.kills else None)
            ) is None:
                kills += 1
            if kills == before:  # how long a run takes now
                seconds = monotonic() - start
            ended = outcome(options.task, folder, output)
            if others := [part for part in whole if ended[part] != whole[part]]:
                sys.exit(f"run {rounds}: other {' and '.join(others)} than the unbroken run")
            print(f"{kills} kills, {rounds} runs: all as the unbroken one", flush=True)


if __name__ == "__main__":
    main()
