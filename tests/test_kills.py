import subprocess
import sys

from pathlib import Path

KILLS = Path(__file__).parents[1] / "benchmarks" / "kills.py"


def test_a_search_that_is_killed_ends_with_the_same_numbers():
    command = [sys.executable, KILLS, "train", "--model", "spn", "--steps", "40", "--kills", "2"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("2 kills")


def test_a_worker_whose_command_was_killed_before_it_began_ends():
    script = (
        "import time; from multiprocessing import current_process; current_process().name = 'LokyProcess-1'\n"
        "from hyperspn.experiments.workers import _train_under; _train_under(-1, time.sleep, 600)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=120).returncode == 1
