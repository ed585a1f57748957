import subprocess
import sys

from pathlib import Path

KILLS = Path(__file__).parents[1] / "benchmarks" / "kills.py"


def test_a_search_that_is_killed_ends_with_the_same_numbers():
    command = [sys.executable, KILLS, "train", "--model", "spn", "--steps", "40", "--kills", "3"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("3 kills")
