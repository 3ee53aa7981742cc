"""A derivation as text, Markdown, LaTeX and HTML: complete, well-formed, and not misleading."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sympy as sp

from deepnet_theory import workflow
from deepnet_theory.report import closures
from deepnet_theory.report.html import derivation_html
from deepnet_theory.report.latex import escape, latex, rule_latex
from deepnet_theory.report.markdown import markdown
from deepnet_theory.report.notation import as_written, formula_latex, formula_mathml
from deepnet_theory.report.text import text
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.derivation import Derivation
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Step

SELECTIONS = [
    {"optimizer": "sgd"},
    {"optimizer": "adam", "stack": "encoder-decoder"},
    {"optimizer": "lamb", "placement": "pre-ln", "layer": "attention,ffn:swiglu"},
    {"optimizer": "sgd", "method": "lemma"},
    {"optimizer": "sgd", "method": "moments"},
    {"optimizer": "adam", "closure": "learning-rate"},
]
VOID = {"meta", "link", "br", "wbr"}


def engine(select: dict[str, str]) -> Derivation:
    return derive(Selection(**select))  # type: ignore[arg-type]


class Balanced(HTMLParser):
    """Fails where an element is closed that is not the last one opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another element"


def balanced(html: str) -> dict[str, int]:
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return parser.count


def latex_is_balanced(body: str) -> None:
    assert body.isascii(), {c for c in body if ord(c) > 127}
    plain = body.replace("\\\\", "").replace("\\{", "").replace("\\}", "").replace("\\$", "")
    depth = 0
    for character in plain:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert plain.count("$") % 2 == 0
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{([a-z*]+)\}", body):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    assert len(re.findall(r"\\left\b", plain)) == len(re.findall(r"\\right\b", plain))


@pytest.mark.parametrize("select", SELECTIONS, ids=lambda s: "-".join(s.values()))
def test_every_format_of_the_engine(select: dict[str, str]) -> None:
    d = engine(select)
    page = text(d)
    assert max(map(len, page.splitlines())) <= 80
    for shown in (page, markdown(d), latex(d), derivation_html(d)):
        assert "Subs" not in shown
        assert "<class" not in shown and "Function(" not in shown
        for step in d.steps:
            assert step.section in unescape(shown) or step.section.replace("_", r"\_") in shown
    for n in range(1, len(d.steps) + 1):
        assert re.search(rf"^\({n}\)", page, re.M)
        assert rf"\tag{{{n}}}" in latex(d)
    latex_is_balanced(latex(d))
    count = balanced(derivation_html(d))
    assert count["math"] >= 2 * len(d.steps)
    assert count["details"] == len({s.section for s in d.steps})


def test_the_text_holds_what_the_rule_says(derivation: Derivation) -> None:
    page = text(derivation.at(N=200))
    assert "beta  = (2*N)**(-1/2)  = 0.05" in page
    assert "alpha = 1\n" in page
    assert "PROVED: 5 of 5 steps check" in page
    assert "BOUND (an upper bound up to a constant factor)" in " ".join(page.split())
    assert "adam -1/2" in page


def test_a_wrong_step_is_seen_in_every_format(derivation: Derivation) -> None:
    n = sp.Symbol("N", positive=True)
    wrong = Step("wrong", 2 * n, 3 * n, Relation.EQUAL, "planted", section="Balance")
    bad = replace(derivation, steps=(*derivation.steps, wrong))
    for shown in (text(bad), markdown(bad), latex(bad), derivation_html(bad)):
        assert "REFUTED: 5 of 6 steps check" in shown
    assert "lhs - rhs simplifies to 0" in text(bad)


def test_words_are_escaped(derivation: Derivation) -> None:
    assert "&lt;with α &amp; β&gt;" in derivation_html(derivation)
    assert r"100\% of them" in latex(derivation)
    assert r"r\_l" in latex(derivation) and r"r\_l" in markdown(derivation)
    latex_is_balanced(latex(derivation))
    assert escape("a_b # {x} \\ ‖ΔF‖ ≤ 10⁻³ § é").isascii()


def test_a_long_equation_is_folded(derivation: Derivation) -> None:
    symbols = sp.symbols("a0:40", positive=True)
    long = Step("long", sp.Add(*symbols), sp.Add(*symbols), Relation.EQUAL, "long", section="X")
    page = text(
        replace(derivation, steps=(*derivation.steps, long), given=(*derivation.given, *symbols))
    )
    assert max(map(len, page.splitlines())) <= 80
    assert all(str(s) in page for s in symbols)


@pytest.mark.parametrize(
    "formula", ["(2*N)**(1/4)", "1/(2*N)", "3**(1/2)*(N**4*M)**(1/16)/2", "1", "N - 1", "-N + M"]
)
def test_a_formula_is_shown_as_written_and_means_the_same(formula: str) -> None:
    N, M = sp.symbols("N M", positive=True)
    again = sp.sympify(formula, locals={"N": N, "M": M})
    assert sp.simplify(as_written(formula).doit() - again) == 0
    assert formula_latex(formula).isascii()
    balanced(f"<math>{formula_mathml(formula)}</math>")


def test_two_n_to_a_quarter_is_not_a_product_of_roots() -> None:
    assert formula_latex("(2*N)**(1/4)") == r"\left(2 N\right)^{1/4}"
    shown = re.sub(r"<[^>]+>|&InvisibleTimes;", "", formula_mathml("(8*N)**(-1/4)"))
    assert unescape(shown) == "(8N)−1/4"


def test_results_show_themselves(derivation: Derivation) -> None:
    assert rule_latex(derivation) == derivation._repr_latex_()
    assert r"\beta &= \left(2 N\right)^{-1/2}" in derivation._repr_latex_()
    assert derivation._repr_html_() == derivation_html(derivation)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
@pytest.mark.parametrize("shown", ["probe", "lemma", "moments", "background", "closures"])
def test_latex_compiles(shown: str, tmp_path: Path) -> None:
    if shown == "closures":
        page = closures.latex(workflow.compare_closures(optimizer="sgd", stack="encoder-decoder"))
    elif shown == "background":
        page = latex(workflow.derive(optimizer="sgd", placement="pre-ln", background=True))
    else:
        page = latex(engine({"optimizer": "sgd", "method": shown}))
    (tmp_path / "derivation.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "derivation.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-800:]
