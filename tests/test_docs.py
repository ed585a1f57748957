"""What the documents promise: tables, commands, options, names and code."""

import re
import runpy
import shlex

from importlib import import_module
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
ROOMS = ("asking", "circuits", "data", "estimators", "learning", "leaves", "structures", "weights")
DIRECTIVE = re.compile(r"\.\. auto(module|class|function|data):: (\S+)\n((?:   .*\n)*)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
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


def documented():
    """The names in the API reference: those that are named, and those of modules whose members are listed."""
    for page in sorted(ROOT.glob("docs/api/*.md")):
        for kind, name, options in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            yield name
            if kind == "module" and ":members:" in options:
                module = import_module(name)
                names = getattr(module, "__all__", None) or (member for member in vars(module) if member[0] != "_")
                yield from (f"{name}.{member}" for member in names)


def test_the_reference_has_every_public_name():
    known = set(documented())
    described = {_identity(name) for name in known}
    rooms = ("hyperspn", *(f"hyperspn.{room}" for room in ROOMS))
    names = [f"{room}.{name}" for room in rooms for name in import_module(room).__all__]
    assert [name for name in names if name not in known and _identity(name) not in described] == []


def _identity(name):
    module, _, member = name.rpartition(".")
    return id(getattr(import_module(module), member))


def anchors(page):
    """The anchors of the headings of a page, as the site and GitHub make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def link_problems(page):
    """Links of a page to files or headings that are not there."""
    for address in ("".join(groups) for groups in LINK.findall(page.read_text(encoding="utf-8"))):
        path, _, anchor = address.partition("#")
        if re.match(r"https?://", address):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield address


@pytest.mark.parametrize("page", [*PAGES, ROOT / "licenses" / "README.md"], ids=name_of)
def test_links_lead_somewhere(page):
    assert list(link_problems(page)) == []


def test_broken_links_are_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One heading\n[a](page.md) ![b](none.png) [c](#one-heading) [d](page.md#two) [e](https://x.org)")
    assert list(link_problems(page)) == ["none.png", "page.md#two"]


def test_the_start_page_links_every_page():
    start = ROOT / "docs" / "index.md"
    linked = {(start.parent / "".join(groups)).resolve() for groups in LINK.findall(start.read_text(encoding="utf-8"))}
    assert [name_of(page) for page in ROOT.glob("docs/[!a]*/*.md") if page not in linked] == []
    assert [name_of(page) for page in ROOT.glob("docs/*.md") if page != start and page not in linked] == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/how-to/*.md")), ids=name_of)
def test_pages_by_question_have_two_screens(page):
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 110


def test_make_help_tells_of_every_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert targets == re.findall(r"^([a-z-]+):.*## \w", makefile, re.MULTILINE)


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
