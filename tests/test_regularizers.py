import pytest
import torch

from worlds import STRUCTURES, all_worlds, make, missing_patterns, mixed_families

from hyperspn import SPN, Categorical, Gaussian, HyperSPN
from hyperspn.engines import NativeEngine, native
from hyperspn.learning import fit
from hyperspn.learning.regularizers import Dropout, Softening

RATE = 0.4
LEAVES = [Categorical(2), Gaussian(3), Categorical(7), Categorical(2), Gaussian(5)]


pytestmark = pytest.mark.usefixtures("one_thread")


def softened(circuit, rate):
    return Softening(circuit.weights, circuit.sectors, circuit.leaves, rate)


def dropped_circuit(assemble, engine="auto", weights_at_once=2**22):
    circuit = assemble(5, 4, replicas=3, leaves=LEAVES, engine=engine).double()
    if engine == "native":
        circuit.engine = NativeEngine(circuit.sectors, circuit.leaves, weights_at_once=weights_at_once)
    return circuit, Dropout(circuit.weights, circuit.sectors, RATE, seed=1, leaves=True)


def gradients(circuit, source, x):
    circuit.zero_grad()
    circuit.log_prob(x, weights=source).sum().backward()
    return [parameter.grad.clone() for parameter in circuit.parameters() if parameter.grad is not None]


def mixed_rows(rows=30):
    generator = torch.Generator().manual_seed(0)
    sizes = [family.width if isinstance(family, Categorical) else 0 for family in LEAVES]
    columns = [
        torch.randint(size, (rows,), generator=generator).double()
        if size
        else torch.randn(rows, generator=generator, dtype=torch.float64)
        for size in sizes
    ]
    x = torch.stack(columns, 1)
    x[torch.rand(x.shape, generator=generator) < 0.1] = torch.nan
    return x


@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
def test_dropped_edges_have_no_weight_and_the_others_are_as_they_were(assemble):
    circuit, source = dropped_circuit(assemble)
    for index, kind in enumerate(circuit.sectors.kinds):
        ids = slice(0, kind.count)
        written, kept = circuit.weights(index, ids), source.remaining_edges(index, ids).flatten(1)
        assert torch.equal(source(index, ids), written.masked_fill(~kept, -torch.inf))
        assert 0 < kept.double().mean() < 1


def test_about_the_rate_is_dropped():
    circuit = SPN(64, layer_size=8, replicas=20)
    dropped = ~Dropout(circuit.weights, circuit.sectors, 0.3, leaves=True).remaining_edges(
        0, slice(None)
    )  # (sectors, 8, 8)
    assert abs(dropped.double().mean() - 0.3) < 0.01
    assert (dropped.double().mean(0) - 0.3).abs().max() < 0.06
    assert (dropped.double().mean((1, 2)) - 0.3).std() < 0.07
    assert not (~Dropout(circuit.weights, circuit.sectors, 0.0, leaves=True).remaining_edges(0, slice(None))).any()


@pytest.mark.parametrize("rate", [RATE, 0.999])
def test_every_sum_keeps_an_edge_that_it_uses(rate):
    circuit = SPN(5, 4, replicas=30, leaves=LEAVES)
    source = Dropout(circuit.weights, circuit.sectors, rate, leaves=True)
    for step in range(20):
        for layer in circuit.sectors.layers:
            kept = source.at(step).remaining_edges(layer.kind_index, layer.sectors.flatten())
            assert layer.sums(kept.flatten(1))[0].any(-1).all()


def test_sums_over_leaves_stay_whole():
    circuit = SPN(5, 4, replicas=3, leaves=LEAVES)
    source = Dropout(circuit.weights, circuit.sectors, RATE)
    for layer in circuit.sectors.layers:
        kept = source.remaining_edges(layer.kind_index, layer.sectors.flatten())
        assert layer.sums(kept.flatten(1))[0].all() == layer.is_leaf


def test_a_sector_gets_the_same_answer_in_every_company():
    source = dropped_circuit(SPN)[1]
    everything = source.remaining_edges(0, slice(None))
    some = torch.tensor([7, 2, 11])
    assert torch.equal(source.remaining_edges(0, some), everything[some])
    assert torch.equal(source.remaining_edges(0, slice(3, 9)), everything[3:9])
    assert len(source.remaining_edges(0, slice(0, 0))) == 0
    assert len({row.numpy().tobytes() for row in everything}) > len(everything) - 2


