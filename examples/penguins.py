"""A real table with holes, from training to a page: questions on the command line, and the explorer.

Run with `make demo`. Writes demo/penguins, a trained model, and demo/penguins.html.
"""

from __future__ import annotations

import shlex
import subprocess
import sys

COMMANDS = (
    "train penguins --recipe factored --out demo/penguins",
    "query demo/penguins --of species --given 'body_mass_g=3000..4000, island!=Dream'",
    "query demo/penguins --of body_mass_g --given 'species=Gentoo, sex=female'",
    "query demo/penguins --of 'flipper_length_mm>200' --given 'bill_depth_mm<16'",
    "explore demo/penguins --out demo/penguins.html",
)


def main() -> None:
    for command in COMMANDS:
        print(f"\n$ hyperspn {command}", flush=True)
        subprocess.run([sys.executable, "-m", "hyperspn", *shlex.split(command)], check=True)
    print("\nOpen demo/penguins.html in a browser, and click.")


if __name__ == "__main__":
    main()
