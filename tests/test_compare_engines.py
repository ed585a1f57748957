"""The engines on random circuits, against each other and against 50-digit arithmetic."""

from collections import Counter

import pytest

from compare_engines import TOLERANCE, Reference, compare, direct_twin, evaluate, random_circuit

from hyperspn.engines import NativeEngine, native

pytestmark = pytest.mark.skipif(native.kernel is None, reason="needs the compiled kernel")


def test_random_circuits_agree_with_exact_arithmetic_where_they_differ():
    outcomes = Counter(compare(seed) for seed in range(200))
    assert outcomes["native wrong"] == 0
    assert outcomes["agree"] >= 190


@pytest.mark.parametrize("seed", range(6))
def test_both_engines_agree_with_exact_arithmetic(seed):
    circuit, x = random_circuit(seed)
    twin = direct_twin(circuit)
    truth = Reference(twin).evaluate(x)
    for engine in (NativeEngine(twin.sectors, twin.leaves), twin.engine):
        assert evaluate(twin, engine, x).distance(truth) <= TOLERANCE
