"""The explorer's page in a real browser: what one does, what it shows, and that the numbers are Python's."""

import os
import shlex

from itertools import pairwise
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from hyperspn.data import read_table
from hyperspn.data.tables import find_table
from hyperspn.explorer.serve import Server

SHOWN = 0.00051  # percentages have one decimal
FOUND = 'bill_length_mm>40, "island=Biscoe|Dream"'


def check_shares(tab, model, name, given):
    expected = {str(label): p for label, p in model.distribution(name, given).probabilities.items()}
    assert tab.shares(name) == pytest.approx(expected, abs=SHOWN)


def contrast(tab, first, second):
    """The contrast of two colors of the page's styles, as WCAG has it."""
    style = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
    parts = [[int(tab.page.evaluate(style, name)[i : i + 2], 16) / 255 for i in (1, 3, 5)] for name in (first, second)]
    light = [[c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color] for color in parts]
    low, high = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in light)
    return (high + 0.05) / (low + 0.05)


def check_header(tab, model, given):
    chance = model.chance(given)
    assert float(tab.text("chance").strip(" %")) / 100 == pytest.approx(float(np.exp(chance.log_p)), abs=SHOWN)
    rows = chance.rows
    assert tab.text("rows") == f"about {f'{rows:.0f}' if rows >= 10 else f'{rows:.1f}'} of {model.num_rows} rows"


def test_clicks_say_is_and_is_not(opened, penguins):
    model, path = penguins
    tab = opened(path)
    check_shares(tab, model, "species", "")
    tab.bar("island", "Dream").click()
    tab.settle()
    assert tab.field("island") == "Dream"
    check_shares(tab, model, "species", "island=Dream")
    check_header(tab, model, "island=Dream")
    tab.bar("island", "Biscoe").click()
    tab.settle()
    assert tab.field("island") == "Dream|Biscoe"
    check_shares(tab, model, "species", "island=Dream|Biscoe")
    tab.bar("sex", "male").click(modifiers=["Shift"])
    tab.settle()
    assert tab.field("sex") == "!=male"
    check_shares(tab, model, "species", "island=Dream|Biscoe, sex!=male")
    tab.page.get_by_role("button", name="forget island").click()
    tab.settle()
    check_shares(tab, model, "species", "sex!=male")
    tab.bar("sex", "male").click(modifiers=["Shift"])
    tab.settle()
    check_shares(tab, model, "species", "")


def test_a_drag_over_a_histogram_is_a_range(opened, penguins):
    model, path = penguins
    tab = opened(path)
    plot = tab.card("body_mass_g").locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + 0.3 * box["width"], middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=5)
    tab.page.mouse.up()
    tab.settle()
    low, high = map(float, tab.field("body_mass_g").split(".."))
    assert 3000 < low < high < 5500
    check_shares(tab, model, "species", f"body_mass_g={low:g}..{high:g}")
    quartiles = model.distribution("flipper_length_mm", f"body_mass_g={low:g}..{high:g}").quantiles
    told = tab.card("flipper_length_mm").locator(".told").inner_text()
    assert told == f"median {quartiles[0.5]}, half {quartiles[0.25]}\u2013{quartiles[0.75]}"


def test_typing_undo_and_a_link(opened, penguins):
    model, path = penguins
    tab = opened(path)
    tab.card("bill_length_mm").locator("input").fill(">40")
    tab.page.keyboard.press("Enter")
    tab.settle()
    tab.card("island").locator("input").fill("Biscoe|Dream")
    tab.page.keyboard.press("Enter")
    tab.settle()
    check_shares(tab, model, "species", FOUND)
    again = opened(path, "#" + tab.page.url.partition("#")[2])
    check_shares(again, model, "species", FOUND)
    tab.card("bill_depth_mm").locator("input").fill("wide")
    tab.page.keyboard.press("Enter")
    assert "expected a number" in tab.card("bill_depth_mm").locator(".told").inner_text()
    tab.page.get_by_role("button", name="Undo").click()
    tab.settle()
    check_shares(tab, model, "species", "bill_length_mm>40")
    tab.page.get_by_role("button", name="Redo").click()
    tab.settle()
    check_shares(tab, model, "species", FOUND)