def test_steps_seeds_and_kinds_differ():
    circuit, source = dropped_circuit(SPN)
    first = source.remaining_edges(0, slice(None))
    other_seed = Dropout(circuit.weights, circuit.sectors, RATE, seed=2, leaves=True).remaining_edges(0, slice(None))
    later = source.at(1)
    assert not torch.equal(later.remaining_edges(0, slice(None)), first)
    assert torch.equal(source.remaining_edges(0, slice(None)), first)
    assert not torch.equal(other_seed, first)
    ids, rows = torch.arange(3), 4
    assert not torch.equal(source.remaining_edges(1, ids)[:, :rows, :4], source.remaining_edges(0, ids)[:, :rows, :4])


@pytest.mark.skipif(native.kernel is None, reason="needs the compiled kernel")
@pytest.mark.parametrize("weights_at_once", [2**22, 600, 100])
@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
def test_engines_agree_also_in_small_chunks(assemble, weights_at_once):
    x = mixed_rows()
    found = gradients(*dropped_circuit(assemble, "native", weights_at_once), x)
    expected = gradients(*dropped_circuit(assemble, "layered"), x)
    assert len(found) == len(expected) > 2
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs)


def test_the_gradient_is_that_of_the_smaller_circuit():
    circuit = make("shared", "direct")
    source = Dropout(circuit.weights, circuit.sectors, RATE)
    x = torch.tensor([[0.0, 1, 1, 0], [1, 1, 0, torch.nan]])
    x = x.double()
    gradients(circuit, source, x)
    found = circuit.weights.logits[0].grad.flatten()
    dropped = ~source.remaining_edges(0, slice(None)).flatten()
    assert dropped.any()
    assert (found[dropped] == 0).all()
    logits = circuit.weights.logits[0].data
    logits.view(-1)[dropped] = -torch.inf
    place = int((found.abs() * ~dropped).argmax())
    values = []
    for change in (1e-6, -2e-6):
        logits.view(-1)[place] += change
        values.append(circuit.log_prob(x).sum().item())
    assert found[place].item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("engine", ["auto", "layered"])
@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
def test_a_circuit_learns_with_dropout_and_is_evaluated_without(assemble, engine):
    rows = torch.randint(2, (60, 3), generator=torch.Generator().manual_seed(0)).repeat(1, 2)
    circuit = assemble(6, 2, replicas=2, engine=engine)
    own = circuit.weights
    with torch.no_grad():
        before = circuit.log_prob(rows).mean().item()
    history = fit(circuit, rows, rows, steps=60, evaluate_every=20, dropout=0.5, progress=False)
    assert history.train[0] == pytest.approx(before, rel=1e-6)
    assert history.best_valid > before
    assert circuit.weights is own
    with torch.no_grad():
        assert circuit.log_prob(rows).mean().item() == pytest.approx(history.best_valid, rel=1e-6)
    again = fit(assemble(6, 2, replicas=2, engine=engine), rows, rows, steps=60, evaluate_every=20, progress=False)
    assert again.valid[1:] != history.valid[1:]


def test_the_rate_is_a_probability_below_one():
    circuit = SPN(4, replicas=1)
    with pytest.raises(ValueError, match="rate >= 0 and < 1"):
        Dropout(circuit.weights, circuit.sectors, 1.0)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("weights", ["direct", "hyper", "hyper EiNet"])
