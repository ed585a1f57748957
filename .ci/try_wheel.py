"""Tries a wheel as a new user would: `python .ci/try_wheel.py WHEEL` installs it into an empty environment and uses it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile

from pathlib import Path

COMMANDS = (
    "--version",
    "train penguins --out run --recipe chow-liu --steps 50",
    "query run --of species --given body_mass_g=3000..4000",
    "explore run --out penguins.html",
)
CONTENTS = (
    "hyperspn/_kernel",
    "hyperspn/py.typed",
    "hyperspn/explorer/evaluator.js",
    "licenses/LICENSE",
    "nanobind.txt",
)
KERNEL = "import hyperspn; assert type(hyperspn.SPN(4).engine).__name__ == 'NativeEngine'"


def main(wheel: str) -> None:
    check(Path(wheel))
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "environment")
        venv.create(environment, with_pip=True)
        subprocess.run([environment / "bin" / "pip", "install", "--quiet", Path(wheel).resolve()], check=True)
        subprocess.run([environment / "bin" / "python", "-W", "error", "-c", KERNEL], check=True, cwd=folder)
        for command in COMMANDS:
            subprocess.run([environment / "bin" / "hyperspn", *command.split()], check=True, cwd=folder)
    print(f"{wheel} can be given away")


def check(wheel: Path) -> None:
    """Stops if the wheel lacks a part, or would run on this machine only."""
    names = zipfile.ZipFile(wheel).namelist()
    absent = [part for part in CONTENTS if not any(part in name for name in names)]
    if absent:
        sys.exit(f"{wheel.name} lacks {', '.join(absent)}")
    if "-linux_" in wheel.name:
        sys.exit(f"expected a wheel with a manylinux tag, found {wheel.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
