import json
import os
import shutil
import struct
import subprocess
import sys

from contextlib import suppress
from dataclasses import dataclass
from errno import ENOSPC

import numpy as np
import pytest
import torch

from safetensors import safe_open
from safetensors.torch import save_file
from worlds import STRUCTURES, all_worlds, make, mixed_families

import hyperspn

from hyperspn import SPN, Categorical, Circuit, EiNet, Gaussian, HyperSPN, fit
from hyperspn.files import tensors_to_bytes
from hyperspn.learning.em import EM
from hyperspn.leaves import Leaves
from hyperspn.structures import binary_trees, poon_domingos
from hyperspn.weights import DirectWeights, Sectors

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
        put("leaves", 0, {"name": []}),
        put("num_variables", float("nan")),
        put("leaves", 0, {"name": "Categorical", "code": "import os"}),
        put("weights", {"name": "DirectWeights"}),
        put("weights", "hidden", [20, 10**12]),
        put("weights", "hidden", "ab"),
        put("weights", "hidden", [1] * 1_000_000),
        put("weights", "init", "zero"),
        put("weights", "rank", 2),
        put("weights", "rank", 0),
        put("weights", "rank", 10**30),
        put("weights", "rank", "2"),
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
        {"mixture": torch.tensor([0.0, torch.inf])},
        {"mixture": torch.full((2,), -torch.inf)},
        {"weights.embeddings": torch.full((47, 5), -torch.inf)},
        {"leaves.raw.1": torch.full((3, 2, 2), torch.inf)},
        {"leaves.raw.1": torch.full((3, 2, 2), -torch.inf)},
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


def test_counts_whose_sum_wraps_around_do_not_end_the_process(file, tmp_path):
    names = ("partition_counts", "arities", "leaf_sizes")
    for name in names:
        other = shutil.copy(file, tmp_path / name)
        with safe_open(file, framework="pt") as old:
            counts = old.get_tensor(f"structure.{name}").long()
        counts[:4] += 2**62
        rewrite(other, **{f"structure.{name}": counts})
    opened = f"""
import hyperspn
for name in {names!r}:
    try: hyperspn.load({str(tmp_path)!r} + "/" + name)
    except ValueError as error: print(error)
"""
    result = subprocess.run([sys.executable, "-c", opened], check=True, capture_output=True, text=True)
    assert result.stdout.count("expected a complete model file") == len(names)


@pytest.mark.skipif(sys.platform != "linux", reason="memory cannot be bounded")
def test_a_file_needs_memory_in_proportion_to_its_size(tmp_path):
    structure = {"partition_counts": [0], "arities": [], "children": [], "leaf_sizes": [300_000]}
    arrays = {name: np.array(values, np.int32) for name, values in structure.items()}
    arrays["leaf_variables"] = np.arange(300_000, dtype=np.int32)
    arrays = {f"structure.{name}": array for name, array in arrays.items()}
    arrays["leaves.family_of"] = np.zeros(300_000, np.uint8)
    leaves, weights = [{"name": "Categorical", "categories": 2}], {"name": "DirectWeights", "init": "uniform"}
    config = {"num_variables": 300_000, "spare_sectors": 0, "layer_size": 2, "product": "elementwise"}
    header = json.dumps({**config, "leaves": leaves, "weights": weights, "notes": {}})
    arrays |= {"mixture": np.zeros(1, np.float32), "weights.logits.0": np.zeros((1, 4), np.float32)}
    arrays["leaves.raw.0"] = np.zeros((300_000, 2, 0), np.float32)
    path = tmp_path / "model"
    path.write_bytes(tensors_to_bytes(arrays, {"format": "hyperspn", "version": "1", "config": header}))
    assert path.stat().st_size < 2e6
    opened = f"import resource, hyperspn; hyperspn.load({str(path)!r}, engine='layered')\n"
    opened += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    result = subprocess.run([sys.executable, "-c", opened], check=True, capture_output=True, text=True)
    assert int(result.stdout) < 1_000_000  # kilobytes


def test_only_parameters_follow_a_device_context():
    for name, weights in (("trees5", "direct"), ("one tree", "factored"), ("grid", "hyper EiNet")):
        with torch.device("meta"):
            circuit = make(name, weights, leaves=Categorical(3))
        assert {parameter.device.type for parameter in circuit.parameters()} == {"meta"}
        indices = [buffer for name, buffer in circuit.named_buffers() if name != "mixture"]
        assert {index.device.type for index in (*indices, circuit.leaves.family_of)} == {"cpu"}


def test_a_huge_layer_of_factored_weights_is_refused(tmp_path):
    circuit = HyperSPN(3, 2, weights="factored", structure=binary_trees(3, 2, shared=True))
    circuit.save(tmp_path / "model")
    rewrite(tmp_path / "model", put("layer_size", 200_000))
    with pytest.raises(ValueError, match=r"found \d+ in a replica"):
        hyperspn.load(tmp_path / "model")