@pytest.mark.parametrize("structure", ["trees1", "trees5", "shared", "caterpillar"])
def test_a_softened_row_is_a_mixture_of_all_worlds(structure, weights, rate):
    layer_size = 4 if "EiNet" in weights else 2
    leaves = mixed_families(STRUCTURES[structure].num_variables)
    circuit = make(structure, weights, layer_size, leaves=leaves)
    worlds = all_worlds(circuit)
    rows = worlds[:: 1 + len(worlds) // 7]
    missing = missing_patterns(circuit, len(rows))
    sizes = [family.categories if isinstance(family, Categorical) else 0 for family in circuit.leaves.families]
    with torch.no_grad():
        soft_log_p = circuit.log_prob(rows, missing, softened(circuit, rate))
        log_p = circuit.log_prob(worlds)
    for row, holes, value in zip(rows, missing, soft_log_p):
        evidence = (worlds == row).double()
        for variable, categories in enumerate(sizes):
            if categories:
                evidence[:, variable] = evidence[:, variable] * (1 - rate) + rate / categories
        evidence[:, holes] = 1
        assert value.item() == pytest.approx((log_p.exp() * evidence.prod(1)).sum().log().item(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("engine", ["auto", "layered"])
@pytest.mark.parametrize("weights", ["direct", "hyper"])
def test_the_gradient_of_softened_rows_is_that_of_finite_differences(weights, engine):
    circuit = make(
        "trees5", weights, leaves=[Categorical(2), Categorical(6), Gaussian(2)] + [Categorical(3)] * 2, engine=engine
    )
    x = torch.tensor([[0.0, 5, -0.3, torch.nan, 2], [1, torch.nan, 1.2, 1, 0]]).double()
    source = softened(circuit, 0.2)
    gradients(circuit, source, x)
    for parameter in circuit.parameters():
        if parameter.grad is None:
            continue
        for place in parameter.grad.abs().flatten().topk(min(3, parameter.numel())).indices.tolist():
            values = []
            for change in (1e-6, -2e-6):
                parameter.data.view(-1)[place] += change
                with torch.no_grad():
                    values.append(circuit.log_prob(x, weights=source).sum().item())
            parameter.data.view(-1)[place] += 1e-6
            difference = (values[0] - values[1]) / 2e-6
            assert parameter.grad.view(-1)[place].item() == pytest.approx(difference, rel=1e-5, abs=1e-8)


@pytest.mark.skipif(native.kernel is None, reason="needs the compiled kernel")
@pytest.mark.parametrize("weights_at_once", [2**22, 600, 100])
@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
def test_engines_agree_on_softened_rows_also_in_small_chunks(assemble, weights_at_once):
    found = []
    for engine in ("native", "layered"):
        circuit, dropped = dropped_circuit(assemble, engine, weights_at_once)
        dropped.source = softened(circuit, 0.1)
        found.append(gradients(circuit, dropped, mixed_rows()))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_softening_leaves_other_sums_and_other_variables_alone():
    circuit = SPN(5, 4, replicas=3, leaves=LEAVES)
    source = softened(circuit, 0.3)
    for layer in circuit.sectors.layers:
        ids = layer.sectors.flatten()
        hard, soft = circuit.weights(layer.kind_index, ids), source(layer.kind_index, ids)
        families = [LEAVES[variable] for variable in layer.factors] if layer.is_leaf else [None] * len(ids)
        for family, before, after in zip(families, layer.sums(hard)[0], layer.sums(soft)[0]):
            if isinstance(family, Categorical):
                expected = 0.7 * before.softmax(-1) + 0.3 / family.categories
                torch.testing.assert_close(after.softmax(-1), expected)
            else:
                assert torch.equal(before, after)


@pytest.mark.parametrize("options", [{}, {"optimizer": "em"}, {"dropout": 0.2}])
def test_a_circuit_learns_from_softened_rows_and_is_evaluated_on_hard_ones(options):
    rows = torch.randint(2, (60, 3), generator=torch.Generator().manual_seed(0)).repeat(1, 2)
    circuit = SPN(6, 2, replicas=2)
    own = circuit.weights
    history = fit(circuit, rows, rows, steps=40, evaluate_every=20, softening=0.2, progress=False, **options)
    assert circuit.weights is own
    with torch.no_grad():
        assert circuit.log_prob(rows).mean().item() == pytest.approx(history.best_valid, rel=1e-6)
    assert history.best_valid > history.valid[0]
    hard = fit(SPN(6, 2, replicas=2), rows, rows, steps=40, evaluate_every=20, progress=False, **options)
    assert hard.valid[0] == history.valid[0]
    assert hard.valid[1] != history.valid[1]


def test_softening_is_checked():
    with pytest.raises(ValueError, match=r"softening >= 0 and < 1, found 1\.0"):
        softened(SPN(4, replicas=1), 1.0)
    with pytest.raises(ValueError, match="leaf regions of one variable for softening"):
        softened(make("wide leaves", "direct"), 0.1)
    with pytest.raises(ValueError, match="sums over all categories for softening"):
        softened(make("line", "direct EiNet", layer_size=2), 0.1)
    assert softened(make("wide leaves", "direct", leaves=Gaussian(2)), 0.1).rate == 0.1


def test_einets_keep_an_edge_of_every_sum_and_their_mixing_weights():
    circuit = make("grid", "direct EiNet")
    source = Dropout(circuit.weights, circuit.sectors, 0.6, leaves=True)
    with torch.no_grad():
        assert circuit.log_prob(all_worlds(circuit), weights=source).exp().sum().item() == pytest.approx(1)
    layer = circuit.sectors.layers[-1]
    kept = source.remaining_edges(0, layer.sectors.flatten())[:, 0]
    assert kept[layer.num_edges :].all()
    assert not kept[: layer.num_edges].all()
    assert kept[: layer.num_edges].any(1).all()
