import subprocess
import sys

from pathlib import Path

import pytest

LEAKS = Path(__file__).parents[1] / "benchmarks" / "leaks.py"


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory cannot be measured")
def test_queries_leave_no_memory_behind():
    command = [sys.executable, LEAKS, "--calls", "300", "--circuit", "native"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, summary = done.stdout.splitlines()
    assert len(lines) == 10
    assert summary == "no queries leave more behind than 100 bytes per call and 512 kB of noise"
