"""Stored results and a document of every kind of block, by each printer and in an interpreter."""

import re
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest
import sympy as sp
from approved import approve
from hypothesis import given, settings
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory import Constants, export
from deepnet_theory.definitions.constants import PartConstants, SublayerConstants
from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.proof.step import Relation, Step
from deepnet_theory.report import document as doc
from deepnet_theory.report.formatters import composed, html, text
from deepnet_theory.report.html import page
from deepnet_theory.report.latex import latex
from deepnet_theory.report.text import coloured, plain
from deepnet_theory.report.text import text as printed

from .conftest import balanced
from .stored import MODEL, RESULTS, TRAINING, TRANSFER, VERIFICATION

GIVEN = (("d", float("nan")), ("N", 0.5))  # exponents of a wrong rule
SIGNS = {"alpha", "beta", "epsilon", "sqrt"}  # words that a page sets as signs
APPROVED = Path(__file__).parent / "approved"
N, eta, alpha_e = sp.symbols("N eta alpha_e", positive=True)
LONG = (
    "a sentence that is longer than a line of the narrowest terminal, so that it has to be folded"
)
FIGURE = doc.Figure(
    (("A figure", (doc.Series("rule", (doc.Mark(8, 1.0, 0.9, 1.1),), ((8, 1.0), (16, 1.0))),)),),
    "N, layers", "‖ΔF‖/η", "Its caption.",
)  # fmt: skip
EVERYTHING = doc.Document(
    "Of everything",
    (
        ("PROVED, as ", Verdict.PROVED, " says; derive --steps."),
        (f"Compared, {LONG}: ", doc.Formula("(2*N)**(-1/4)")),
        doc.terms([
            ("encoder", ("alpha = ", doc.Formula("(2*N)**(1/2)"), " = 4")),
            ("a longer label", LONG),
        ]),
        doc.Document("Steps", (
            doc.Proposition(1, Step("a", eta * sp.sqrt(N), 2 * N**sp.Rational(3, 4), Relation.EQUAL,
                                    "by hand", left=alpha_e), Verdict.PROVED),
            doc.Proposition(2, Step("b", sum(sp.Symbol(f"x_{i}") ** i for i in range(1, 12)), N,
                                    Relation.AT_MOST, LONG), Verdict.REFUTED, "beyond the bound"),
            doc.Proposition(13, Step("c", N, sp.log(N), Relation.ORDER, ""), Verdict.IMPOSED),
            doc.Proposition(14, Step("d", N, eta, Relation.BOUND, ""), Verdict.PROVED),
        )),
        doc.Document("Tables", (
            doc.table("depth | >mean | …finding", [
                ("8", "0.5", LONG), (doc.Formula("N"), "-12.25", ("a ", Verdict.UNDECIDED)),
                ("a|b", "", ""),
            ]),
            doc.Document("Within", (doc.Listing('{"a": 1,\n "<b>": "$x_1$"}'),)),
        ), folded=True),
        doc.Document("Figures", (FIGURE,)),
        doc.Document("Nothing", (doc.terms(()), doc.table("name", []), "", ())),
    ),
)  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_a_stored_result_is_printed_as_approved_and_a_page_loses_no_word(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = RESULTS[name]
    shown = text(result)
    assert max(map(len, shown.splitlines())) <= 80
    approve(APPROVED / f"{name}.txt", shown)
    whole = html(result)
    count = balanced(whole)
    assert count["table"] and count["svg"]
    seen = re.sub(r"<[^>]+>", " ", unescape(re.sub(r"<svg.*?</svg>", "", whole, flags=re.S)))
    plain = re.findall(r"[A-Za-z]{4,}", " ".join(shown.split()))
    assert {word for word in plain if word not in seen} <= SIGNS


@pytest.mark.parametrize("form", ["txt", "html"])
def test_a_document_of_everything_is_printed_as_approved(form, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = printed(EVERYTHING) if form == "txt" else page(EVERYTHING)
    balanced(page(EVERYTHING))
    # how a drawing looks is matplotlib's, and differs between its versions
    shown = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "…", shown, flags=re.S)
    approve(APPROVED / f"everything.{form}", shown)


def test_verdicts_have_their_colour_and_headings_are_bold():
    shown = coloured(printed(EVERYTHING))
    assert "\033[1mOf everything\033[0m" in shown and "\033[32mPROVED\033[0m" in shown
    assert "\033[31mREFUTED\033[0m" in shown and "\033[33mUNDECIDED\033[0m" in shown
    assert re.sub(r"\033\[\d+m", "", shown) == printed(EVERYTHING)


def test_latex_is_closed_and_escapes_what_is_typed():
    shown = latex(EVERYTHING)
    assert shown.count("{") - shown.count(r"\{") == shown.count("}") - shown.count(r"\}")
    assert shown.count(r"\begin") == shown.count(r"\end") and r"\tag{13}" in shown
    assert r"alpha = $\left(2 N\right)^{1/2}$ = 4" in shown
    signs = "=", r"\le", r"= \Theta\left(", r"= O\left("
    assert all(f" {sign}" in shown for sign in signs)
    assert "Nothing" not in shown


def test_an_interpreter_shows_a_result_in_a_line():
    network = "post-ln encoder, trained with lamb, rule of lamb"
    assert repr(VERIFICATION) == f"<Result of ‖ΔF‖/η per token, {network}; SUPPORTED>"
    assert repr(MODEL).startswith("<Result of ‖ΔF‖/η per token, gpt.py:make, trained with adamw;")
    assert str(MODEL) == text(MODEL) and repr(EVERYTHING) == text(EVERYTHING)
    rule = "encoder alpha = 1, beta = (2*N)**(-1/2)"
    assert repr(dt.derive("lamb")) == f"<Derivation of post-ln encoder under lamb: {rule}; PROVED>"
    for across in ("batch", "width"):
        shown = repr(dt.derive("adam", across=across))
        assert shown == f"<RoleDerivation of post-ln encoder under adam across {across}; PROVED>"


def test_a_table_in_the_batch_is_shown_in_every_form():
    joint = dt.derive("muon", across="width,batch")
    for shown in (str(joint), joint._repr_html_(), latex(composed(joint))):
        assert "learning rate" in shown and "B" in shown and "head-bias" in shown


def test_a_result_without_points_or_a_figure_says_so():
    with pytest.raises(dt.InputError, match="a Derivation has no plot; valid are: Result"):
        dt.plot(dt.derive(optimizer="lamb"))
    with pytest.raises(dt.InputError, match="a int has no plot"):
        dt.plot(3)
    with pytest.raises(dt.InputError, match="no point to draw"):
        dt.plot(replace(TRAINING, runs=TRAINING.runs[1:]))


CELLS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=60)


