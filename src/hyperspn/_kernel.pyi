"""The compiled kernel (`kernel/binding.cpp`). Arrays are of numpy, contiguous; "real" ones all of float32 or all of float64."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

CATEGORICAL: int
DENSE: int
INNER: int
SPARSE: int

class Program:
    """A forest of trees as int32 arrays; every index is checked here."""

    def __init__(
        self,
        tree_ptr: NDArray[Any],  # (trees + 1,), tree t has the nodes tree_ptr[t] : tree_ptr[t + 1]
        type: NDArray[Any],  # (nodes,), CATEGORICAL, DENSE, SPARSE or INNER
        variable: NDArray[Any],  # (nodes,), of a leaf: among those of its type
        size: NDArray[Any],  # (nodes,), distributions of a leaf
        kind: NDArray[Any],  # (nodes,), of the node's sector
        sector: NDArray[Any],  # (nodes,), its number among those of its kind
        child_ptr: NDArray[Any],  # (nodes + 1,)
        children: NDArray[Any],  # counted from the first node of the tree
        slot: NDArray[Any],  # (nodes,), where the value of an inner node lives
        dense_ptr: NDArray[Any],  # (variables with likelihoods + 1,), their rows
        rows: int,  # sum nodes of a region
        variables: int,  # those with codes
        sparse: int,  # those of which few likelihoods are not 0
        grids: Sequence[tuple[float, float, int]],  # for each kind the first place, the step and the number of places
        starts: Sequence[float],  # where the bells of each row begin
    ) -> None: ...

class Batch:
    """Samples for a program.

    Arguments:
        program: The program.
        codes: The categories, (variables, samples), of int8 or int32, -1 where missing.
        log_likelihoods: Of dense leaves, <= 0, (rows, samples).
        sparse: The members of sparse leaves with likelihoods that are not 0, (rows, samples), int32, -1 as the first where
            missing; these likelihoods, <= 1, (rows, samples), where 0 fills up; and the rows of a variable, int32.
        dtype: The precision, "float32" or "float64".
        threads: The number of threads.
    """

    def __init__(
        self,
        program: Program,
        codes: NDArray[Any],
        log_likelihoods: NDArray[Any] | None,
        sparse: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None,
        dtype: str,
        threads: int,
    ) -> None: ...

class Walk:
    """Trees on a batch: all at once, or one tree part by part, forward until `finished` and then backward.

    Arguments:
        batch: The samples.
        first_tree: The first tree.
        last_tree: The first tree that no longer belongs to it.
        tape: Whether parts keep what `backward` needs.
        threads: The number of threads.
    """

    def __init__(self, batch: Batch, first_tree: int, last_tree: int, tape: bool, threads: int) -> None: ...
    def forward(self, written: Sequence[NDArray[Any]], bases: Sequence[int], first: int, last: int) -> None:
        """Evaluates nodes first : last from what is written for their sectors, for each kind (sectors, rows, numbers per row) from its base on."""

    def finished(self) -> bool:
        """Whether the values are known; else all nodes must be evaluated again, more exactly."""

    def values(self) -> NDArray[Any]:
        """The log-values, (trees, samples)."""

    def backward(
        self,
        written: Sequence[NDArray[Any]],
        bases: Sequence[int],
        first: int,
        last: int,
        seeds: NDArray[Any],  # (trees, samples)
        flows: bool,
    ) -> tuple[list[NDArray[Any]], NDArray[Any] | None]:
        """The gradients of what is written, where logits may get expected flows instead, and of log-likelihoods.

        Of all nodes at once, nothing need be evaluated before.
        """

def best_values(
    batch: Batch,
    written: Sequence[NDArray[Any]],
    bases: Sequence[int],
    first_tree: int,
    last_tree: int,
    threads: int = 1,
) -> NDArray[Any]:
    """The log-values of trees with the best input of each sum alone, (trees, samples); missing codes are the best ones."""

def descend(
    batch: Batch,
    written: Sequence[NDArray[Any]],
    bases: Sequence[int],
    first_tree: int,
    last_tree: int,
    choose: str,  # "prior", "posterior" or "best"
    trees: NDArray[Any],  # (travelers,), int64, from which tree each starts; those in other trees are left out
    samples: NDArray[Any],  # (travelers,), int64, to which sample it belongs
    keys: NDArray[Any],  # (travelers,), int64, of its random numbers
    code_columns: NDArray[Any],  # int32, the column of members for each variable with codes
    dense_columns: NDArray[Any],  # int32, the same for dense variables
    sparse_columns: NDArray[Any],  # int32, the same for sparse ones
    members: NDArray[Any],  # (travelers, variables), int64, is written to
    threads: int = 1,
) -> None:
    """Goes down through one input of each sum to one distribution of each variable."""

def network_forward(
    rows: NDArray[Any], weights: Sequence[NDArray[Any]], biases: Sequence[NDArray[Any]], threads: int = 1
) -> NDArray[Any]:
    """Linear layers with ReLU between them, (rows, inputs) -> (rows, outputs)."""

def network_backward(
    rows: NDArray[Any],
    weights: Sequence[NDArray[Any]],
    biases: Sequence[NDArray[Any]],
    gradient: NDArray[Any],
    threads: int = 1,
) -> tuple[NDArray[Any], list[NDArray[Any]], list[NDArray[Any]]]:
    """The gradients of rows, weights and biases."""

def round_subnormals(on: bool, threads: int) -> bool:
    """Whether PyTorch's threads round subnormal numbers to zero from now on; returns whether this one did."""

def instruction_set() -> str:
    """The instruction set in use."""

def instruction_sets() -> list[str]:
    """The instruction sets of this machine, best first."""
