import errno
import os
import subprocess
import sys

import pytest

from hyperspn.files import write


def test_drafts_of_processes_that_are_no_more_are_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    drafts = {
        f"a[1].txt.{gone.pid}.tmp": False,
        f"a[1].txt.{os.getppid()}.tmp": True,
        "a[1].txt.notes.tmp": True,
        f"a1.txt.{gone.pid}.tmp": True,
        f"b.a[1].txt.{gone.pid}.tmp": True,
    }
    for name in drafts:
        (tmp_path / name).touch()
    write(tmp_path / "a[1].txt", b"text")
    assert (tmp_path / "a[1].txt").read_bytes() == b"text"
    assert {name: (tmp_path / name).exists() for name in drafts} == drafts


def test_a_full_disk_is_said_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/table.csv'"):
        write(tmp_path / "table.csv", b"text")
    assert not list(tmp_path.iterdir())


NO_KERNEL = """
import sys, warnings
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "hyperspn._kernel":
            raise {error}
sys.meta_path.insert(0, Finder())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import hyperspn
print(*(warning.message for warning in caught if "kernel" in str(warning.message)))
"""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("ModuleNotFoundError(name=name)", "could not be built: pip install -v shows the errors"),
        ("ImportError('libgomp.so.1: no such file')", "cannot use its compiled kernel (libgomp.so.1: no such file)"),
        ("ModuleNotFoundError('no x', name='x')", "cannot use its compiled kernel (no x)"),
    ],
)
def test_without_the_kernel_the_true_reason_is_said(error, reason):
    result = subprocess.run(
        [sys.executable, "-c", NO_KERNEL.format(error=error)], check=True, capture_output=True, text=True
    )
    assert reason in result.stdout
    assert "slower layered engine" in result.stdout
