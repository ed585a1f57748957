"""Makes the paper's tables and figures from the records in results/, there and in docs/results.md. Run with `make docs`."""

from __future__ import annotations

import re

from pathlib import Path

from hyperspn.experiments import ARTEFACTS, Records
from hyperspn.experiments.figures import FIGURES
from hyperspn.experiments.reproduce import write_files

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    page, records = ROOT / "docs" / "results.md", Records(ROOT / "results")
    text = page.read_text(encoding="utf-8")
    for what, artefact in ARTEFACTS.items():
        table = artefact.table(records, artefact.datasets)
        if table.rows:
            write_files(what, records)
            picture = f"![{table.title}](../results/{what}.svg)\n\n" if what in FIGURES else ""
            text = re.sub(rf"(?s)(<!-- {what} -->\n).*?(?=<!-- end -->)", rf"\1{picture}{table.markdown()}", text)
        print(f"{table.title}: {len(table.rows)} rows")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
