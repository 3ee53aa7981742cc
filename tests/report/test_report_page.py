"""The HTML page and its figure, from results made by hand."""

import re
from dataclasses import replace
from html import unescape

import pytest

from deepnet_theory.definitions import __version__
from deepnet_theory.report import one_page
from deepnet_theory.report.html import page

from .balanced import balanced
from .conftest import narrated
from .stored import CONSTANTS, VERIFICATION


@pytest.fixture(scope="module")
def html(derivation):
    first, *rest = derivation.steps
    given = replace(first, assumptions=("near-identity", "linear-step"))
    derived = narrated((given, *rest)).at(N=50)
    return page(one_page.document(derived, VERIFICATION, CONSTANTS, "deepnet-theory <x>"))


def test_the_page_is_whole_and_alone_and_its_first_screen_has_the_numbers(html):
    count = balanced(html)
    assert count["h2"] == 5 and count["svg"] == 1 and count["details"] >= 4
    # nothing is fetched: the only addresses are names of notations, never loaded
    addresses = set(re.findall(r"https?://[^\s\"'<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    assert not re.search(r"(src|href)=\"(?!data:|#)", html)
    assert "&lt;x&gt;" in html and "inside &lt;0.05&gt;" in html
    assert re.search(r"near-identity</td><td><span class=\"verdict REFUTED\">", html)
    first = html[: html.index("<h2>The measurement")]
    assert "50 encoder" in first and ">0.125<" in first and "β multiplies" in first
    assert re.search(r"<th[^>]*>κ</th>", first)
    # PROVED is said with its bound, and by no colour
    bounded = "PROVED</span> (an upper bound up to a constant factor), given 2 assumptions."
    assert f"{bounded} Measurement: " in first
    style = html[: html.index("</style>")]
    assert ".SUPPORTED {" in style and ".PROVED" not in style
    made = html.partition("Provenance</h2>")[2]
    assert re.search(r"date: \d{4}-\d\d-\d\d \d\d:\d\d UTC\n", made)
    assert f"deepnet-theory: {__version__}\n" in made


def test_the_snippet_runs_on_the_constants_of_the_page(html, tmp_path, monkeypatch):
    snippet, data, _ = map(unescape, re.findall(r"<pre><code>(.*?)</code></pre>", html, re.S))
    assert data == CONSTANTS.to_json()
    (tmp_path / "constants.json").write_text(data, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(snippet, found)
    assert found["model"] is not None and found["groups"]
