import json
import struct

from contextlib import suppress
from errno import ENOSPC

import numpy as np
import pytest
import torch

from safetensors import safe_open
from safetensors.torch import save_file
from worlds import STRUCTURES, make, mixed_families

import hyperspn

from hyperspn import SPN, Categorical, Gaussian, HyperSPN

SOURCES = ("direct", "hyper", "direct EiNet", "hyper EiNet")


@pytest.mark.parametrize(
    ("name", "weights", "leaves"),
    [(name, weights, "binary") for name in STRUCTURES for weights in SOURCES]
    + [(name, weights, "mixed") for name in ("trees10", "shared") for weights in SOURCES]
    + [("one tree", "factored", leaves) for leaves in ("binary", "mixed")],
)
def test_save_and_load(tmp_path, name, weights, leaves):
    n = STRUCTURES[name].num_variables
    circuit = make(name, weights, leaves=mixed_families(n) if leaves == "mixed" else Categorical(2))
    circuit.notes["names"] = ["größe", "color"]
    circuit.save(tmp_path / "model.safetensors")
    again = hyperspn.load(tmp_path / "model.safetensors")
    assert again.notes == circuit.notes
    x = circuit.sample(5)
    assert torch.equal(again.log_prob(x), circuit.log_prob(x))
    assert again.structure == circuit.structure
    assert again.leaves.families == circuit.leaves.families
    assert repr(again) == repr(circuit)
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in circuit.parameters()]
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_hyperspn_is_stored_in_a_fraction_of_the_spn(tmp_path):
    HyperSPN(16).save(tmp_path / "hyper")
    SPN(16).save(tmp_path / "direct")
    small, large = ((tmp_path / name).stat().st_size for name in ("hyper", "direct"))
    assert small < 60_000
    assert small < large / 3


def test_saving_replaces_only_when_complete(tmp_path, monkeypatch):
    path = tmp_path / "model"
    SPN(3, replicas=1).save(path)
    before = path.read_bytes()

    def full_disk(file):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match=r"No space left on device: '.*/model'"):
        SPN(3, replicas=1, seed=1).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_model_may_be_read_by_whom_other_files_may(tmp_path):
    SPN(3, replicas=1).save(tmp_path / "model")
    (tmp_path / "other").touch()
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_saving_to_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        SPN(3, replicas=1).save(tmp_path / "nowhere" / "model")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model"
    HyperSPN(6, replicas=2, leaves=[Categorical(2), Gaussian(2)] * 3).save(path)
    return path


def rewrite(path, change=lambda config: None, metadata=None, **tensors):
    """Writes a model file again with something changed."""
    with safe_open(path, framework="pt") as old:
        header = {**old.metadata(), **(metadata or {})}
        content = {name: old.get_tensor(name).clone() for name in old.keys()}  # noqa: SIM118
    config = json.loads(header["config"])
    change(config)
    content = {name: value for name, value in {**content, **tensors}.items() if value is not None}
    save_file(content, path, {**header, "config": json.dumps(config)})


@pytest.mark.parametrize("share", [0, 4, 8, 0.1, 0.5, 0.99])
def test_truncated_files_are_refused(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: share if isinstance(share, int) else int(share * len(content))])
    with pytest.raises(ValueError, match="damaged or foreign"):
        hyperspn.load(file)


@pytest.mark.parametrize("content", [b"hello, world, this is text", b"\x80\x04\x95", struct.pack("<Q", 2**62) + b"{}"])
def test_foreign_files_are_refused(file, content):
    file.write_bytes(content)
    with pytest.raises(ValueError, match="damaged or foreign"):
        hyperspn.load(file)


def test_other_safetensors_files_are_refused(file):
    save_file({"x": torch.zeros(2)}, file)
    with pytest.raises(ValueError, match="another kind"):
        hyperspn.load(file)


