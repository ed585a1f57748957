import math
import sys

import numpy as np
import pytest
import torch

from rich.progress import Progress

from hyperspn import SPN, Binomial, Categorical, EiNet, Gaussian, HyperSPN, RegionGraph, datasets
from hyperspn.learning import History, fit
from hyperspn.learning.adam import Adam
from hyperspn.learning.checkpoint import Folder
from hyperspn.learning.steps import EVALUATED_ROWS, annealing_factor, batch_rows
from hyperspn.leaves import Leaves
from hyperspn.structures import poon_domingos

pytestmark = pytest.mark.usefixtures("one_thread")


def noisy_copies(rows, seed=0, noise=0.1):
    """Rows of three pairs of bits, mostly equal within a pair."""
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 2, (rows, 3)).repeat(2, axis=1)
    return (x ^ (generator.random(x.shape) < noise)).astype(np.uint8)


def mean(circuit, x):
    with torch.no_grad():
        return circuit.log_prob(x).double().mean().item()


def quietly(circuit, *tables, **options):
    return fit(circuit, *tables, **{"steps": 60, "evaluate_every": 20, "batch_size": 50, "progress": False, **options})


@pytest.mark.parametrize("engine", ["auto", "layered"])
@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
def test_the_likelihood_rises(assemble, engine):
    train, valid = noisy_copies(200), noisy_copies(100, seed=1)
    circuit = assemble(6, 3, replicas=3, engine=engine)
    history = quietly(circuit, train, valid, learning_rate=0.05)
    assert history.steps == [0, 20, 40, 60]
    assert history.train[-1] > history.train[0] + 0.5
    assert history.valid[-1] > history.valid[0] + 0.5
    assert not history.stopped_early
    assert history.seconds > 0
    assert mean(circuit, valid) == history.best_valid == max(history.valid)
    assert history.steps[history.valid.index(history.best_valid)] == history.best_step


def test_the_truth_is_found():
    rows = noisy_copies(5000)
    circuit = SPN(6, 4, replicas=8)
    quietly(circuit, rows, steps=300, evaluate_every=300, batch_size=500)
    agree = 0.9**2 + 0.1**2
    entropy = 3 * (math.log(2) - agree * math.log(agree) - (1 - agree) * math.log(1 - agree))
    assert mean(circuit, rows) == pytest.approx(-entropy, abs=0.05)


def test_the_best_model_is_restored_when_it_overfits():
    train, valid = noisy_copies(12, noise=0.3), noisy_copies(200, seed=1, noise=0.3)
    circuit = SPN(6, 4, replicas=4)
    history = quietly(circuit, train, valid, steps=200, evaluate_every=10, learning_rate=0.1)
    assert history.valid[-1] < history.best_valid - 0.5
    assert 0 <= history.best_step < 200
    assert mean(circuit, valid) == history.best_valid
    assert mean(circuit, train) == history.train[history.steps.index(history.best_step)]
    assert history.train[-1] == max(history.train)


def test_early_stopping_waits_for_patience():
    train, valid = noisy_copies(12, noise=0.3), noisy_copies(200, seed=1, noise=0.3)
    options = {"steps": 200, "evaluate_every": 10, "learning_rate": 0.1}
    everything = quietly(SPN(6, 4, replicas=4), train, valid, **options)
    circuit = SPN(6, 4, replicas=4)
    history = quietly(circuit, train, valid, patience=3, **options)
    assert history.stopped_early
    assert history.steps[-1] == history.best_step + 30
    assert history.valid == everything.valid[: len(history.valid)]
    assert mean(circuit, valid) == history.best_valid
    with pytest.raises(ValueError, match="validation rows"):
        quietly(circuit, train, patience=3)


def test_without_validation_rows_the_last_parameters_stay():
    train = noisy_copies(40)
    circuit = SPN(6, 3, replicas=2)
    history = quietly(circuit, train, steps=25)
    assert history.steps == [0, 20, 25]
    assert (history.valid, history.best_valid, history.best_step) == ([], None, 25)
    assert mean(circuit, train) == history.train[-1]