@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1)))
@settings(max_examples=30)
def test_a_table_loses_no_cell_on_a_page_of_eighty_columns(rows):
    table = doc.table(" | ".join(["a"] * (len(rows[0]) - 1) + ["…words"]), rows)
    lines = printed(doc.Document("", (table,))).splitlines()
    assert max(map(len, lines)) <= 80
    told = "".join("".join(lines).split())
    assert all(plain(cell) in told for row in rows for cell in row)


@given(st.floats(-1e6, 1e6) | st.none())
def test_a_number_has_a_sign_unless_it_is_zero(value):
    shown = doc.number(value, doc.SIGNED)
    assert shown == "-" if value is None else float(shown) == pytest.approx(value, abs=1e-4)
    assert not shown.startswith("-0.0000")


def test_a_missing_end_has_no_interval():
    assert doc.interval(-0.5, -0.00001, "z.3f") == "-0.500 to 0.000"
    none = [(None, 1.0), (1.0, None), (1.0, float("inf")), (float("nan"), float("nan"))]
    assert {doc.interval(*ends) for ends in none} == {"-"}
    assert [doc.power(e) for e in (0, 0.5, -0.25)] == ["flat", "slope +1/2", "slope -1/4"]


def test_a_formula_is_one_line_of_signs():
    moved, gradient, gain = sp.symbols("norm_ΔF norm_dL_dF norm_gain")
    for formula, line in {
        N ** sp.Rational(3, 2) * moved**2 / alpha_e: "N^(3/2)·‖ΔF‖^2/α_e",
        gradient * gain: "‖∂L/∂F‖·norm_gain",
        eta * sp.sqrt(2 * N): "√(2)·√(N)·η",
        sp.exp(-N / 3): "exp(−N/3)",
    }.items():
        assert doc.lettered(str(formula)) == line


