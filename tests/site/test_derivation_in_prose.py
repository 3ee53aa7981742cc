"""Every formula that the derivation in prose works out is what the package derives."""

import re
from functools import cache
from pathlib import Path

import pytest
import sympy as sp
from sympy.parsing.sympy_parser import (
    convert_xor,
    implicit_multiplication_application,
    parse_expr,
    standard_transformations,
)

import deepnet_theory as dt

PAGE = (Path(__file__).parents[2] / "docs" / "derivation-in-prose.md").read_text(encoding="utf-8")
NAMES = {
    letter: sp.Symbol(name, positive=True)
    for letter, name in {"N": "N", "α": "alpha", "β": "beta"}.items()
}
READ = (*standard_transformations, convert_xor, implicit_multiplication_application)
CONSEQUENCES = {"ρ": "relative-update", "S r": "aligned-sum", "S r²": "self-consistency"}
STEPS = {  # what a line of the page is about, and the step that proves it
    "|g|": "gradient-attention",
    "r": "branch-weight-attention",
    "‖ΔF‖/η": "balance-encoder",
    "α": "solution-encoder-alpha",
    "β": "solution-encoder-beta",
}
derive = cache(dt.derive)


def read(formula):
    raised = formula.replace("²", "^2").replace("⁴", "^4")
    return parse_expr(raised, local_dict=NAMES, transformations=READ)


def equal(one, other):
    return sp.simplify(one - other) == 0


def right(derivation, left, side):
    """A side in α and β is the step's formula, one in N its value at the rule."""
    shown = read(side)
    if left in CONSEQUENCES:
        (found,) = (c for c in derivation.consequences if c.name == CONSEQUENCES[left])
        values = {NAMES["α"]: derivation.rule.alpha, NAMES["β"]: derivation.rule.beta}
        return equal(shown.subs(values), sp.sympify(found.text, locals=NAMES))
    step = derivation.step(STEPS[left])
    knobs = shown.free_symbols & {NAMES["α"], NAMES["β"]}
    if not knobs:
        return equal(shown, step.rhs)
    return any(equal(shown, formula) for formula in (step.lhs, step.rhs))


def wrong(page):
    """The lines of the three worked optimizers that are not derived so; none is skipped."""
    for section in page.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        if title not in ("SGD", "Adam", "LAMB"):
            continue
        derivation, before = derive(title.lower()), ""
        for line in body.splitlines():
            before += f"{line} "
            if line.startswith("- "):
                left, *sides = line.removeprefix("- ").split(" = ")
                closure = derivation.training_closure if "To train with" in before else None
                used = derive(title.lower(), closure=closure) if closure else derivation
                yield from (f"{title}: {line}" for s in sides if not right(used, left, s))
            elif put_in := re.search(r"into the balance: (.*) = 1\.", line):
                balance = derivation.step(STEPS["‖ΔF‖/η"]).lhs
                symmetric = balance.subs(NAMES["β"], 1 / NAMES["α"])
                if not equal(read(put_in[1]), symmetric):
                    yield f"{title}: {line}"


def test_the_worked_formulas_are_those_that_are_derived():
    assert list(wrong(PAGE)) == []
    assert len(re.findall("^- .* = ", PAGE, re.M)) == 28
    assert right(derive("sgd"), "r", re.search(r"here r = (\S+),", PAGE)[1])
    for name, p, q in re.findall(r"(SGD|Adam|LAMB)\s+has\s+p = (\d),\s+q = (\d)", PAGE):
        update = derive(name.lower()).table.rule.update
        assert (update.p, update.q) == (int(p), int(q))


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("- |g| = β/α", "- |g| = β²/α"),
        ("- ‖ΔF‖/η = 2N β/α = 1", "- ‖ΔF‖/η = 2N β²/α = 1"),
        ("- ρ = 1/β = (2N)^(1/2)", "- ρ = 1/β = (2N)^(1/4)"),
        ("- α = 2N", "- α = N"),
        ("2N/α² = 1", "2N/α³ = 1".replace("³", "^3")),
    ],
)
def test_a_formula_that_is_not_derived_is_seen(said, instead):
    assert said in PAGE
    assert list(wrong(PAGE.replace(said, instead)))


def test_a_typical_change_shrinks_as_the_page_says():
    r = sp.Symbol("r", positive=True)
    one = sp.log(1 + r) / 2 + sp.log(1 - r) / 2 - sp.log(1 + r**2) / 2
    assert sp.series(one, r, 0, 3).removeO() == -(r**2)
    assert "The logarithm has the mean −r² to leading order" in PAGE