def test_the_same_seed_gives_the_same_run():
    train, valid = noisy_copies(100), noisy_copies(50, seed=1)
    runs = [quietly(HyperSPN(6, 3, replicas=2), train, valid, seed=seed) for seed in (0, 0, 1)]
    assert runs[0].train == runs[1].train
    assert runs[0].train != runs[2].train


def test_batches_are_different_rows_by_seed_and_step():
    first = batch_rows(1000, 200, seed=0, step=1)
    assert len(first) == len(first.unique()) == 200
    assert first.min() >= 0
    assert first.max() < 1000
    assert torch.equal(first, batch_rows(1000, 200, seed=0, step=1))
    for seed, step in ((0, 2), (1, 1)):
        assert set(first.tolist()) != set(batch_rows(1000, 200, seed, step).tolist())
    assert batch_rows(30, 500, seed=0, step=1).sort().values.tolist() == list(range(30))
    counts = torch.stack([batch_rows(10, 3, seed=0, step=step) for step in range(3000)]).flatten().bincount()
    assert (counts - 900).abs().max() < 120


def test_the_circuit_sees_these_batches(monkeypatch):
    train, seen = noisy_copies(100), []
    circuit = SPN(6, 2, replicas=1)
    log_prob = circuit.log_prob

    def watched(evidence, weights=None):
        seen.append(evidence.values)
        return log_prob(evidence, weights=weights)

    monkeypatch.setattr(circuit, "log_prob", watched, raising=False)
    quietly(circuit, train, steps=3, batch_size=20, evaluate_every=3, seed=5)
    batches = [x for x in seen if len(x) == 20]
    assert len(batches) == 3
    for step, batch in enumerate(batches, 1):
        assert np.array_equal(batch.numpy(), train[batch_rows(100, 20, 5, step).numpy()])


@pytest.mark.parametrize("optimizer", ["adam", "em"])
def test_rows_are_read_and_checked_once(optimizer, monkeypatch):
    check, tables = Leaves._check_support, []

    def watched(self, values):
        tables.append(len(values))
        check(self, values)

    monkeypatch.setattr(Leaves, "_check_support", watched)
    quietly(SPN(6, 2, replicas=1), noisy_copies(100), noisy_copies(50), steps=4, batch_size=20, optimizer=optimizer)
    assert tables == [100, 50]


@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
@pytest.mark.parametrize("learning_rate", [None, 0.03])
def test_steps_are_those_of_adam_on_the_sum_with_weight_decay(assemble, learning_rate):
    rows = torch.from_numpy(noisy_copies(30))
    circuit, decay, steps = assemble(6, 3, replicas=2).double(), 2.0, 3
    other = assemble(6, 3, replicas=2).double()
    rates = [learning_rate or group["lr"] for group in other.parameter_groups() for _ in group["params"]]
    parameters = [parameter for group in other.parameter_groups() for parameter in group["params"]]
    means = [torch.zeros_like(parameter) for parameter in parameters]
    squares = [torch.zeros_like(parameter) for parameter in parameters]
    for step in range(1, steps + 1):
        found = torch.autograd.grad(-other.log_prob(rows[batch_rows(30, 20, 0, step)]).sum(), parameters)
        with torch.no_grad():
            for parameter, gradient, m, v, rate in zip(parameters, found, means, squares, rates):
                gradient = gradient + decay * parameter
                m.mul_(0.9).add_(0.1 * gradient)
                v.mul_(0.999).add_(0.001 * gradient.square())
                corrected = (v / (1 - 0.999**step)).sqrt() + 1e-8
                parameter -= rate * m / (1 - 0.9**step) / corrected
    quietly(circuit, rows, steps=steps, batch_size=20, weight_decay=decay, learning_rate=learning_rate)
    for ours, theirs in zip(circuit.parameters(), other.parameters()):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_weight_decay_pulls_towards_uniform():
    rows = noisy_copies(50)
    plain, decayed = SPN(6, 3, replicas=2), SPN(6, 3, replicas=2)
    quietly(plain, rows, learning_rate=0.05)
    quietly(decayed, rows, learning_rate=0.05, weight_decay=50.0)
    assert decayed.weights.logits[0].abs().mean() < 0.5 * plain.weights.logits[0].abs().mean()