def test_the_keyboard_alone(opened, penguins):
    """Tab to the first bar, arrows, enter; then a range of a histogram; escape, and undo."""
    model, path = penguins
    tab = opened(path)
    press = tab.page.keyboard.press
    tab.card("island").locator(".bar").first.focus()
    press("ArrowDown")
    press("Enter")
    tab.settle()
    second = list(tab.shares("island"))[1]
    assert tab.field("island") == second
    press("Shift+Enter")
    tab.settle()
    assert tab.field("island") == f"!={second}"
    tab.card("bill_length_mm").locator(".plot").focus()
    for key in ["ArrowRight"] * 6 + ["Shift+ArrowRight"] * 8 + ["Enter"]:
        press(key)
    tab.settle()
    low, high = map(float, tab.field("bill_length_mm").split(".."))
    check_shares(tab, model, "species", f"island!={second}, bill_length_mm={low:g}..{high:g}")
    press("Escape")
    tab.settle()
    check_shares(tab, model, "species", f"island!={second}")
    press("u")
    tab.settle()
    check_shares(tab, model, "species", f"island!={second}, bill_length_mm={low:g}..{high:g}")
    reached = set()
    for _ in range(40):
        press("Tab")
        reached.add(tab.page.evaluate("document.activeElement.className || document.activeElement.tagName"))
    assert {"bar", "icon", "plot", "INPUT"} <= reached


def test_likelihoods_from_the_menu(opened, penguins):
    model, path = penguins
    tab = opened(path)
    tab.card("island").get_by_role("button", name="menu of island").click()
    tab.page.get_by_role("menuitem", name="Likelihood ratios").click()
    for name, value in (("Biscoe", "0.7"), ("Dream", "0.2"), ("Torgersen", "0")):
        tab.page.get_by_label(f"likelihood of {name}").fill(value)
    tab.page.get_by_role("button", name="Use these").click()
    tab.settle()
    check_shares(tab, model, "species", "island~Biscoe:0.7|Dream:0.2")
    assert "no probability" in tab.text("warning")


def test_a_pinned_target(opened, penguins):
    model, path = penguins
    tab = opened(path, "#given=island%3DDream")
    tab.card("species").get_by_role("button", name="pin species").click()
    tab.settle()
    tab.page.wait_for_selector(".influences li")
    expected = model.influence("species", "island=Dream")
    shown = {
        row.locator(".label").inner_text(): row.locator(".share").inner_text()
        for row in tab.page.locator(".influence").all()
    }
    assert shown.pop("island") == "known"
    for name, text in shown.items():
        assert float(text.split()[0]) == pytest.approx(expected.bits[name], abs=0.0051)
    assert tab.page.locator(".influence.next .label").inner_text() == expected.next
    (step,) = model.explain("species", "island=Dream").steps
    told = tab.page.locator(".steps li").last.inner_text()
    assert f"{abs(step.added):.2f} bits" in told
    assert "target=species" in tab.page.url
    tab.page.locator("#sort").select_option("influence")
    tab.page.wait_for_function(
        "name => document.querySelector('#cards article:not([hidden])').dataset.name === name", arg=expected.next
    )


def test_a_pinned_number(opened, penguins):
    """All means have as many decimals, and what is known of other columns is marked."""
    model, path = penguins
    tab = opened(path, "#given=island%3DDream%2C+body_mass_g%3D3000..4000&target=bill_length_mm")
    tab.page.wait_for_selector(".steps li:nth-child(3)")
    shown = [row.locator(".share").last.inner_text() for row in tab.page.locator(".steps li").all()]
    answer = model.explain("bill_length_mm", "island=Dream, body_mass_g=3000..4000")
    assert shown == [f"{mean:.2f}" for mean in (answer.start, *(step.answer for step in answer.steps))]
    assert tab.page.locator(".steps .label").all_inner_texts()[2] == "body_mass_g = 3000 to 4000"
    assert set(tab.page.locator(".influence.known .label").all_inner_texts()) == {"island", "body_mass_g"}


