"""A derivation as text, HTML and LaTeX: complete, well-formed, and not misleading; and its page."""

import re
from dataclasses import replace
from functools import cache
from html import unescape

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.expression import DEPTH, evaluate
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.derivation import derive
from deepnet_theory.proof.step import Relation, Step
from deepnet_theory.report import one_page
from deepnet_theory.report.html import fragment, math, page
from deepnet_theory.report.latex import latex
from deepnet_theory.report.notation import as_written, formula_latex
from deepnet_theory.report.rule import document
from deepnet_theory.report.text import plain, text

from .conftest import balanced, narrated
from .stored import CONSTANTS, VERIFICATION

SELECTIONS = [  # one a route, with two parts, another placement, and a factor on eta
    ("optimizer=adam", "stack=encoder-decoder"),
    ("optimizer=lamb", "placement=pre-ln", "layer=attention,ffn:swiglu"),
    ("optimizer=sgd", "method=lemma", "closure=learning-rate"),
]


@cache
def engine(*select):
    return derive(Selection(**dict(pair.split("=") for pair in select)))


def printed(derivation):
    """The derivation by every printer."""
    told = document(derivation)
    printers = {"text": text, "latex": latex, "html": fragment}
    return {name: printer(told) for name, printer in printers.items()}


@pytest.mark.parametrize("select", SELECTIONS, ids=" ".join)
def test_every_format_of_the_engine_and_nothing_that_the_json_says_is_lost(select):
    d = engine(*select)
    pages = printed(d)
    assert max(map(len, pages["text"].splitlines())) <= 80
    for shown in pages.values():
        assert "Subs" not in shown
        assert "<class" not in shown and "Function(" not in shown
        for step in d.steps:
            assert step.section in unescape(shown) or step.section.replace("_", r"\_") in shown
    for n in range(1, len(d.steps) + 1):
        assert re.search(rf"^\({n}\)", pages["text"], re.M)
        assert rf"\tag{{{n}}}" in pages["latex"]
    count = balanced(pages["html"])
    assert count["math"] >= 2 * len(d.steps)
    assert count["details"] >= len({s.section for s in d.steps})
    d = d.at(**{p.depth: 12 for p in d.selection.the_stack.parts})
    page = "".join(text(document(d)).split())
    data = d.to_dict()
    words = [data["meaning"].rstrip("."), data["relation"], data["verdict"], *data["remarks"]]
    for entry in data["rule"]:
        words += [entry["alpha"], entry["beta"], f"{entry['beta_value']:.6g}"]
    for step in data["steps"]:
        words += [step["because"], step["source"], *step["assumptions"]]
    for assumption in data["assumptions"]:
        words += [assumption["name"], assumption["statement"]]
    for part in data["consequences"].values():
        for kind in part.values():
            for name, c in kind.items():
                # in a table whose last column is narrow, a row's lines are cut by its neighbours
                words += [name, c["value"], *c["meaning"].split(), c["remark"].rstrip(".")]
    for word in map(plain, words):
        assert "".join(word.split()) in page, word


def test_a_wrong_step_is_seen_in_every_format(derivation):
    n = sp.Symbol("N", positive=True)
    wrong = Step("wrong", 2 * n, 3 * n, Relation.EQUAL, "planted", section="Balance")
    bad = printed(narrated((*derivation.steps, wrong)))
    for shown in bad.values():
        plain = re.sub(r"<[^>]+>|\*\*|\\textbf|[{}]", "", shown)
        assert "REFUTED: 5 of 6 steps check" in plain
        assert "REFUTED: fails lhs - rhs simplifies to 0" in plain


POWERS = st.fractions(-2, 2, max_denominator=16).map(lambda p: f"({p})")
FACTORS = st.tuples(st.sampled_from(("N", "M", "(2*N)", "3", "(N**4*M)")), POWERS).map("**".join)
FORMULAS = st.lists(st.lists(FACTORS, min_size=1, max_size=3).map("*".join), min_size=1, max_size=2)


@given(FORMULAS.map(" - ".join))
@settings(max_examples=20)
def test_a_formula_is_shown_as_written_and_means_the_same(formula):
    N, M = sp.symbols("N M", positive=True)
    again = sp.sympify(formula, locals={"N": N, "M": M})
    at = {N: 5, M: 7}
    assert as_written(formula).doit().subs(at).evalf() == pytest.approx(again.subs(at).evalf())
    assert formula_latex(formula).isascii()
    assert balanced(math(formula_latex(formula)))["math"] == 1
    shown, typed = (evaluate(DEPTH.parse(text), N=5, M=7) for text in (plain(formula), formula))
    assert shown == pytest.approx(typed)


def test_an_update_and_a_placement_are_set_as_mathematics(derivation):
    assert formula_latex("(2*N)**(1/4)") == r"\left(2 N\right)^{1/4}"
    assert formula_latex("clip(g, -1, 1)*abs(g)").endswith(r"\left|{g}\right|")
    assert formula_latex("-eta*(g - theta)/numel(theta)").startswith(r"\frac{- \eta \left(g")
    page = fragment(document(derivation))
    for typed in ("norm(theta)", "norm(alpha*x", "phi(", "<mn>-"):
        assert typed not in page
    told = text(document(derivation))
    assert "norm(α·x + branch(x))" in told and not re.search(r"alpha|eta\b|rho\b|\*", told)


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
