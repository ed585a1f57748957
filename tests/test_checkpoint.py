import errno
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time

from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
import torch

from hyperspn import SPN, Categorical, Gaussian, HyperSPN, load
from hyperspn.files import write
from hyperspn.learning import fit

SETTINGS = {"steps": 120, "evaluate_every": 10, "batch_size": 40, "weight_decay": 1e-3, "dropout": 0.1, "seed": 3}
SCRIPT = """
import sys
import time
import torch
sys.path.insert(0, {tests!r})
torch.set_num_threads(1)
from test_checkpoint import SETTINGS, circuit, tables
from hyperspn.learning import fit
save = torch.save
torch.save = lambda content, file: (save(content, file), time.sleep(0.05))
fit(circuit(), *tables(), **SETTINGS, folder=sys.argv[1])
"""


pytestmark = pytest.mark.usefixtures("one_thread")


def circuit(assemble=HyperSPN, **options):
    leaves = [Categorical(2)] * 5 + [Gaussian(3)]
    return assemble(6, **{"layer_size": 3, "replicas": 4, "leaves": leaves, **options})


def tables(seed=0):
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 2, (200, 6)).astype(np.float32)
    x[:, 5] += x[:, 0] + generator.normal(size=200)
    x[generator.random(x.shape) < 0.05] = np.nan
    return x[:150], x[150:]


def run(model, folder=None, data=None, **options):
    return fit(model, *(data or tables()), **{**SETTINGS, **options}, folder=folder, progress=False)


def untimed(history):
    return history._replace(seconds=0)


