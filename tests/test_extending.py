"""The pages on leaves and weights of one's own do what they say."""

import re

from pathlib import Path

import pytest
import torch

import hyperspn

PAGES = Path(__file__).parents[1] / "docs" / "how-to"

pytestmark = pytest.mark.usefixtures("one_thread")


def run(name, folder):
    """What the code blocks of a page define, run from top to bottom."""
    page = PAGES / f"{name}.md"
    names = {"__name__": name, "folder": folder}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
            exec(compile(block, str(page), "exec", dont_inherit=True), names)  # noqa: S102
    return names


@pytest.fixture(scope="module")
def leaf(tmp_path_factory):
    return run("leaf-family", tmp_path_factory.mktemp("leaf"))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return run("weight-source", tmp_path_factory.mktemp("source"))


@pytest.mark.parametrize("name", ["leaf-family", "weight-source"])
def test_no_private_name_is_used(name):
    assert not re.findall(r"(?<![\w_])_[a-z]\w*|import _", (PAGES / f"{name}.md").read_text())


@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_the_leaves_sum_to_one(leaf, engine):
    circuit = hyperspn.load(leaf["folder"] / "calls.safetensors", engine, classes=[leaf["LearnablePoisson"]]).double()
    grid = torch.cartesian_prod(torch.arange(2), *[torch.arange(45)] * 3)
    with torch.no_grad():
        assert circuit.log_prob(grid).exp().sum().item() == pytest.approx(1, abs=1e-6)
    for bad in (-1.0, 0.5, torch.inf):
        with pytest.raises(ValueError, match="expected a whole number >= 0 in column 1"):
            circuit.log_prob(torch.tensor([[0, bad, 0, 0]]))


@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_the_weights_sum_to_one(source, engine):
    circuit = hyperspn.load(
        source["folder"] / "columns.safetensors", engine, classes=[source["LowRankWeights"]]
    ).double()
    with torch.no_grad():
        total = circuit.log_prob(torch.cartesian_prod(*[torch.arange(2)] * 8)).exp().sum()
    assert total.item() == pytest.approx(1, abs=1e-6)


def test_em_learns_the_rates(leaf):
    history = leaf["history"]
    assert all(later >= earlier - 1e-6 for earlier, later in zip(history.train, history.train[1:]))
    rows = leaf["rows"]
    expected = rows[rows[:, 0] == 1, 1:].mean(0)
    torch.testing.assert_close(leaf["mean"][0, 1:].double(), expected, rtol=0.02, atol=0)
    torch.testing.assert_close(leaf["drawn"][0, :, 1:].double().mean(0), expected, rtol=0.1, atol=0)
    assert (leaf["drawn"][0, :, 0] == 1).all()


def test_both_of_ones_own(leaf, source, tmp_path):
    """Leaves and weights of one's own in one circuit: trained with Adam, completed, saved and opened."""
    families = [hyperspn.Categorical(2), *[leaf["Poisson"](3)] * 3]
    widths = [family.width for family in families]
    sectors = hyperspn.weights.Sectors(hyperspn.structures.binary_trees(4, replicas=4), 2, leaf_widths=widths)
    weights = source["LowRankWeights"](sectors, rank=2)
    circuit = hyperspn.Circuit(sectors, hyperspn.leaves.Leaves(families), weights)
    history = hyperspn.fit(circuit, leaf["rows"], steps=200, batch_size=100, evaluate_every=100, progress=False)
    assert history.train[-1] > history.train[0] + 1
    completed = circuit.most_probable(leaf["given_one"])
    assert completed[0, 0] == 1
    assert (completed[0, 1:] == completed[0, 1:].round()).all()
    circuit.save(tmp_path / "model")
    again = hyperspn.load(tmp_path / "model", classes=[leaf["Poisson"], source["LowRankWeights"]])
    assert torch.equal(again.log_prob(leaf["rows"]), circuit.log_prob(leaf["rows"]))
    with pytest.raises(ValueError, match=r"class 'Poisson' that is not one of hyperspn's: name it .*classes="):
        hyperspn.load(tmp_path / "model")
    with pytest.raises(ValueError, match="class 'LowRankWeights'"):
        hyperspn.load(tmp_path / "model", classes=[leaf["Poisson"]])


def test_adam_learns_with_the_source(source):
    assert source["history"].train[-1] > source["history"].train[0] + 1
    assert torch.equal(source["again"].log_prob(source["rows"]), source["circuit"].log_prob(source["rows"]))
