"""The HTML page and its figure, from results made by hand; rendered where Chromium is installed."""

import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape

import pytest

from deepnet_theory.cli.deriving import derive, export
from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.measurement import AssumptionResult
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.report import one_page
from deepnet_theory.report.html import page
from deepnet_theory.report.text import text

from .balanced import balanced
from .stored import CONSTANTS, VERIFICATION


@pytest.fixture(scope="module")
def html(derivation):
    told = one_page.document(
        derivation.at(N=50), VERIFICATION, [CONSTANTS], command="deepnet-theory <x>"
    )
    return page(told)


def test_the_page_is_whole_and_alone_and_its_first_screen_has_the_numbers(html):
    count = balanced(html)
    assert count["h2"] == 7 and count["svg"] == 1 and count["details"] >= 4
    # nothing is fetched: the only addresses are names of notations, never loaded
    addresses = set(re.findall(r"https?://[^\s\"'<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    assert not re.search(r"(src|href)=\"(?!data:|#)", html)
    assert "&lt;x&gt;" in html and "inside &lt;0.05&gt;" in html
    assert re.search(r"near-identity</td><td><span class=\"verdict REFUTED\">", html)
    first = html[: html.index("<h2>The rule")]
    assert "50 encoder" in first and ">0.125<" in first and "β multiplies" in first
    # PROVED is said with its bound, and by no colour
    assert "PROVED</span> (an upper bound up to a constant factor)" in first
    style = html[: html.index("</style>")]
    assert ".SUPPORTED {" in style and ".PROVED" not in style
    made = html.partition("Provenance</h2>")[2]
    assert re.search(r"date: \d{4}-\d\d-\d\d \d\d:\d\d UTC\n", made)
    assert f"deepnet-theory: {__version__}\nmachine: " in made and " CPUs\n" in made


def test_the_verdict_of_a_proof_never_stands_without_its_bounds(derivation):
    first, *rest = derivation.steps
    named = ("near-identity", "linear-step")
    given = replace(derivation, steps=(replace(first, assumptions=named), *rest))

    def told(names):
        found = tuple(AssumptionResult(n, Verdict.SUPPORTED, 1.0, 0.9, 1.1) for n in names)
        measured = replace(VERIFICATION, assumptions=found)
        return " ".join(text(one_page.document(given, measured, [CONSTANTS])).split())

    bounded = "PROVED (an upper bound up to a constant factor), given 2 assumptions. Measurement:"
    assert bounded in told(named)
    assert "not measured" not in told(named) and "not measured" in told(named[:1])


def test_the_snippet_runs_on_the_constants_of_the_page(derivation, tmp_path, monkeypatch):
    (part,) = CONSTANTS.parts
    deeper = replace(CONSTANTS, parts=(replace(part, layers=100),))
    html = page(one_page.document(derivation, VERIFICATION, [CONSTANTS, deeper]))
    snippet, data, more, _ = map(unescape, re.findall(r"<pre><code>(.*?)</code></pre>", html, re.S))
    assert data == CONSTANTS.to_json() and more == deeper.to_json()
    (tmp_path / "constants.json").write_text(data, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(snippet, found)
    assert found["model"] is not None and found["groups"]


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no Chromium is installed")


def run_browser(*arguments):
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    done = subprocess.run(
        [browser(), *flags, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def faults(html, folder, width, scheme="light"):
    """What a browser finds amiss at this width, as JSON; and nothing may reach the console."""
    # headless windows have a least width, so the page is put into a frame of the width wanted
    measure = """
      const d = document.querySelector('iframe').contentDocument, r = [];
      d.querySelectorAll('details').forEach(e => e.open = true);
      const w = d.documentElement.clientWidth;
      if (d.documentElement.scrollWidth > w) r.push('page ' + d.documentElement.scrollWidth);
      for (const e of d.querySelectorAll('section > *, svg, .equation, .formula'))
        if (e.getBoundingClientRect().right > w + 1) r.push(e.tagName + ' ' + e.className);
      for (const e of d.querySelectorAll('pre, dd'))
        if (e.clientWidth && e.scrollWidth > e.clientWidth + 1)
          r.push(e.tagName + ' is clipped ' + e.scrollWidth + ' ' + e.textContent.slice(0, 40));
      for (const e of d.querySelectorAll('math'))
        if (e.getBoundingClientRect().height < 4) r.push('empty formula');
      document.title = 'measured';
      document.body.dataset.found = JSON.stringify(r);
    """
    (folder / "page.html").write_text(html, encoding="utf-8")
    (folder / "frame.html").write_text(
        f'<body style="margin:0"><iframe src="page.html" style="border:0;width:{width}px;'
        f'height:2000px"></iframe><script>addEventListener("load",()=>{{{measure}}})</script></body>',
        encoding="utf-8",
    )
    flags = ["--allow-file-access-from-files", "--enable-logging=stderr", "--log-level=0"]
    flags += ["--force-dark-mode"] if scheme == "dark" else []
    shown = run_browser(*flags, "--dump-dom", f"file://{folder / 'frame.html'}")
    assert "CONSOLE" not in shown
    found = re.search(r'data-found="([^"]*)"', shown)
    assert found is not None
    return unescape(found[1])


LONG = [
    {"optimizer": "sgd", "method": "lemma"},
    {"optimizer": "adam", "method": "lemma", "stack": "encoder-decoder"},
    {"optimizer": "lamb"},
]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark", *LONG], ids=str)
def test_in_a_browser(html, tmp_path, width, scheme):
    """Nothing is wider than the page, no formula is empty, the console is silent."""
    if isinstance(scheme, dict):
        made = derive(**scheme)
        depth = [12] * len(made.selection.the_stack.parts)
        html = page(one_page.document(made, VERIFICATION, [export(made, depth)]))
    assert faults(html, tmp_path, width, str(scheme)) == "[]"
