"""Every formula that the derivation in prose works out is what the package derives."""

import math
import re
from functools import cache
from pathlib import Path

import deepnet_theory as dt

PAGE = (Path(__file__).parents[2] / "docs" / "derivation-in-prose.md").read_text(encoding="utf-8")
CONSEQUENCES = {"ρ": "relative-update", "S r": "aligned-sum", "S r²": "self-consistency"}
STEPS = {  # what a line of the page is about, and the step that proves it
    "|g|": "gradient-attention",
    "r": "branch-weight-attention",
    "‖ΔF‖/η": "balance-encoder",
    "α": "solution-encoder-alpha",
    "β": "solution-encoder-beta",
}
AT = {"N": 7.0, "alpha": 1.3, "beta": 0.6}  # any numbers
derive = cache(dt.derive)


def shown(formula, alpha=AT["alpha"], beta=AT["beta"]):
    """The number that a formula of the page is."""
    powers = formula.replace("²", "**2").replace("⁴", "**4").replace("^", "**")
    products = re.sub(r"(?<=[\dN]) ?(?=[Nαβ])", "*", powers)
    return eval(products, {"N": AT["N"], "α": alpha, "β": beta})


def number(formula):
    return float(formula.subs({s: AT.get(s.name, math.pi) for s in formula.free_symbols}))


def right(derivation, left, side):
    """A side in α and β is the step's formula, one in N its value at the rule."""
    if left in CONSEQUENCES:
        (found,) = (c for c in derivation.consequences if c.name == CONSEQUENCES[left])
        at_rule = number(derivation.rule.alpha), number(derivation.rule.beta)
        return math.isclose(shown(side, *at_rule), eval(found.text, {"N": AT["N"]}))
    step = derivation.step(STEPS[left])
    formulas = (step.lhs, step.rhs) if {"α", "β"} & {*side} else (step.rhs,)
    return any(math.isclose(shown(side), number(formula)) for formula in formulas)


def wrong(page):
    """The lines of the three worked optimizers that are not derived so; none is skipped."""
    for section in page.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        if title not in ("SGD", "Adam", "LAMB"):
            continue
        derivation, before = derive(title.lower(), closure="published"), ""
        for line in body.splitlines():
            before += f"{line} "
            if line.startswith("- "):
                left, *sides = line.removeprefix("- ").split(" = ")
                used = derive(title.lower()) if "Recommended for" in before else derivation
                yield from (f"{title}: {line}" for s in sides if not right(used, left, s))
            elif put_in := re.search(r"into the balance: (.*) = 1\.", line):
                balance = derivation.step(STEPS["‖ΔF‖/η"]).lhs
                (beta,) = (s for s in balance.free_symbols if s.name == "beta")
                symmetric = number(balance.subs(beta, 1 / AT["alpha"]))
                if not math.isclose(shown(put_in[1]), symmetric):
                    yield f"{title}: {line}"


def test_the_worked_formulas_are_those_that_are_derived_and_another_is_seen():
    assert list(wrong(PAGE)) == []
    assert len(re.findall("^- .* = ", PAGE, re.M)) == 28
    assert right(derive("sgd"), "r", re.search(r"here r = (\S+),", PAGE)[1])
    for name, p, q in re.findall(r"(SGD|Adam|LAMB)\s+has\s+p = (\d),\s+q = (\d)", PAGE):
        update = derive(name.lower()).table.rule.update
        assert (update.p, update.q) == (int(p), int(q))
    for said, instead in (("- |g| = β/α", "- |g| = β²/α"), ("N β/α = 1", "N β²/α = 1"),
                          ("1/β = (2N)^(1/2)", "1/β = (2N)^(1/4)"), ("- α = 2N", "- α = N"),
                          ("2N/α² = 1", "2N/α^3 = 1")):  # fmt: skip
        assert said in PAGE and list(wrong(PAGE.replace(said, instead)))
