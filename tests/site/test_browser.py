"""Pages in a browser: they fit the screen, the form says bad input, axe finds nothing.

Skipped where Playwright or a Chromium is missing. axe-core runs where AXE names its axe.min.js.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from deepnet_theory.report.formatters import page

sys.path.insert(0, str(Path(__file__).parents[1]))
from report.stored import CONSTANTS, RESULTS

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)
DOCS = Path(__file__).parents[2] / "docs"
OVER = "document.documentElement.scrollWidth - innerWidth"
AXE = "axe.run(document, {resultTypes: ['violations']})"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        yield p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.mark.parametrize("name", [*RESULTS, "constants"])
@pytest.mark.parametrize("width", [390, 1280])
def test_an_exported_page_fits_its_screen_and_breaks_no_rule_of_axe(browser, name, width):
    shown = browser.new_page(viewport={"width": width, "height": 844})
    shown.set_content(page(RESULTS.get(name, CONSTANTS)))
    assert shown.evaluate(OVER) <= 0
    panels = shown.locator(".panels svg").evaluate_all(
        "all => all.map(a => a.getClientRects()[0].x)"
    )
    assert len(set(panels)) <= 1 + (width > 390), "one column on a phone"
    if axe := os.environ.get("AXE"):
        shown.evaluate(Path(axe).read_text("utf-8"))
        assert [found["id"] for found in shown.evaluate(AXE)["violations"]] == []


def test_the_form_says_what_is_wrong_with_its_input(browser, tmp_path):
    rule = "{placement: 'post-ln', norm: 'layer', layer: 'attention,ffn', optimizer: 'adamw', "
    rule += "words: {}, equation: 'x', rows: [], advice: '', closure: 'complete', widths: []}"
    form = re.search(r"<form.*?</form>", (DOCS / "choose.md").read_text("utf-8"), re.S)[0]
    data = f"window.deepnetRules = [{rule}]; window.deepnetDrawn = {{x: ''}};"
    script = (DOCS / "choose.js").read_text("utf-8")
    answer = '<div id="rule-answer"></div>'
    file = tmp_path / "form.html"
    file.write_text(f"{form}{answer}<script>{data}{script}</script>", encoding="utf-8")
    shown = browser.new_page()
    for asked, said in {
        "depth=0": "Layers N cannot be 0: give a whole number from 1 to 100000.",
        "depth=1.5": "Layers N cannot be 1.5: give a whole number",
        "depth=9&width=0&base=8": "Width d cannot be 0: give a whole number",
        "depth=9&base=8": "Give the width of your model, too: you tuned at width 8.",
        "depth=9&width=8": "Give the width that you tuned at, too: your model has width 8.",
        "depth=9&width=8&base=4": "--closure complete --depth 9 --width 8 --base-width 4",
    }.items():
        shown.goto(f"{file.as_uri()}?{asked}")
        assert said in shown.locator("#rule-answer").inner_text()