def test_hardly_possible_evidence(opened, penguins):
    model, path = penguins
    given = "species=Gentoo, body_mass_g=0..1, bill_depth_mm=99"
    tab = opened(path, "#given=" + given.replace(" ", "%20"))
    digits, exponent = tab.text("chance").split(" · 10")
    power = int(exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    chance = model.chance(given).log_p / np.log(10)
    assert power + np.log10(float(digits)) == pytest.approx(chance, abs=0.05)
    assert tab.text("rows") == f"fewer than 0.01 of {model.num_rows} rows"
    assert "hardly any" in tab.text("warning")


def test_a_link_of_another_table(opened, penguins):
    """What is understood counts, and the page says what is not, until something else is said."""
    model, path = penguins
    tab = opened(path, "#given=wings%3D2%2C+island%3DDream%2C+species%3DEmu")
    assert "wings" in tab.text("warning")
    assert "Emu" in tab.text("warning")
    check_shares(tab, model, "species", "island=Dream")
    tab.bar("sex", "male").click()
    tab.settle()
    assert tab.text("warning") == ""
    assert "closing" in opened(path, "#given=island%3D%22Dream").text("warning")


def test_what_is_told_of_a_value_is_not_cut(opened, odd):
    tab = opened(odd[1], "#given=income%3D~")
    for card in tab.page.locator("article:has(.bar)").all():
        card.locator(".bar").last.hover()
        line = card.locator(".told")
        assert "%" in line.inner_text()
        assert line.evaluate("line => line.scrollHeight <= line.clientHeight"), line.inner_text()


def test_what_cards_propose_can_be_typed(opened, odd):
    tab = opened(odd[1])
    for card in tab.page.locator("#cards article").all():
        field = card.locator("input")
        for proposed in field.get_attribute("placeholder").split(" or "):
            field.fill(proposed)
            tab.page.keyboard.press("Enter")
            assert field.get_attribute("aria-invalid") is None, proposed
        field.fill("")
        tab.page.keyboard.press("Enter")
        tab.settle()


def test_labels_of_axes_do_not_touch(opened, odd):
    tab = opened(odd[1])
    for card in tab.page.locator("article:has(.ticks)").all():
        boxes = [label.bounding_box() for label in card.locator(".ticks span").all()]
        places = sorted((box["x"], box["x"] + box["width"]) for box in boxes)
        assert len(places) >= 2
        assert all(end < start for (_, end), (start, _) in pairwise(places))
        outer = card.bounding_box()
        assert outer["x"] < places[0][0]
        assert places[-1][1] < outer["x"] + outer["width"]


def test_two_columns_and_rows(opened, penguins, tmp_path):
    model, path = penguins
    tab = opened(path, "#given=sex%3Dmale")
    tab.page.get_by_role("button", name="Dependence").click()
    cell = tab.page.locator("td[title^='species, island:']")
    cell.wait_for(timeout=60_000)
    assert float(cell.inner_text()) == pytest.approx(model.influence("species", "sex=male").bits["island"], abs=0.0051)
    cell.click()
    joint = tab.page.locator("td[title^='Adelie, Dream:']")
    joint.wait_for(timeout=60_000)
    expected = model.distribution(["species", "island"], "sex=male").probabilities["Adelie", "Dream"]
    assert float(joint.inner_text() or 0) == pytest.approx(100 * expected, abs=0.051)
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("button", name="Rows").click()
    tab.page.locator("table.rows tbody tr").first.wait_for()
    assert tab.page.locator("table.rows tbody tr").count() == 10
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Download as CSV").click()
    download.value.save_as(tmp_path / "rows.csv")
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert len(lines) == 11
    assert all(line.split(",")[6] == "male" for line in lines[1:])


def test_matching_rows_the_strangest_first(opened, penguins, tmp_path):
    model, _ = penguins
    table = read_table(find_table("penguins")[""])
    model.explore(rows=table).save(tmp_path / "rows.html")
    tab = opened(tmp_path / "rows.html", "#given=island%3DDream%2C+body_mass_g%3E4000")
    tab.page.get_by_role("button", name="Rows").click()
    found = tab.page.get_by_role("region", name="matching rows").locator("tbody tr")
    found.first.wait_for()
    frame = table.to_pandas()
    frame["body_mass_g"] = frame["body_mass_g"].astype(float)
    like = (frame["island"] == "Dream") & (frame["body_mass_g"] > 4000)
    assert f"{like.sum()} of {len(frame)} rows match" in tab.page.locator("dialog").inner_text()
    strangest = frame[like].iloc[model.surprisal(table).rows[like].argmax()]
    shown = found.first.locator("td").all_inner_texts()
    assert (shown[0], float(shown[5])) == (strangest["species"], strangest["body_mass_g"])
    rarest = model.surprisal(table).rarity[like][model.surprisal(table).rows[like].argmax()].argmax()
    assert found.first.locator("th").inner_text() == frame.columns[rarest]
    assert found.first.locator("td.strange").inner_text() == shown[rarest]


def test_the_same_question_on_the_command_line_and_in_python(opened, penguins):
    model, path = penguins
    tab = opened(path, "#given=" + "bill_length_mm>40, island=Biscoe|Dream".replace(" ", "%20"))
    tab.page.get_by_role("button", name="Copy as command").click()
    command, python = (field.input_value() for field in tab.page.locator("dialog textarea").all())
    words = shlex.split(command)
    assert words[:5] == ["hyperspn", "query", "runs/penguins", "--of", "species"]
    expected = model.distribution("species", FOUND)
    assert model.distribution("species", words[6]).probabilities == expected.probabilities
    assert eval(python, {"model": model}).probabilities == expected.probabilities


def test_hostile_names_and_values_are_text(opened, hostile):
    _, path = hostile
    tab = opened(path)
    name = "<img src=x onerror='document.title=1'>"
    assert tab.text("title") == name
    assert tab.page.locator("article h3").first.inner_text() == name
    tab.page.locator(".bar").first.click()
    tab.settle()
    for button in ("Dependence", "Rows", "Copy as command", "About"):
        tab.page.get_by_role("button", name=button).click()
        tab.page.locator("dialog").wait_for()
        tab.page.keyboard.press("Escape")
    assert tab.page.locator("img").count() == 0
    assert tab.page.title() == f"{name} · explorer"
    assert tab.page.locator("script").count() == 3


def test_200_columns(opened, wide):
    model, path = wide
    tab = opened(path)
    drawn = tab.page.locator("article:has(header)").count()
    assert drawn < 60
    tab.bar("column 0", "low").click()
    tab.settle()
    tab.page.locator("#sort").select_option("moved")
    tab.settle()
    tab.page.keyboard.press("End")
    tab.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    tab.page.wait_for_function("() => document.querySelector('#cards article:last-child header')")
    tab.page.locator("#search").fill("column 198")
    check_shares(tab, model, "column 198", "column 0=low")


def test_nothing_jumps(opened, penguins):
    _, path = penguins
    tab = opened(path)
    places = "() => [...document.querySelectorAll('article')].map(e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] })"
    before = tab.page.evaluate(places)
    tab.bar("island", "Dream").click()
    tab.settle()
    assert tab.page.evaluate(places) == before


LOOKS = {
    "light": ("", {}),
    "evidence": ("#given=body_mass_g%3D3000..4000%2C+island%21%3DDream&sort=moved", {}),
    "pinned": ("#given=island%3DDream%2C+sex%3Dmale&target=species", {}),
    "dark": ("#given=species%3DGentoo&target=body_mass_g", {"color_scheme": "dark"}),
    "phone": ("#given=island%3DDream", {"viewport": {"width": 390, "height": 844}}),
}


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_it(opened, penguins, look):
    """No serious finding of axe-core; with HYPERSPN_SCREENSHOTS a picture is written into that folder."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    address, options = LOOKS[look]
    tab = opened(penguins[1], address, **options)
    tab.page.wait_for_timeout(300)
    findings = axe.Axe().run(tab.page).response["violations"]
    serious = [finding for finding in findings if finding["impact"] in ("serious", "critical")]
    assert [(finding["id"], finding["nodes"][0]["html"]) for finding in serious] == []
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if "HYPERSPN_SCREENSHOTS" in os.environ:
        tab.page.screenshot(path=Path(os.environ["HYPERSPN_SCREENSHOTS"]) / f"explorer-{look}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_can_be_used_by_everybody(opened, penguins, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    tab = opened(penguins[1], "#given=island%3DDream", color_scheme=scheme)
    assert contrast(tab, "--ink", "--heat") >= 4.5  # axe does not see the colors of the cells
    for button, ready in (
        ("Dependence", "table.heat"),
        ("Rows", "table.rows"),
        ("Copy as command", "textarea"),
        ("About", "h3"),
    ):
        tab.page.get_by_role("button", name=button).click()
        tab.page.locator(f"dialog {ready}").first.wait_for(timeout=60_000)
        findings = axe.Axe().run(tab.page).response["violations"]
        assert [f["id"] for f in findings if f["impact"] in ("serious", "critical")] == []
        tab.page.keyboard.press("Escape")


def test_a_notebook(chromium, penguins, tmp_path):
    """The page in the frame that a notebook shows: it evaluates, and has no address of its own."""
    model, _ = penguins
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{model.explore()._repr_html_()}</body>")
    page = chromium.new_page()
    page.goto((tmp_path / "notebook.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for(timeout=60_000)
    frame.locator("article[data-name='island'] .bar").filter(has_text="Dream").click()
    expected = model.probability("species=Adelie", "island=Dream")
    adelie = frame.locator("article[data-name='species'] .bar").filter(has_text=f"{100 * expected:.1f} %")
    adelie.filter(has_text="Adelie").wait_for(timeout=60_000)
    page.close()


def test_a_served_page(opened, penguins):
    model, _ = penguins
    with Server(model) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        tab = opened(server.address)
        tab.bar("island", "Dream").click()
        tab.settle()
        check_shares(tab, model, "species", "island=Dream")
        tab.page.get_by_role("button", name="Rows").click()
        tab.page.locator("table.rows tbody tr").first.wait_for()
        server.shutdown()