def test_formulas_among_words_are_set_in_html():
    def told(words):
        document = doc.Document("", (words,))
        return page(document).partition("<h1></h1>\n<p>")[2].partition("</p>")[0]

    for typed, shown in {
        "-eta*norm(theta)*sign(g)": "−η·norm(θ)·sign(g)",
        "beta = (2*N)**(-1/2), eta^1": "β = (2·N)<sup>−1/2</sup>, η<sup>1</sup>",
        "goes as N^(1/2), 1/sqrt(2*N).": "goes as N<sup>1/2</sup>, 1/√(2·N).",
        "rho = |dW|/(eta*|W|)": "ρ = |dW|/(η·|W|)",
        "post-ln, learning-rate": "post-ln, learning-rate",
        "*.mlp.* of eta.py": "*.mlp.* of eta.py",
    }.items():
        assert told(typed) == shown


def test_a_wrong_rule_without_a_best_rate_has_no_exponent_beside_one_that_has():
    (rule, *_) = TRANSFER.closures
    missing, known = (replace(rule.exponents[0], variable=v, estimate=e) for v, e in GIVEN)
    rivals = tuple(replace(rule, exponents=e) for e in ((missing,), (missing, known)))
    shown = text(replace(TRANSFER, rivals=rivals))
    assert "N^+0.5" in shown and "d^" not in shown


def test_a_dataclass_leaves_its_display_to_the_formatters(monkeypatch):
    forms = {f: lambda one, f=f: f"{f} {one.value}" for f in ("text", "html", "line")}
    monkeypatch.setattr(Displayed, "formatters", lambda: SimpleNamespace(**forms))

    @dataclass(frozen=True, repr=False)
    class Number(Displayed):
        value: float

    assert str(Number(2.0)) == "text 2.0" and repr(Number(2.0)) == "line 2.0"
    assert Number(2.0)._repr_html_() == "html 2.0"


def test_constants_over_a_base_are_few_lines_and_say_how_many_notes_there_are():
    made = export("adamw", depth=100, width=512, base=128)
    said = str(made)
    assert len(said.splitlines()) <= 11
    assert "over a base of width 128" in said and "Note 1 of 3: " in said
    assert "start_head_" in made.condition and balanced(made._repr_html_())["table"] == 1


NUMBERS = st.floats(1e-3, 1e3)


@given(NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_constants_are_printed_with_their_learning_rates_multiplier(alpha, beta, kappa, by_matrix):
    gains = {"fc1": beta, "fc2": 1.0} if by_matrix else {}
    row = SublayerConstants("ffn", alpha, 1.0 if by_matrix else beta, kappa, gains)
    constants = Constants(
        "encoder", "post-ln", "layer", (PartConstants("encoder", 3, False, (row,)),),
        optimizer="adam", warning="Mind the head.",
    )  # fmt: skip
    said = str(constants)
    assert len(said.splitlines()) <= 10 and "Warning: Mind the head." in said
    of_row = next(line for line in said.splitlines() if "3 encoder" in line).split()
    read = dict(zip(("alpha", "beta", "kappa"), of_row[3:], strict=False))
    assert float(read["alpha"]) == pytest.approx(alpha, rel=1e-4)
    assert float(read["kappa"]) == pytest.approx(kappa, rel=1e-4)
    if by_matrix:
        assert read["beta"] == "-" and f"fc1 {beta:.4g}, fc2 1." in said
    else:
        assert float(read["beta"]) == pytest.approx(beta, rel=1e-4)
    assert f">{kappa:.6g}<" in constants._repr_html_()
    assert repr(constants) == "<Constants of adam, post-ln>"