def log_of(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def same_parameters(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def stopped_after(folder, model, evaluations, error=KeyboardInterrupt, **options):
    """Runs until some evaluations are written, then raises."""
    calls, save = [], torch.save

    def watched(content, file):
        if len(calls) == evaluations:
            file.write(b"half of it")
            raise error
        calls.append(content)
        save(content, file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "save", watched)
        with pytest.raises(error):
            run(model, folder, **options)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder, model = tmp_path_factory.mktemp("run"), circuit()
    return model, run(model, folder), folder


def test_the_files_of_a_run(uninterrupted):
    model, history, folder = uninterrupted
    assert {path.name for path in folder.iterdir()} == {"log.jsonl", "checkpoint.pt", "model.safetensors"}
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == history.steps == list(range(0, 121, 10))
    assert [line["train"] for line in lines] == history.train
    assert [line["valid"] for line in lines] == history.valid
    assert lines[-1]["seconds"] == history.seconds
    assert same_parameters(load(folder / "model.safetensors"), model)
    assert untimed(run(circuit())) == untimed(history)


def killed_when(folder, ready, pause=0.0):
    """Starts the run in a process of its own and kills it once the folder is ready; whether that was in time."""
    script = SCRIPT.format(tests=os.path.dirname(__file__))
    process = subprocess.Popen([sys.executable, "-c", script, str(folder)], stderr=subprocess.PIPE)
    while process.poll() is None and not ready():
        time.sleep(0.001)
    time.sleep(pause)
    process.send_signal(signal.SIGKILL)
    error = process.communicate()[1].decode()
    assert process.returncode in (0, -signal.SIGKILL), error
    return process.returncode != 0


def ended_process():
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_killed_run_resumes_and_ends_with_the_same_numbers(uninterrupted, tmp_path):
    def lines():
        path = tmp_path / "log.jsonl"
        return len(path.read_text().splitlines()) if path.exists() else 0

    kills = [
        killed_when(tmp_path, lambda: lines() >= 1),
        killed_when(tmp_path, lambda: lines() >= 4, pause=0.06),
        killed_when(tmp_path, lambda: lines() >= 6 and any(tmp_path.glob("checkpoint.pt.*.tmp"))),
    ]
    assert all(kills)
    (tmp_path / f"log.jsonl.{ended_process()}.tmp").write_text("half a line")
    (tmp_path / "log.jsonl").write_text((tmp_path / "log.jsonl").read_text() + '{"step": 9')
    assert not killed_when(tmp_path, lambda: False)
    model, history, folder = uninterrupted
    assert same_parameters(load(tmp_path / "model.safetensors"), model)
    assert log_of(tmp_path) == log_of(folder)
    again = circuit()
    assert untimed(run(again, tmp_path)) == untimed(history)
    assert same_parameters(again, model)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in folder.iterdir()}


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked")
def test_only_one_process_trains_in_a_folder(uninterrupted, tmp_path):
    script = SCRIPT.format(tests=os.path.dirname(__file__))
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        while not (tmp_path / "checkpoint.pt").exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(ValueError, match=f"another process is training in {tmp_path}"):
            run(circuit(), tmp_path)
    finally:
        process.kill()
        process.wait()
    assert untimed(run(circuit(), tmp_path)) == untimed(uninterrupted[1])


def test_folders_that_cannot_be_locked_are_used_without(uninterrupted, tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("hyperspn.learning.checkpoint.fcntl.flock", no_locks)
    assert untimed(run(circuit(), tmp_path)) == untimed(uninterrupted[1])
    monkeypatch.setattr("hyperspn.learning.checkpoint.fcntl", None)
    assert untimed(run(circuit(), tmp_path)) == untimed(uninterrupted[1])


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("evaluations", [0, 1, 5])
def test_an_interrupted_or_unwritable_checkpoint_leaves_the_last_one(uninterrupted, tmp_path, evaluations, error):
    stopped_after(tmp_path, circuit(), evaluations, error)
    assert (tmp_path / "checkpoint.pt").exists() == (evaluations > 0)
    assert not list(tmp_path.glob("*.tmp"))
    if evaluations:
        before = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
        assert before["evaluations"][-1]["step"] == 10 * (evaluations - 1)
    model, history, folder = uninterrupted
    again = circuit()
    assert untimed(run(again, tmp_path)) == untimed(history)
    assert same_parameters(again, model)
    assert log_of(tmp_path) == log_of(folder)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_error_amid_a_checkpoint_comes_out_as_it_is(tmp_path, monkeypatch, error):
    class Disk(io.FileIO):
        def write(self, data):
            if self.tell() + len(data) > 100:
                raise error
            return super().write(data)

    monkeypatch.setattr("hyperspn.files.open", Disk, raising=False)
    with pytest.raises(error):
        write(tmp_path / "file", bytes(1000))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", ["auto", "layered"])
def test_a_direct_circuit_with_early_stopping_resumes_too(tmp_path, engine):
    options = {"patience": 2, "learning_rate": 0.2, "dropout": 0.0}
    expected_model = circuit(SPN, engine=engine)
    expected = run(expected_model, **options)
    assert expected.stopped_early
    for evaluations in (2, 1):
        stopped_after(tmp_path, circuit(SPN, engine=engine), evaluations, **options)
    model = circuit(SPN, engine=engine)
    assert untimed(run(model, tmp_path, **options)) == untimed(expected)
    assert same_parameters(model, expected_model)
    assert run(circuit(SPN, engine=engine), tmp_path, **options).stopped_early


def test_the_same_circuit_may_go_on_after_an_interrupt(uninterrupted, tmp_path):
    model = circuit()
    stopped_after(tmp_path, model, 4)
    run(model, tmp_path)
    assert same_parameters(model, uninterrupted[0])


def test_an_annealed_run_goes_on_with_its_learning_rates(tmp_path):
    whole, parts = circuit(), circuit()
    expected = run(whole, annealing=True)
    stopped_after(tmp_path, circuit(), 2, annealing=True)
    assert untimed(run(parts, tmp_path, annealing=True)) == untimed(expected)
    assert same_parameters(whole, parts)
    with pytest.raises(ValueError, match="found annealing False instead of True"):
        run(circuit(), tmp_path)


def test_a_finished_run_returns_at_once(uninterrupted, monkeypatch):
    model, history, folder = uninterrupted
    files = {path: path.read_bytes() for path in folder.iterdir()}
    again = circuit(seed=0)
    monkeypatch.setattr(type(again), "log_prob", None)
    assert run(again, folder) == history
    assert same_parameters(again, model)
    assert {path: path.read_bytes() for path in folder.iterdir()} == files


def test_a_missing_model_file_is_written_again(uninterrupted):
    model, _, folder = uninterrupted
    (folder / "model.safetensors").unlink()
    run(circuit(), folder)
    assert same_parameters(load(folder / "model.safetensors"), model)


def test_a_model_of_an_earlier_run_does_not_stay(tmp_path):
    circuit(SPN).save(tmp_path / "model.safetensors")
    stopped_after(tmp_path, circuit(), 2)
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 200}, "found steps 200 instead of 120: choose another folder"),
        ({"seed": 4, "weight_decay": 0.0}, "found weight_decay 0.0 instead of 0.001, seed 4 instead of 3"),
        ({"patience": 5}, "patience 5 instead of None"),
        ({"data": tables(seed=1)}, r"found train \w+ \(150 rows of torch.float32\) instead of"),
        ({"data": tables()[:1]}, "found valid None instead of"),
    ],
)
def test_other_arguments_are_refused(uninterrupted, options, message):
    model = circuit()
    with pytest.raises(ValueError, match=message):
        run(model, uninterrupted[2], **options)
    assert same_parameters(model, circuit())


@pytest.mark.parametrize(
    "other",
    [
        lambda: circuit(SPN),
        lambda: circuit(layer_size=2),
        lambda: circuit(seed=1),
        lambda: circuit(hidden=(20, 10)),
        lambda: circuit().double(),
        lambda: circuit(leaves=[Categorical(2)] * 5 + [Gaussian(3, min_variance=0.1)]),
    ],
)
def test_another_circuit_is_refused(uninterrupted, other):
    with pytest.raises(ValueError, match=r"found circuit \w+ \(\d+ parameters\) instead of .*: choose another folder"):
        run(other(), uninterrupted[2])


def noted(**notes):
    model = circuit()
    model.notes = notes
    return model


