"""Direct weights: one parameter per weight."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .sectors import Sectors
from .source import Init, WeightSource, _rows, initial


class DirectWeights(WeightSource):
    """One parameter per weight: a plain sum-product network.

    Arguments:
        sectors: The sectors to write.
        init: "uniform" in [0, 1) as published for RAT-SPNs, or standard "normal" as for EiNets and always for bells.
    """

    def __init__(self, sectors: Sectors, init: Init = "uniform") -> None:
        super().__init__()
        self.init = init
        self.learning_rate = 1e-2 if sectors.product == "outer" else 2e-2
        self.logits = nn.ParameterList(
            initial(kind.count, kind.size, init="normal" if kind.grid else init) for kind in sectors.kinds
        )

    def forward(self, kind: int, ids: Tensor | slice) -> Tensor:
        return _rows(self.logits[kind], ids)

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"name": "weights", "params": list(self.logits), "lr": self.learning_rate}]

    def config(self) -> dict[str, Any]:
        return {"init": self.init}

    def extra_repr(self) -> str:
        return f"init={self.init!r}"
