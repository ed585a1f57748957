"""The page on leaves and weights of one's own does what it says."""

import re

from pathlib import Path

import pytest
import torch

import hyperspn

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What the code blocks define, run from top to bottom."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 6
    names = {"__name__": "extending"}
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("page")
        patch.chdir(folder)
        for block in blocks:
            exec(compile(block, str(PAGE), "exec", dont_inherit=True), names)  # noqa: S102
    return {**names, "folder": folder}


def test_no_private_name_is_used():
    assert not re.findall(r"(?<![\w_])_[a-z]\w*|import _", PAGE.read_text())


@pytest.mark.parametrize("name", ["circuit", "low_rank"])
@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_the_circuits_sum_to_one(page, name, engine, tmp_path):
    page[name].save(tmp_path / "model")
    families = [page["LearnablePoisson"], page["Poisson"], page["LowRankWeights"]]
    circuit = hyperspn.load(tmp_path / "model", engine, classes=families).double()
    grid = torch.cartesian_prod(torch.arange(2), *[torch.arange(45)] * 3)
    with torch.no_grad():
        assert circuit.log_prob(grid).exp().sum().item() == pytest.approx(1, abs=1e-6)
    for bad in (-1.0, 0.5, torch.inf):
        with pytest.raises(ValueError, match="expected a whole number >= 0 in column 1"):
            circuit.log_prob(torch.tensor([[0, bad, 0, 0]]))


def test_em_learns_the_rates(page):
    history = page["history"]
    assert all(later >= earlier - 1e-6 for earlier, later in zip(history.train, history.train[1:]))
    rows = page["rows"]
    expected = rows[rows[:, 0] == 1, 1:].mean(0)
    torch.testing.assert_close(page["mean"][0, 1:].double(), expected, rtol=0.02, atol=0)
    torch.testing.assert_close(page["drawn"][0, :, 1:].double().mean(0), expected, rtol=0.1, atol=0)
    assert (page["drawn"][0, :, 0] == 1).all()


def test_adam_learns_with_the_source(page):
    assert page["course"].train[-1] > page["course"].train[0] + 1
    completed = page["low_rank"].most_probable(page["given_one"])
    assert completed[0, 0] == 1
    assert (completed[0, 1:] == completed[0, 1:].round()).all()


def test_the_file_opens_where_the_classes_are_named(page):
    rows, path = page["rows"], page["folder"] / "calls.safetensors"
    assert torch.equal(page["again"].log_prob(rows), page["low_rank"].log_prob(rows))
    with pytest.raises(ValueError, match=r"class 'Poisson' that is not one of hyperspn's: name it .*classes="):
        hyperspn.load(path)
    with pytest.raises(ValueError, match="class 'LowRankWeights'"):
        hyperspn.load(path, classes=[page["Poisson"]])
