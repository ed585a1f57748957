"""Resident memory before and after many calls of each query: `python benchmarks/leaks.py --calls 20000`.

Prints how many bytes a call leaves behind, and ends with an error where that is more than a hundred. A tenth of the
calls come first and do not count: they fill the caches. Half a megabyte is noise of the allocator.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from hyperspn import SPN, Categorical, Circuit, Gaussian, HyperSPN, Mixture
from hyperspn.data.scales import Scale
from hyperspn.leaves import Numeric

NOISE = 512 * 1024
MOST = 100  # bytes per call


def circuits() -> dict[str, Circuit | Mixture]:
    numeric = Numeric(Scale.fit(np.random.default_rng(0).normal(size=200).round(1)), members=4)
    families = [Categorical(2), Categorical(3), Gaussian(2)]
    return {
        "native": HyperSPN(3, 2, 1, leaves=families, engine="native"),
        "layered": SPN(3, 2, 1, leaves=families, engine="layered"),
        "numbers": SPN(3, 2, 1, leaves=[Categorical(2), numeric, numeric]),
        "mixture": Mixture([SPN(3, 2, 1, seed, leaves=families) for seed in range(2)], torch.ones(2)),
    }


def queries(circuit: Circuit | Mixture) -> dict[str, Callable[[], object]]:
    whole = circuit.sample(20, generator=torch.Generator().manual_seed(0))
    holes = whole.double().masked_fill(
        torch.rand(whole.shape, generator=torch.Generator().manual_seed(1)) < 0.5, np.nan
    )
    asked = torch.arange(3) < 1
    return {
        "log_prob": lambda: circuit.log_prob(holes),
        "gradient": lambda: circuit.log_prob(holes).sum().backward(),
        "conditional_log_prob": lambda: circuit.conditional_log_prob(whole, asked),
        "marginals": lambda: circuit.marginals(holes),
        "moments": lambda: circuit.moments(holes),
        "impute": lambda: circuit.impute(holes),
        "sample": lambda: circuit.sample(20),
        "sample_given": lambda: circuit.sample_given(holes, n=2),
        "most_probable": lambda: circuit.most_probable(holes),
        "most_probable_bound": lambda: circuit.most_probable_bound(holes),
    }


def resident() -> int:
    """The bytes in use, once unused memory is given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def left_behind(call: Callable[[], object], calls: int) -> int:
    """The bytes by which memory grows over so many calls."""
    for _ in range(max(1, calls // 10)):
        call()
    before = resident()
    for _ in range(calls):
        call()
    return resident() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--circuit", choices=list(circuits()), help="by default all of them")
    options = parser.parse_args()
    calls = options.calls
    torch.set_num_threads(1)
    leaks = 0
    for name in [options.circuit] if options.circuit else circuits():
        for query, call in queries(circuits()[name]).items():
            grown = left_behind(call, calls)
            leaks += grown > NOISE + MOST * calls
            print(f"{name:8} {query:22} {grown / calls:10.1f} bytes per call", flush=True)
    print(f"{leaks or 'no'} queries leave more behind than {MOST} bytes per call and {NOISE // 1024} kB of noise")
    sys.exit(leaks > 0)


if __name__ == "__main__":
    main()
