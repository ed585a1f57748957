"""Settings: what is trained for the paper's tables and figures, and for how long (Tables 4 and 5)."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..circuits.circuit import Circuit
from ..circuits.models import SPN, HyperSPN
from ..data.datasets import BENCHMARKS
from ..weights.hyper import Start

HAND_CRAFTED = "hand-crafted"
TWENTY = tuple(name for name, known in BENCHMARKS.items() if known.collection == "DEBD")
AMAZON = tuple(name for name, known in BENCHMARKS.items() if known.collection == "amzn")


STARTS: tuple[Start, ...] = ("plain", "careful")
"""How the networks of HyperSPNs start: first as published, and as all records were made that do not say otherwise."""


class Setting(NamedTuple):
    """A model and its regularizer: weights that a network of hidden widths (20, h) writes, or weights that decay."""

    layer_size: int = 5
    replicas: int = 50
    weight_decay: float = 0.0
    hidden: tuple[int, ...] = ()
    start: Start = STARTS[0]

    @property
    def options(self) -> dict[str, Any]:
        """What a record says of the setting; of the start only where it is not the plain one."""
        options = self._asdict()
        if self.start == STARTS[0]:
            del options["start"]
        return options

    @property
    def choice(self) -> str:
        """The value that is chosen on validation: the last hidden width h, or the weight decay w."""
        return str(self.hidden[-1]) if self.hidden else f"{self.weight_decay:.0e}".replace("e-0", "e-")

    def build(self, num_variables: int, seed: int) -> Circuit:
        if self.hidden:
            options: dict[str, Any] = {"hidden": self.hidden, "start": self.start}
            return HyperSPN(num_variables, self.layer_size, self.replicas, seed, **options)
        return SPN(num_variables, self.layer_size, self.replicas, seed)


class Schedule(NamedTuple):
    """How long a setting is trained: the published steps, and the evaluations to wait for a better one."""

    steps: int
    evaluate_every: int
    patience: int
    batch_size: int = 500


SETTINGS = {
    "spn_wd_1e-3": Setting(weight_decay=1e-3),
    "spn_wd_1e-4": Setting(weight_decay=1e-4),
    "spn_wd_1e-5": Setting(weight_decay=1e-5),
    "hyperspn_h5": Setting(hidden=(20, 5)),
    "hyperspn_h10": Setting(hidden=(20, 10)),
    "hyperspn_h20": Setting(hidden=(20, 20)),
    "spn_small_wd_1e-3": Setting(layer_size=2, weight_decay=1e-3),
    "spn_small_wd_1e-4": Setting(layer_size=2, weight_decay=1e-4),
    "spn_small_wd_1e-5": Setting(layer_size=2, weight_decay=1e-5),
    **{f"hyperspn_careful_h{h}": Setting(hidden=(20, h), start=STARTS[1]) for h in (5, 10, 20)},
}

METHODS = {
    "weight_decay": ("spn_wd_1e-3", "spn_wd_1e-4", "spn_wd_1e-5"),
    "hyperspn": ("hyperspn_h5", "hyperspn_h10", "hyperspn_h20"),
    "spn_small": ("spn_small_wd_1e-3", "spn_small_wd_1e-4", "spn_small_wd_1e-5"),
    "hyperspn_careful": ("hyperspn_careful_h5", "hyperspn_careful_h10", "hyperspn_careful_h20"),
}
"""Each method's settings, of which the one with the best validation value counts."""

PUBLISHED_METHODS = ("weight_decay", "hyperspn", "spn_small")
"""The methods of the paper."""

BOTH_METHODS = ("weight_decay", "hyperspn")
"""The methods that most tables compare."""

PLATEAUS = ("amzn_furniture", "amzn_strollers", "amzn_carseats", "ad")
"""The data sets on which seeds of HyperSPN with the plain start lose hidden units."""

SCHEDULES = (
    {HAND_CRAFTED: Schedule(4000, 10, patience=50)}
    | dict.fromkeys(TWENTY, Schedule(4000, 200, patience=5))
    | dict.fromkeys(("kdd", "plants", "accidents"), Schedule(20_000, 1000, patience=3))
    | dict.fromkeys(("msnbc", "pumsb_star"), Schedule(80_000, 1000, patience=5))
    | dict.fromkeys(("cr52", "c20ng", "bbc"), Schedule(4000, 200, patience=5, batch_size=50))
    | {"ad": Schedule(20_000, 1000, patience=3, batch_size=50)}
    | dict.fromkeys(AMAZON, Schedule(1000, 10, patience=25))
    | dict.fromkeys(("amzn_carseats", "amzn_gifts", "amzn_moms", "amzn_safety"), Schedule(4000, 50, patience=12))
)