def columns(*names, categories=("no", "yes")):
    return {"columns": [{"name": name, "categories": list(categories), "mean": float("nan")} for name in names]}


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ({"schema": columns("a", "c")}, "found schema columns 2 name c instead of b: choose another folder"),
        ({"schema": columns("a", "b", categories=["no", "oh"])}, "schema columns 1 categories 2 oh instead of yes"),
        ({"schema": columns("a")}, r"schema columns \[.*\] instead of \[.*\.\.\.: choose"),
        ({"names": ["a", "b"]}, r"found schema None instead of .*, notes .* instead of None"),
    ],
)
def test_a_run_of_another_table_is_refused(tmp_path, notes, message):
    """The same codes may mean other categories of other columns."""
    run(noted(schema=columns("a", "b"), data="a.csv"), tmp_path, steps=2)
    with pytest.raises(ValueError, match=message):
        run(noted(**notes), tmp_path, steps=2)
    run(noted(schema=columns("a", "b"), data="moved/a.csv"), tmp_path, steps=2)


class Harmful:
    def __reduce__(self):
        return os.abort, ()


def test_damaged_and_foreign_checkpoints(uninterrupted, tmp_path):
    path = tmp_path / "checkpoint.pt"
    whole = (uninterrupted[2] / "checkpoint.pt").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 16
    model = (uninterrupted[2] / "model.safetensors").read_bytes()
    contents = [b"", b"hello", whole[: len(whole) // 2], whole[:-1], bytes(flipped), pickle.dumps(Harmful()), model]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"damaged or foreign file at .*checkpoint.pt: remove it"):
            run(circuit(), tmp_path)
        assert path.read_bytes() == content
    for content in ({"step": 3}, [1], Harmful()):
        torch.save(content, path)
        with pytest.raises(ValueError, match="damaged or foreign"):
            run(circuit(), tmp_path)


def put(content, *place_and_value):
    *place, last, value = place_and_value
    for key in place:
        content = content[key]
    content[last] = value


@pytest.mark.parametrize(
    "place_and_value",
    [
        ("arguments", 3),
        ("arguments", "steps", torch.zeros(3)),
        ("version", torch.ones(2)),
        ("evaluations", []),
        ("evaluations", {"step": 3}),
        ("evaluations", 0, "step", 10**9),
        ("evaluations", 0, "step", "0"),
        ("evaluations", 1, "valid", None),
        ("evaluations", 1, "train", float("nan")),
        ("evaluations", 1, "seconds", None),
        ("model", {}),
        ("model", "mixture", torch.zeros(5)),
        ("model", "mixture", torch.full((4,), torch.inf)),
        ("model", "mixture", torch.zeros(4, dtype=torch.float64)),
        ("best", "mixture", torch.full((4,), torch.nan)),
        ("best", "mixture", None),
        ("optimizer", {}),
        ("optimizer", "state", {0: {}}),
        ("optimizer", "state", 99, {}),
        ("optimizer", "state", "0", {}),
        ("optimizer", "state", 0, "exp_avg", torch.zeros(1)),
        ("optimizer", "state", 0, "exp_avg_sq", None),
        ("optimizer", "state", 0, "step", torch.tensor(torch.nan)),
    ],
)
def test_inconsistent_checkpoints_are_refused(uninterrupted, tmp_path, place_and_value):
    content = torch.load(uninterrupted[2] / "checkpoint.pt", weights_only=True)
    put(content, *place_and_value)
    torch.save(content, tmp_path / "checkpoint.pt")
    model = circuit()
    with pytest.raises(ValueError, match=r"damaged or foreign file at .*checkpoint.pt: remove it"):
        run(model, tmp_path)
    assert same_parameters(model, circuit())


def test_a_checkpoint_that_was_compressed_is_refused(uninterrupted, tmp_path):
    with (
        ZipFile(uninterrupted[2] / "checkpoint.pt") as whole,
        ZipFile(tmp_path / "checkpoint.pt", "w", ZIP_DEFLATED) as packed,
    ):
        for part in whole.infolist():
            packed.writestr(part.filename, whole.read(part))
    with pytest.raises(ValueError, match="damaged or foreign"):
        run(circuit(), tmp_path)


def test_a_newer_checkpoint_is_refused(uninterrupted, tmp_path):
    content = torch.load(uninterrupted[2] / "checkpoint.pt", weights_only=True)
    torch.save({**content, "version": 2}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="format version 1, found 2"):
        run(circuit(), tmp_path)


def test_an_explosion_leaves_the_last_good_checkpoint(tmp_path):
    for _ in range(2):
        model = circuit(SPN)
        with pytest.raises(FloatingPointError, match="another folder"):
            run(model, tmp_path, learning_rate=3e38)
        content = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
        assert [evaluation["step"] for evaluation in content["evaluations"]] == [0]
        assert same_parameters(model, circuit(SPN))
        assert not (tmp_path / "model.safetensors").exists()


def test_the_folder_is_made(tmp_path):
    run(circuit(), tmp_path / "a" / "b", steps=2)
    assert log_of(tmp_path / "a" / "b")[-1]["step"] == 2
