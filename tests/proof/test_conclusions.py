"""What a derivation says of its rule in words, and of selections that the laws do not reach."""

import re
from pathlib import Path

import derivations
import sympy as sp

import deepnet_theory
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.placement import PLACEMENTS, Placement
from deepnet_theory.definitions.selection import METHODS, Selection
from deepnet_theory.definitions.sublayer import SUBLAYERS, Sublayer
from deepnet_theory.proof.derivation import derive

N, M = sp.symbols("N M", positive=True)


# ---- nothing is typed in ----


def test_no_cell_of_the_published_tables_is_a_literal_of_the_package():
    literal = re.compile(
        r"\(\s*[238]\d?\s*\*\s*[NM]\s*\)\s*\*\*|0\.8[17]\d*\s*\*|N\s*\*\*\s*4\s*\*\s*M"
    )
    for path in Path(deepnet_theory.__file__).parent.rglob("*.py"):
        if {"_paper_checks", "schemes", "parametrisation.py"} & {*path.parts}:
            continue  # what was published is transcribed there, to be judged
        lines = path.read_text(encoding="utf-8").splitlines()
        code = "\n".join(line for line in lines if "#" not in line)
        code = re.sub(r'"""(?:.|\n)*?"""|``.*?``', "", code)
        assert not literal.search(code), path


# ---- what is said ----


def test_the_answer_says_what_to_know_and_what_happens_in_depth():
    for name, says in (
        ("learning-rate", "near-identity assumption fails"),
        ("adafactor", "holds where rms(theta) > 1/1000"),
    ):
        assert any(says in remark for remark in derivations.derivation(name).remarks)
        assert not any(says in remark for remark in derivations.derivation("sgd both").remarks)
    told = {n: derivations.derivation(f"{n} post-ln").in_depth for n in ("adam", "sgd", "lamb")}
    assert told["adam"].startswith(
        "Unstable in depth: rho scales as N^(1/2), and with it the higher orders; the largest "
        "stable learning rate scales as N^(-1/4). To train, name no closure: the recommended rule "
        "is the default."
    )
    assert told["sgd"].startswith("Lazy in depth: rho scales as N^(-1/4)")
    assert told["lamb"].startswith("Stable in depth") and "--closure" not in told["lamb"]
    assert derivations.derivation("adamw recommended pre-ln").warning == ""


# ---- beyond the shared set ----


def test_an_update_is_checked_at_the_signs_that_it_has():
    for method in METHODS:
        selection = Selection(update="-eta*g*max(-theta, 0)/norm(theta)", method=method)
        assert derive(selection).verdict is Verdict.PROVED


def test_what_never_moves_has_no_step_where_an_update_divides_by_its_gradient():
    inverse = derive(Selection(update="-eta/g", closure="complete"))
    assert inverse.verdict is Verdict.PROVED and inverse.rule.entries[0].rate != "1"


def placed(monkeypatch, equation, **select):
    """A selection whose placement is one file more, with the given equation."""
    known = {**PLACEMENTS, "mine": Placement("mine", equation, final_norm=True)}
    monkeypatch.setattr("deepnet_theory.definitions.placement.PLACEMENTS", known)
    return Selection(placement="mine", **{"closure": "published", **select})


def test_a_path_is_read_however_it_is_written(monkeypatch):
    equations = ("norm(alpha*x + branch(x))", "norm(2*alpha*x - alpha*x + branch(x))")
    for method in ("probe", "lemma"):
        one, other = (
            derive(placed(monkeypatch, e, optimizer="sgd", method=method)).rule.entries
            for e in equations
        )
        assert one == other
    # two placements of one name have their own rules
    own = placed(monkeypatch, "norm(alpha*x + branch(x)/alpha)", optimizer="sgd")
    assert derive(own).rule.entries != one
    half = derive(placed(monkeypatch, "norm(alpha*x + branch(x)/2)", optimizer="sgd"))
    assert half.verdict is Verdict.PROVED and half.rule.entries[0].beta == "(N/2)**(-1/4)"
    stream = placed(
        monkeypatch, "alpha*x + branch(norm(x))", optimizer="adam", closure="unit-residual"
    )
    assert derive(stream).verdict is Verdict.PROVED


LINEAR = Sublayer("linear", "x*out + out_bias")


def test_one_matrix_a_branch_has_no_second_order_and_leaves_rho_to_decide(monkeypatch):
    known = {**SUBLAYERS, "linear": LINEAR}
    monkeypatch.setattr("deepnet_theory.definitions.sublayer.SUBLAYERS", known)
    derivation = derive(Selection(optimizer="adam", layer="linear", closure="published"))
    (kind,) = derivation.table.sublayers
    assert derivation.verdict is Verdict.PROVED
    assert kind.state == "stable" and len(kind.orders) == 1 and str(kind.kind.relative) != "1"
    # where the balance does without kappa it stays 1, though rho is then not of order one
    alone = {"layer": "linear", "placement": "pre-ln", "closure": "complete"}
    (entry,) = derive(Selection(update="-eta*norm(theta)**2*sign(g)", **alone)).rule.entries
    assert (entry.rate, entry.rho) == ("1", "N**(-1/2)")
    mixed = derive(Selection(optimizer="adam", **{**alone, "layer": "attention,linear"})).rule
    assert [e.rate for e in mixed.entries] == ["(2*N)**(-1/2)", "1/(2*N)"]
