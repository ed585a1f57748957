"""What the documents promise: tables, commands, options, names and code."""

import re
import runpy
import shlex

from pathlib import Path

import pytest
import typer

from test_layering import MAY_USE, PACKAGE

import hyperspn

from hyperspn.cli.main import app
from hyperspn.experiments import ARTIFACTS, Records

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "CHANGELOG")), *sorted(ROOT.glob("docs/**/*.md"))]
COMMANDS = typer.main.get_command(app).commands
LINE = re.compile(r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?hyperspn (.*)")


def name_of(path):
    return str(path.relative_to(ROOT))


def blocks(page, language):
    """The code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def inline_code(page):
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    return re.findall(r"`([^`\n]+)`", text)


def tables(text):
    """The tables of a page: lists of rows, which are lists of cells."""
    for lines in re.findall(r"(?:^ *\|.*\n?)+", text, re.MULTILINE):
        yield [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] for line in lines.splitlines()]


def options_of(command):
    return {name for parameter in COMMANDS[command].params for name in parameter.opts + parameter.secondary_opts}


def table_problems(text):
    """Rows with another number of cells than their header, and rows without a label."""
    for header, ruler, *rows in tables(text):
        yield from ([ruler] if set("".join(ruler)) - set(":-") else [])
        yield from (row for row in rows if len(row) != len(header) or not row[0])


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("results/*.md"))], ids=name_of)
def test_every_row_of_every_table_has_a_label_and_all_its_cells(page):
    assert list(table_problems(page.read_text(encoding="utf-8"))) == []


def test_problems_of_tables_are_seen():
    good = "| | a |\n| --- | --- |\n| x | 1 |\n"
    assert list(table_problems(good)) == []
    for bad in ("|  | 2 |\n", "| y |\n", "| y | 2 | 3 |\n"):
        assert len(list(table_problems(good + bad))) == 1


def commands(page):
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    matches = (LINE.fullmatch(text.strip()) for text in (*lines, *inline_code(page)))
    return [shlex.split(match[1], comments=True) for match in matches if match]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_options_exist(page):
    for command, *arguments in commands(page):
        assert command in COMMANDS
        parser = COMMANDS[command].make_parser(COMMANDS[command].context_class(COMMANDS[command]))
        parser.parse_args(arguments)  # raises for an unknown option, or one without its value
        if command == "reproduce" and arguments:
            assert arguments[0] in ARTIFACTS or arguments[0].startswith("--")


def test_commands_are_seen():
    assert len(commands(README)) > 4
    assert ["train", "penguins", "--out", "runs/penguins"] in commands(README)
    assert ["reproduce", "table1", "--backend", "dask"] in commands(ROOT / "docs" / "results.md")


@pytest.mark.parametrize("page", [ROOT / "docs" / "how-to" / "fit.md", ROOT / "docs" / "results.md"], ids=name_of)
def test_options_in_sentences_exist(page):
    known = set().union(*map(options_of, COMMANDS)) | {"--help"}
    options = {code.split()[0] for code in inline_code(page) if code.startswith("--")}
    assert options
    assert options <= known


def test_public_names_are_in_the_pages():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in hyperspn.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_the_changelog_begins_with_this_version():
    assert f"# Changelog\n\n## {hyperspn.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_contributing_has_the_table_of_rooms():
    table = next(tables((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    rooms = {row[0].strip("`"): row[2] for row in table[2:]}
    assert rooms.keys() == {room for room in MAY_USE if (PACKAGE / room).is_dir()}
    for room, may_use in rooms.items():
        if not re.sub(r"`\w+`|, ", "", may_use):  # names alone, without words like "all of these"
            assert set(re.findall(r"`(\w+)`", may_use)) == set(MAY_USE[room].split())


def test_pages_show_what_the_records_say():
    made = runpy.run_path(str(ROOT / "docs" / "results.py"))
    records = Records(ROOT / "results")
    reports = {what: artifact.report(records, artifact.datasets) for what, artifact in ARTIFACTS.items()}
    for page in made["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert made["fill"](text, reports) == text
    for what in ("table1", "table2", "table3", "table4", "table5", "table6", "table7", "beyond"):
        assert (ROOT / "results" / f"{what}.md").read_text(encoding="utf-8") == reports[what].markdown()
        assert (ROOT / "results" / f"{what}.csv").read_text(encoding="utf-8") == reports[what].csv()