@pytest.mark.parametrize("layer_size", [30_000, 2**62, 2**63 - 1, 10**30])
def test_a_huge_layer_of_outer_products_is_refused(tmp_path, layer_size):
    EiNet(STRUCTURES["grid"], 2, Gaussian(2)).save(tmp_path / "model")
    rewrite(tmp_path / "model", put("layer_size", layer_size))
    with pytest.raises(ValueError, match="expected sectors for"):
        hyperspn.load(tmp_path / "model")


def test_weights_that_em_has_made_zero_are_saved_and_loaded(tmp_path):
    circuit = SPN(4, 2, 2)
    rows = torch.tensor([[0, 0, 1, 1]] * 3)
    EM(circuit).step(rows)
    assert any((logits == -torch.inf).any() for logits in circuit.weights.logits)
    circuit.save(tmp_path / "model")
    again = hyperspn.load(tmp_path / "model")
    assert torch.equal(again.log_prob(rows), circuit.log_prob(rows))
    logits = circuit.weights.logits[0].detach().clone()
    logits[0] = -torch.inf
    rewrite(tmp_path / "model", **{"weights.logits.0": logits})
    with pytest.raises(ValueError, match="a weight > 0 in every sum"):
        hyperspn.load(tmp_path / "model")


@dataclass(frozen=True)
class Coin(Categorical):
    """A family that the library does not have."""


class Loaded(DirectWeights):
    """A weight source that the library does not have."""


def test_circuits_of_classes_that_others_wrote(tmp_path):
    sectors = Sectors(binary_trees(3, 2), 2, [2] * 3)
    circuit = Circuit(sectors, Leaves([Coin(2)] * 3), Loaded(sectors))
    circuit.save(tmp_path / "model")
    again = hyperspn.load(tmp_path / "model", classes=[Coin, Loaded])
    assert torch.equal(again.log_prob(all_worlds(again)), circuit.log_prob(all_worlds(circuit)))
    for classes, missing in (([], "Coin"), ([Coin], "Loaded")):
        with pytest.raises(ValueError, match=rf"class '{missing}' that is not one of .* load\(path, classes="):
            hyperspn.load(tmp_path / "model", classes=classes)


def test_equal_runs_have_equal_files_in_every_process(tmp_path, one_thread):
    written(tmp_path / "here")
    script = "import sys; from test_circuit import written; written(sys.argv[1])"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.path.dirname(__file__)}
    subprocess.run([sys.executable, "-c", script, tmp_path / "there"], check=True, env=environment)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def written(path):
    """Saves what two equal runs end with."""
    torch.set_num_threads(1)
    circuit = HyperSPN(6, replicas=2, leaves=[Categorical(2), Gaussian(2)] * 3)
    circuit.notes = {"names": ["größe", "color"], "seed": 3}
    fit(circuit, torch.randint(2, (50, 6), generator=torch.Generator().manual_seed(0)), steps=10, progress=False)
    circuit.save(path)


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


def test_a_description_says_which_engine_and_why():
    text = repr(EiNet(poon_domingos((2, 2), delta=1), 2, leaves=Categorical(2)))
    assert "1 root, 9 regions" in text
    assert "layered (native is faster, but cannot serve outer products)" in text
    assert repr(SPN(4, engine="layered")).endswith("layered")
    families = [Categorical(count) for count in range(2, 8)]
    assert "Categorical(categories=4), 3 other families\n" in repr(SPN(6, leaves=families))


@pytest.mark.parametrize("weights", ["direct", "hyper", "factored", "direct EiNet", "hyper EiNet"])
def test_the_weights_of_regions_are_probabilities_and_say_all(weights):
    circuit = make("one tree" if weights == "factored" else "shared", weights, layer_size=2)
    structure, worlds, values = circuit.structure, all_worlds(circuit), []
    for region in range(structure.num_regions):
        own = circuit.region_weights(region)
        torch.testing.assert_close(own.sum(1), torch.ones(len(own), dtype=own.dtype))
        if not structure.partition_counts[region]:
            (variable,) = structure.variables(region)
            inputs = [torch.nn.functional.one_hot(worlds[:, variable], 2).double()]
        elif weights.endswith("EiNet"):
            pairs = ((values[left], values[right]) for left, right in structure.partitions(region))
            inputs = [(right[:, :, None] * left[:, None, :]).flatten(1) for left, right in pairs]
        else:
            inputs = [torch.stack([values[child] for child in part]).prod(0) for part in structure.partitions(region)]
        values.append(torch.cat(inputs, 1) @ own.T)
    roots = torch.cat([values[root] for root in structure.roots], 1)  # (worlds, roots)
    torch.testing.assert_close((roots @ circuit.mixture.softmax(0)).log(), circuit.log_prob(worlds))


def test_only_regions_have_weights():
    with pytest.raises(ValueError, match=r"expected a region 0\.\.8, found 9"):
        make("shared", "direct").region_weights(9)


def test_forward_is_log_prob():
    circuit = SPN(4, replicas=2)
    x = torch.tensor([[0, 1, 1, 0]])
    assert torch.equal(circuit(x), circuit.log_prob(x))
