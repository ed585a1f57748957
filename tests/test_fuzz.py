import subprocess
import sys

from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"


@pytest.mark.skipif(sys.platform == "win32", reason="memory cannot be measured")
def test_damaged_files_are_refused():
    done = subprocess.run([sys.executable, FUZZ, "--cases", "300"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, summary = done.stdout.splitlines()
    assert summary == "300 damaged files: no failures"
    endings = [line.rsplit(maxsplit=1) for line in lines]
    assert sum(int(count) for _, count in endings) == 300
    assert any("opened" in ending for ending, _ in endings)