@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_mixed_columns_with_holes(engine):
    generator = np.random.default_rng(0)
    groups = generator.integers(0, 3, 150)
    x = np.stack([groups, groups * 4.0 + generator.normal(size=150), generator.binomial(9, 0.2 + 0.3 * groups)], 1)
    x[generator.random(x.shape) < 0.2] = np.nan
    circuit = HyperSPN(3, 4, replicas=2, leaves=[Categorical(3), Gaussian(4), Binomial(4, total=9)], engine=engine)
    history = quietly(circuit, x[:100], x[100:], learning_rate=0.05)
    assert history.valid[-1] > history.valid[0] + 1
    empty = quietly(circuit, np.full((5, 3), np.nan), steps=2)
    assert empty.train == pytest.approx([0.0, 0.0], abs=1e-5)


def test_structures_that_share_regions():
    graph = RegionGraph.from_regions(
        [{"variables": [v]} for v in range(3)]
        + [{"partitions": [[0, 1]]}, {"partitions": [[1, 2]]}, {"partitions": [[3, 2], [0, 4]]}]
    )
    rows = noisy_copies(100)[:, :3]
    history = quietly(SPN(3, 2, structure=graph), rows, rows, dropout=0.2, learning_rate=0.05)
    assert history.best_valid > history.valid[0]


def test_only_some_of_many_training_rows_are_evaluated(monkeypatch):
    rows = noisy_copies(EVALUATED_ROWS + 1000)
    circuit = SPN(6, 2, replicas=1)
    history = quietly(circuit, rows, steps=1)
    shown = rows[batch_rows(len(rows), EVALUATED_ROWS, seed=0, step=0).numpy()]
    assert len(shown) == EVALUATED_ROWS
    assert history.train[-1] == mean(circuit, shown)


@pytest.mark.parametrize("assemble", [SPN, HyperSPN])
@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_an_explosion_names_its_step_and_leaves_the_best_parameters(assemble, engine):
    rows = noisy_copies(30)
    circuit, fresh = assemble(6, 2, replicas=2, engine=engine), assemble(6, 2, replicas=2)
    with pytest.raises(FloatingPointError, match=r"at step \d+: try a smaller learning rate"):
        quietly(circuit, rows, rows, learning_rate=3e38)
    for ours, theirs in zip(circuit.parameters(), fresh.parameters()):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_weights_that_are_not_numbers(engine):
    circuit = SPN(6, 2, replicas=2, engine=engine)
    circuit.weights.logits[0].data[:] = torch.nan
    with pytest.raises(FloatingPointError, match="step 0"):
        quietly(circuit, noisy_copies(30))


@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_an_impossible_row_stops_the_run(engine):
    x = np.zeros((20, 2), np.float32)
    x[7] = 1e25
    circuit = SPN(2, 2, replicas=2, leaves=Gaussian(2), engine=engine)
    with pytest.raises(FloatingPointError, match="-inf at step 0"):
        quietly(circuit, x)


