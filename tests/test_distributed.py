"""Several processes: the numbers of one, whatever happens to the others."""

import json
import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from torch.nn.parallel import DistributedDataParallel

from hyperspn import EM, SPN, Categorical, Gaussian, HyperSPN, fit
from hyperspn.learning import distributed

ROWS = np.random.default_rng(0).integers(0, 2, (90, 1)) ^ (np.random.default_rng(1).random((90, 5)) < 0.2)
MIXED = np.concatenate([ROWS, ROWS.sum(1, keepdims=True) + np.random.default_rng(2).normal(size=(90, 1))], 1)
WEIGHTS = np.random.default_rng(3).uniform(0.5, 2, 60)
LEAVES = [Categorical(2)] * 5 + [Gaussian(3)]
CIRCUITS = {
    "direct": lambda: SPN(5, replicas=3),
    "hyper": lambda: HyperSPN(5, replicas=3),
    "factored": lambda: HyperSPN(5, replicas=3, weights="factored"),
    "mixed": lambda: HyperSPN(6, replicas=3, leaves=LEAVES),
    "em": lambda: SPN(6, replicas=3, leaves=LEAVES),
}
OPTIONS = {
    "direct": {"batch_size": 17, "dropout": 0.1},
    "hyper": {"batch_size": 60, "weight_decay": 1e-3, "annealing": True},
    "factored": {"batch_size": 1, "learning_rate": 0.3, "patience": 1},
    "mixed": {"batch_size": 32, "sample_weight": WEIGHTS},
    "em": {"batch_size": 31, "optimizer": "em", "pseudocount": 0.1, "step_size": 0.5, "sample_weight": WEIGHTS},
}


@pytest.fixture
def together(tmp_path):
    """Runs a function in two processes that form a group: what each returns."""

    def work(rank, function, results):
        torch.set_num_threads(1)
        where = f"file://{tmp_path}/{function.__name__}"
        torch.distributed.init_process_group("gloo", where, rank=rank, world_size=2)
        try:
            results.put((rank, function()))
        except Exception as error:  # noqa: BLE001
            results.put((rank, error))
        torch.distributed.destroy_process_group()

    def run(function):
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        processes = [context.Process(target=work, args=(rank, function, results)) for rank in range(2)]
        for process in processes:
            process.start()
        answers = dict(results.get(timeout=60) for _ in processes)
        for process in processes:
            process.join()
        return [answers[rank] for rank in range(2)]

    return run


def learned(name, folder=None):
    """The course of a run, and the parameters in its end."""
    torch.manual_seed(distributed.rank())
    circuit = CIRCUITS[name]().double()
    rows = ROWS if circuit.num_variables == 5 else MIXED
    settings = {"steps": 12, "evaluate_every": 3, "seed": 4, "progress": False, **OPTIONS[name]}
    history = fit(circuit, rows[:60], rows[60:], folder=folder, **settings)
    return history, {name: value.numpy() for name, value in circuit.state_dict().items()}


@pytest.mark.filterwarnings("ignore:.*fork")
def test_two_processes_learn_what_one_does(together, one_thread, tmp_path):
    def two():
        return {name: learned(name, tmp_path / f"{name} {distributed.rank()}") for name in CIRCUITS}

    answers = together(two)
    for name in CIRCUITS:
        torch.manual_seed(0)
        history, parameters = learned(name)
        for found, values in (answers[0][name], answers[1][name]):
            np.testing.assert_allclose(found.train, history.train, rtol=1e-6)
            np.testing.assert_allclose(found.valid, history.valid, rtol=1e-6)
            assert (found.steps, found.best_step, found.stopped_early) == (
                history.steps,
                history.best_step,
                history.stopped_early,
            )
            for key, value in parameters.items():
                np.testing.assert_allclose(values[key], value, rtol=1e-6, atol=1e-9)
        assert not (tmp_path / f"{name} 1").exists()
        log = [json.loads(line)["valid"] for line in (tmp_path / f"{name} 0" / "log.jsonl").read_text().splitlines()]
        assert log == answers[0][name][0].valid
    assert answers[0]["factored"][0].stopped_early


@pytest.mark.filterwarnings("ignore:.*fork")
def test_errors_and_arguments_are_those_of_all_processes(together, one_thread):
    rows = ROWS.astype(int)
    rows[-1] = 2

    def other_rows():
        fit(SPN(5), ROWS[distributed.rank() :], progress=False)

    def an_impossible_row():
        circuit = SPN(5, replicas=2, leaves=Categorical(3))
        kind = circuit.sectors.kinds[0]
        with torch.no_grad():
            circuit.weights.logits[0].view(-1, kind.rows, kind.columns)[..., 2] = -torch.inf
        fit(circuit, rows, steps=1, progress=False)

    def an_error_of_the_first():
        distributed.first(lambda: 1 / 0)

    for error in together(other_rows):
        assert isinstance(error, ValueError)
        assert "the same arguments of fit in all processes, found different ones (train)" in str(error)
    assert [type(error) for error in together(an_impossible_row)] == [FloatingPointError] * 2
    assert [type(error) for error in together(an_error_of_the_first)] == [ZeroDivisionError] * 2


@pytest.mark.filterwarnings("ignore:.*fork")
def test_data_parallel_circuits_and_em_in_a_loop_of_one_s_own(together, one_thread):
    def loop():
        torch.manual_seed(0)
        circuit = HyperSPN(5, replicas=2).double()
        rows = torch.from_numpy(ROWS)[distributed.part(len(ROWS))]
        parallel = DistributedDataParallel(circuit) if distributed.size() > 1 else circuit
        optimizer = torch.optim.Adam(circuit.parameter_groups())
        for _ in range(3):
            optimizer.zero_grad()
            (-distributed.size() * parallel(rows).sum()).backward()
            optimizer.step()
        em = EM(SPN(5, replicas=2).double(), pseudocount=1.0)
        em.step(rows)
        return [parameter.detach().numpy() for parameter in (*circuit.parameters(), *em.circuit.parameters())]

    alone = loop()
    for answer in together(loop):
        for found, value in zip(answer, alone, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-9)


KILLED = """
import os, signal
from hyperspn_command import start
from hyperspn.learning.steps import Training
learn = Training.learn
def killed(self, step):
    if step == 25 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    learn(self, step)
Training.learn = killed
start()
"""


def test_a_killed_process_ends_the_job_with_one_line_and_a_restart_resumes(run, tmp_path):
    """The first attempt loses its second process in step 25; the second one ends with the numbers of one process."""
    (tmp_path / "killed.py").write_text(KILLED)
    arguments = "train penguins --recipe chow-liu --replicas 2 --steps 40 --evaluate-every 10 --seed 1 --json --out"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1"]
    command = [*launch, tmp_path / "killed.py", *arguments.split(), tmp_path / "two"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("hyperspn: another process of this job has ended") <= 1  # torchrun may end it first
    assert "Traceback" not in done.stderr
    code, output, _ = run(f"{arguments} {tmp_path}/one")
    two, one = json.loads(done.stdout), json.loads(output)
    assert code == 0
    for part in ("valid", "test", "step"):
        assert two[part] == pytest.approx(one[part], rel=1e-4)
