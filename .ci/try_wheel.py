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
)


def main(wheel: str) -> None:
    if not any(name.startswith("hyperspn/_kernel") for name in zipfile.ZipFile(wheel).namelist()):
        sys.exit(f"{wheel} has no kernel")
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "environment")
        venv.create(environment, with_pip=True)
        subprocess.run([environment / "bin" / "pip", "install", "--quiet", Path(wheel).resolve()], check=True)
        for command in COMMANDS:
            subprocess.run([environment / "bin" / "hyperspn", *command.split()], check=True, cwd=folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