def test_an_impossible_row_in_a_batch_stops_the_run_at_its_step(monkeypatch):
    monkeypatch.setattr("hyperspn.learning.steps.EVALUATED_ROWS", 1)
    x = np.zeros((50, 2), np.float32)
    bad = next(row for row in range(50) if row not in batch_rows(50, 1, 0, 0) and row not in batch_rows(50, 5, 0, 1))
    x[bad] = 1e25
    step = next(step for step in range(1, 100) if bad in batch_rows(50, 5, 0, step))
    with pytest.raises(FloatingPointError, match=f"-inf at step {step}:"):
        quietly(SPN(2, 2, replicas=2, leaves=Gaussian(2)), x, batch_size=5, steps=100, evaluate_every=100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps to be a whole number >= 1, found 0"),
        ({"batch_size": 1.5}, "batch_size to be a whole number >= 1, found 1.5"),
        ({"evaluate_every": -1}, "evaluate_every"),
        ({"patience": 0}, "patience"),
        ({"weight_decay": -1.0}, "weight_decay to be a number >= 0, found -1.0"),
        ({"learning_rate": math.nan}, "learning_rate"),
        ({"dropout": 1.0}, "dropout rate >= 0 and < 1, found 1.0"),
        ({"softening": 1.0}, r"softening >= 0 and < 1, found 1\.0"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        quietly(SPN(6, 2, replicas=1), noisy_copies(5), noisy_copies(5), **options)


def test_tables_are_checked():
    circuit, good = SPN(6, 2, replicas=1), noisy_copies(5)
    bad = good.copy()
    bad[3, 1] = 2
    for tables in ((bad,), (good, bad)):
        with pytest.raises(ValueError, match=r"category 0\.\.1 in column 1, found 2 in row 4"):
            quietly(circuit, *tables)
    with pytest.raises(ValueError, match=r"\(batch, 6\)"):
        quietly(circuit, good[:, :5])
    with pytest.raises(ValueError, match="at least one row in train"):
        quietly(circuit, good[:0])
    with pytest.raises(ValueError, match="at least one row in valid"):
        quietly(circuit, good, good[:0])
    with pytest.raises(ValueError, match="train to be a tensor or array"):
        quietly(circuit, good.tolist())


def test_any_kind_of_table_gives_the_same_run():
    x = noisy_copies(50)
    tables = [x, x.astype(bool), x.astype(np.float64), torch.from_numpy(x), torch.from_numpy(x).long()]
    curves = [quietly(SPN(6, 2, replicas=1), table, steps=5).train for table in tables]
    assert all(curve == curves[0] for curve in curves)


def test_the_progress_bar_does_not_need_a_terminal(capsys):
    rows = noisy_copies(20)
    fit(SPN(6, 2, replicas=1), rows, rows, steps=4, evaluate_every=2)
    found = capsys.readouterr()
    assert found.out == ""
    assert "4/4" in found.err
    quietly(SPN(6, 2, replicas=1), rows)
    assert capsys.readouterr() == ("", "")


def test_another_progress_bar_may_be_around_it():
    with Progress():
        assert isinstance(fit(SPN(6, 2, replicas=1), noisy_copies(20), steps=2), History)


def test_groups_have_their_own_rates_and_decay():
    circuit = EiNet(poon_domingos((1, 4), delta=2), 3, weights="hyper")
    before = {name: value.clone() for name, value in circuit.state_dict().items()}
    rows = 0.1 * torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    rates, decay = {"network": 0.0, "leaves": 1e-3}, {"embeddings": 1e6}
    fit(circuit, rows, steps=1, learning_rate=rates, weight_decay=decay, progress=False)
    moved = {name: (value - before[name]).abs() for name, value in circuit.state_dict().items()}
    assert all(not value.any() for name, value in moved.items() if "net" in name or "heads" in name)
    assert moved["leaves.raw.0"].max().item() == pytest.approx(1e-3, rel=1e-2)
    after, start = circuit.weights.embeddings.detach(), before["weights.embeddings"]
    torch.testing.assert_close(after, start - 1e-2 * start.sign(), rtol=1e-3, atol=1e-3)
    for setting in ({"learning_rate": {"leafs": 1.0}}, {"weight_decay": {"weights": 1.0}}):
        with pytest.raises(ValueError, match="of embeddings, network, leaves, found"):
            fit(circuit, rows, steps=1, progress=False, **setting)
    with pytest.raises(ValueError, match="learning_rate of leaves to be a number >= 0"):
        fit(circuit, rows, steps=1, progress=False, learning_rate={"leaves": -1.0})


def test_annealed_rates_rise_and_fall():
    assert [annealing_factor(step, 100) for step in (0, 1, 2)] == pytest.approx([0, 0.49988, 0.99901], abs=1e-4)
    assert annealing_factor(50, 100) == pytest.approx(0.5)
    assert annealing_factor(100, 100) == pytest.approx(0)


def test_annealing_is_adam_with_those_rates():
    rows = torch.from_numpy(noisy_copies(30)).double()
    circuit, other = (HyperSPN(6, 2, replicas=2).double() for _ in range(2))
    fit(circuit, rows, steps=5, annealing=True, learning_rate=0.1, batch_size=30, progress=False)
    optimizer = torch.optim.Adam(other.parameters())
    for step in range(1, 6):
        optimizer.zero_grad()
        (-other.log_prob(rows).sum()).backward()
        optimizer.param_groups[0]["lr"] = 0.1 * annealing_factor(step, 5)
        optimizer.step()
    for found, expected in zip(circuit.parameters(), other.parameters()):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("fused", [True, False])
def test_adam_is_that_of_torch(fused):
    one, other = (HyperSPN(6, 2, replicas=2) for _ in range(2))
    groups = [{**group, "weight_decay": 0.1, "lr": 0.05} for group in other.parameter_groups()]
    own = Adam([{**group, "weight_decay": 0.1, "lr": 0.05} for group in one.parameter_groups()], fused=fused)
    torchs, rows = torch.optim.Adam(groups, fused=fused), noisy_copies(30)
    for circuit, optimizer in ((one, own), (other, torchs)) * 4:
        optimizer.zero_grad()
        (-circuit.log_prob(rows).mean()).backward()
        optimizer.step()
        own.load_state_dict(own.state_dict())
    for found, expected in zip(one.parameters(), other.parameters()):
        assert torch.equal(found, expected)
    assert own.state_dict().keys() == torchs.state_dict().keys()


def test_learning_needs_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)
    options = {"batch_size": 10, "evaluate_every": 2, "progress": False, "folder": tmp_path}
    for _ in range(2):
        assert fit(HyperSPN(6, 2, replicas=2), noisy_copies(30), steps=4, **options).steps == [0, 2, 4]


def test_an_average_of_the_parameters_is_kept_where_it_is_better(tmp_path):
    """The same run by hand: the average of all parameters so far, then an exponential one."""
    data, decay = datasets.digits(), 0.8
    options = {"batch_size": 50, "seed": 1, "learning_rate": 0.3, "progress": False}
    rows, valid = data.train[:300], data.valid
    averages, values = None, []
    for step in range(1, 13):  # the parameters after each step, from runs that end there
        circuit = SPN(64, 2, 2)
        fit(circuit, rows, steps=step, evaluate_every=step, **options)
        own = {name: value.clone() for name, value in circuit.state_dict().items()}
        if averages is None:
            averages = {name: value.clone() for name, value in SPN(64, 2, 2).state_dict().items()}
        remains = min(decay, step / (step + 1))
        averages = {name: remains * averages[name] + (1 - remains) * own[name] for name in own}
        both = []
        for parameters in (own, averages):
            circuit.load_state_dict(parameters)
            both.append(circuit.log_prob(valid).mean().item())
        values.append(both)
    circuit = SPN(64, 2, 2)
    history = fit(circuit, rows, valid, steps=12, evaluate_every=1, averaging=decay, **options)
    assert history.valid[1:] == pytest.approx([max(both) for both in values], rel=1e-5)
    assert any(averaged > own for own, averaged in values)
    assert circuit.log_prob(valid).mean().item() == pytest.approx(history.best_valid, rel=1e-6)


def test_a_run_with_an_average_resumes(tmp_path, monkeypatch):
    data = datasets.digits()
    options = {"steps": 30, "evaluate_every": 5, "averaging": 0.9, "seed": 1, "progress": False}
    expected = fit(SPN(64, 2, 2), data.train, data.valid, folder=tmp_path / "whole", **options)
    keep, calls = Folder.keep, []

    def watched(*given):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(given)
        keep(*given)

    monkeypatch.setattr(Folder, "keep", watched)
    with pytest.raises(KeyboardInterrupt):
        fit(SPN(64, 2, 2), data.train, data.valid, folder=tmp_path / "parts", **options)
    monkeypatch.setattr(Folder, "keep", keep)
    history = fit(SPN(64, 2, 2), data.train, data.valid, folder=tmp_path / "parts", **options)
    assert (history.train, history.valid) == (expected.train, expected.valid)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"averaging": 1.0}, "expected averaging between 0 and 1"),
        ({"averaging": 0.9, "optimizer": "em"}, "expected no averaging with optimizer 'em'"),
    ],
)
def test_averaging_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fit(SPN(4, 2, 2), torch.zeros(10, 4), steps=1, progress=False, **options)