@pytest.mark.parametrize("version", ["2", "999", "", "-1", "one"])
def test_newer_versions_are_refused(file, version):
    rewrite(file, metadata={"version": version})
    with pytest.raises(ValueError, match="format version 1 or older"):
        hyperspn.load(file)


def put(*path_and_value):
    *path, last, value = path_and_value

    def change(config):
        for key in path:
            config = config[key]
        config[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("layer_size", 6),
        put("layer_size", 10**12),
        put("layer_size", -1),
        put("layer_size", "5"),
        put("layer_size", 2.5),
        put("product", "outer"),
        put("product", "inner"),
        put("num_variables", 7),
        put("num_variables", 10**15),
        put("num_variables", None),
        put("spare_sectors", 10**15),
        put("spare_sectors", -3),
        put("leaves", []),
        put("leaves", 0, {"name": "Categorical", "categories": 10**12}),
        put("leaves", 0, {"name": "Poisson"}),
        put("leaves", 0, {"name": "Categorical", "code": "import os"}),
        put("weights", {"name": "DirectWeights"}),
        put("weights", {"name": "__import__"}),
        put("weights", "hidden", [20, 10**12]),
        put("weights", "hidden", "ab"),
        put("weights", "hidden", [1] * 1_000_000),
        put("weights", "init", "zero"),
        put("weights", 3),
        put("notes", 3),
        lambda config: config.clear(),
    ],
)
def test_tampered_headers_are_refused(file, change):
    rewrite(file, change)
    with pytest.raises(ValueError, match="inconsistent"):
        hyperspn.load(file)


@pytest.mark.parametrize("config", ["", "[]", "{", "[" * 100_000, "3"])
def test_headers_that_are_no_configuration_are_refused(file, config):
    with safe_open(file, framework="pt") as old:
        content = {name: old.get_tensor(name).clone() for name in old.keys()}  # noqa: SIM118
    save_file(content, file, {"format": "hyperspn", "version": "1", "config": config})
    with pytest.raises(ValueError, match="inconsistent"):
        hyperspn.load(file)


@pytest.mark.parametrize(
    "tensors",
    [
        {"mixture": torch.zeros(3)},
        {"mixture": torch.full((2,), torch.nan)},
        {"mixture": torch.zeros(2, dtype=torch.int64)},
        {"mixture": torch.zeros(2, dtype=torch.float64)},
        {"mixture": None},
        {"extra": torch.zeros(2)},
        {"structure.children": torch.full((20,), 7, dtype=torch.int16)},
        {"structure.children": torch.zeros(3)},
        {"structure.arities": None},
        {"structure.extra": torch.zeros(3)},
        {"leaves.family_of": torch.full((6,), 9)},
        {"leaves.family_of": torch.zeros(5, dtype=torch.int64)},
    ],
)
def test_tampered_tensors_are_refused(file, tensors):
    rewrite(file, **tensors)
    with pytest.raises(ValueError, match="inconsistent"):
        hyperspn.load(file)


def test_random_damage_never_crashes(file):
    content = bytearray(file.read_bytes())
    generator = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(content)
        for place in generator.integers(0, 1200, 3):
            damaged[place] = generator.integers(256)
        file.write_bytes(damaged)
        with suppress(ValueError):
            hyperspn.load(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        hyperspn.load(tmp_path / "nothing-here")


def test_description_and_parameter_groups():
    circuit = HyperSPN(16, leaves=[Categorical(2)] * 15 + [Gaussian(3)])
    text = repr(circuit)
    assert "16 variables" in text
    assert "Gaussian(members=3" in text
    assert f"{circuit.num_parameters:,} parameters" in text
    groups = circuit.parameter_groups()
    assert [group["name"] for group in groups] == ["embeddings", "network", "mixture", "leaves"]
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in circuit.parameters() if p.requires_grad)


def test_forward_is_log_prob():
    circuit = SPN(4, replicas=2)
    x = torch.tensor([[0, 1, 1, 0]])
    assert torch.equal(circuit(x), circuit.log_prob(x))
