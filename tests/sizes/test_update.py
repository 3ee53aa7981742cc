"""The law of an update: its degrees in depth, its size in width, and the laws that are missing."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.expression import UPDATE
from deepnet_theory.definitions.optimizer import OPTIMIZERS, Optimizer, custom_optimizer, optimizer
from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.selection import ALIGNMENTS
from deepnet_theory.proof import explicit
from deepnet_theory.proof.degrees import homogeneity_step
from deepnet_theory.proof.explicit import Drawn, change, see, slope
from deepnet_theory.sizes import update
from deepnet_theory.sizes.descent import SIZES, sampled
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.update import (
    COLUMNS,
    FULL_RANK,
    GRADIENT,
    INPUTS,
    PARAMETER,
    RANK,
    ROWS,
    counts,
    descending,
    step,
)
from deepnet_theory.sizes.update import law as degrees


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("-eta*(g/(abs(g) + epsilon) + decay*theta)", {"epsilon": "g", "decay": "1/theta"}),
        (
            "-eta*(g + decay*theta)/(abs(g + decay*theta) + epsilon)",
            {"epsilon": "g", "decay": "g/theta"},
        ),
        ("-eta*norm(theta)*g/(norm(g) + epsilon**2)", {"epsilon": "g**(1/2)"}),
        ("-eta*max(epsilon, rms(theta))*sign(g)", {"epsilon": "theta"}),
    ],
)
def test_a_constant_takes_the_degrees_of_what_it_stands_beside(text, degrees):
    def constants(practice):
        found = update.practised(replace(custom_optimizer("-eta*g"), practice=practice))
        return {name: str(degree) for name, degree in found.items()}

    assert constants(text) == degrees
    with pytest.raises(Refusal, match="different degrees"):
        constants("-eta*g/(abs(g) + epsilon)/(norm(theta) + epsilon)")


# ---- degrees, on exact entries ----


OWN = (
    "-eta*norm(theta)**2*sign(g)",
    "-eta*sign(g)*abs(g)**(1/3)",
    "-eta*g*abs(theta)**(-1/2)",
    "-eta*theta*sign(g)*sign(theta)",
    "-eta*rms(theta)**(1/2)*polar(g)",
    "-eta*clip(g, -norm(g), norm(g))",
    "-eta*max(-theta, 0)*g/norm(theta)",  # of one sign
    "-eta*" + "".join(f"max({k}*g," for k in range(9)) + "g" + ")" * 9,  # nested
    "-eta*sign(g)*" + "*".join(f"(abs(g)+{k}*norm(g))" for k in range(1, 40)) + "/norm(g)**39",
)
ALL = [*OPTIMIZERS.values(), *map(custom_optimizer, OWN)]


@pytest.mark.parametrize("optimizer", ALL, ids=lambda o: o.update)
def test_degrees_hold_on_exact_entries(optimizer):
    found = degrees(optimizer)
    assert descending(optimizer).descent == {-1}
    assert homogeneity_step(optimizer, found).check() is Verdict.PROVED
    for wrong in (sp.Rational(1, 16), -1, sp.Rational(1, 2)):
        for planted in (replace(found, p=found.p + wrong), replace(found, q=found.q + wrong)):
            assert homogeneity_step(optimizer, planted).check() is Verdict.REFUTED


@settings(max_examples=20)
@given(
    st.fractions(min_value=-2, max_value=2, max_denominator=8),
    st.fractions(min_value=-2, max_value=2, max_denominator=8),
)
def test_degrees_of_products_of_powers_add(p, q):
    text = f"-eta*sign(g)*abs(g)**({p})*norm(theta)**({q})"
    found = degrees(custom_optimizer(text))
    assert (found.p, found.q) == (sp.Rational(p), sp.Rational(q))


def test_an_entry_that_is_no_real_number_is_no_sample():
    for text in ("sqrt(g)", "log(g - g)"):
        with pytest.raises(ArithmeticError):
            sampled(UPDATE.parse(text).root, SIZES[0])


@pytest.mark.parametrize(
    ("update", "same"),
    [
        ("g*log(1 + 1)", "g*log(2)"),
        ("sign(g)*max(abs(g), rms(g), norm(g))", "sign(g)*max(max(abs(g), rms(g)), norm(g))"),
        ("sign(g)*min(norm(g), abs(g), rms(g))", "sign(g)*min(abs(g), min(rms(g), norm(g)))"),
        ("clip(g, -rms(g), rms(g))", "min(max(g, -rms(g)), rms(g))"),
    ],
)
def test_two_ways_to_write_an_update_are_one_update(update, same):
    one, other = (custom_optimizer(f"-eta*{text}") for text in (update, same))
    for size in SIZES:
        changes = (sampled(o.expression.root, size)[1] for o in (one, other))
        np.testing.assert_allclose(*changes)
    assert degrees(one) == degrees(other)
    assert homogeneity_step(one, degrees(other)).check() is Verdict.PROVED


@settings(max_examples=8)
@given(st.fractions(min_value="1/1000", max_value=50, max_denominator=1000), st.booleans())
def test_a_floor_under_the_parameters_size_leaves_lambs_class(floor, first):
    sides = (f"{floor}", "rms(theta)") if first else ("rms(theta)", f"{floor}")
    floored = custom_optimizer(f"-eta*max({', '.join(sides)})*sign(g)")
    assert floored.floors == (floor,)
    found, lamb = degrees(floored), degrees(optimizer("lamb"))
    assert (found.p, found.q) == (lamb.p, lamb.q)
    step = homogeneity_step(floored, found)
    assert step.check() is Verdict.PROVED and step.assumptions == ("above-floor",)


# ---- in width: every law of the fold, on explicit matrices of two sizes ----

D = Monomial.of("d")
WIDTHS = (64, 256)
HIDDEN = {GRADIENT: D**-1, PARAMETER: D ** Fraction(-1, 2)}
ROLES = {  # γ, σ and counts
    "hidden": HIDDEN | counts((D, D)),
    "many tokens": HIDDEN | counts((D, D), FULL_RANK),
    "loud": {GRADIENT: D ** Fraction(-1, 4), PARAMETER: D**-1, **counts((D, D))},
    "head": {GRADIENT: ONE, PARAMETER: D**-1, **counts((D, ONE))},
    "vector": {GRADIENT: D**-1, PARAMETER: ONE, **counts((ONE, D))},
    "table": {GRADIENT: D**-1, PARAMETER: ONE, **counts((ONE, D), is_table=True)},
}
LAWS = (  # of kinds that no product below has
    "sqrt(max(1, rows(theta)/columns(theta)))*polar(g)",
    "norm(theta)*polar(g)/norm(polar(g))",
    "polar(theta)*sign(g)",
    # bounds
    "clip(g, -1/columns(theta)**2, 1/columns(theta)**2)",
    "clip(g/rms(g), -1, 1)",
    "max(rms(theta), rms(g))*sign(g)",
    "max(abs(g), rms(g))*sign(g)",
    "sign(g)/max(abs(g), rms(g))",
    # terms of one size and two parities
    "sign(g) + theta/rms(theta)",
    "sign(theta/rms(theta) + g/rms(g))",
    "abs(theta/rms(theta) + g/rms(g))*theta",
    "(theta/rms(theta) + g/rms(g))**3",
)


def drawn_at(at):
    """Explicit matrices of a role; an output of one entry is drawn as three."""
    is_table = at[COLUMNS] > at[INPUTS]
    n_in, n_out = round(at[INPUTS]), round(at[COLUMNS] if is_table else at[ROWS])
    return Drawn(n_in, max(3, n_out), 1.0, at[PARAMETER], at[GRADIENT], at[RANK] > 1, is_table)


def exponents(own, sizes):
    """The exponents in d of an update's entries and of its action, by the fold."""
    return [float(of.put(sizes).exponent("d")) for of in (own.entry, own.action)]


def law(text, role, alignment="full"):
    return exponents(step(custom_optimizer(f"-eta*({text})"), ROLES[role], alignment), ROLES[role])


def measured(text, role, alignment="full"):
    """The same on explicit matrices."""
    root, seen = custom_optimizer(f"-eta*({text})").expression.root, {}
    for d in WIDTHS:
        at = drawn_at({name: size.at(d=d) for name, size in ROLES[role].items()})
        seen[d] = see(root, root, at, aligned=alignment == "full")
    return [slope({d: getattr(s, of) for d, s in seen.items()}) for of in ("update", "action")]


@pytest.mark.parametrize(
    ("text", "role"), [(u, r) for i, u in enumerate(LAWS) for r in [*ROLES][i % 2 :: 2]]
)
def test_the_fold_is_what_matrices_show(text, role, monkeypatch):
    """Each update in every other role: the terms of a kind come in several updates."""
    if role == "head" and text.endswith("**3"):  # a cube over few logits scatters the most
        monkeypatch.setattr(explicit, "DRAWS", 384)
    assert measured(text, role) == pytest.approx(law(text, role), abs=0.12)  # tells quarters apart


scalars = st.sampled_from(
    ("norm(theta)", "rms(g)", "1/norm(g)", "sqrt(rows(theta))", "1/numel(theta)",
     "max(1, columns(theta)/rows(theta))", "min(1, norm(theta))", "norm(polar(g))", "1")
)  # fmt: skip
atoms = st.sampled_from(("g", "theta", "sign(g)", "sign(theta)", "abs(g)", "abs(theta)",
                         "polar(g)"))  # fmt: skip
factors = st.one_of(
    atoms,
    st.builds("abs({})**({})".format, atoms, st.sampled_from(("1/2", "1/3", "-1/5"))),
    st.builds("max({}, 0)".format, st.sampled_from(("theta", "polar(g)"))),
    st.builds("clip({0}, -{1}, {1})".format, atoms, st.sampled_from(("100", "rms(theta)"))),
)
products = st.builds(
    "{}*({})*({})".format, st.sampled_from(("sign(g)", "g", "theta")), factors, scalars
)


@settings(max_examples=60)
@given(products, st.sampled_from(sorted(ROLES)), st.sampled_from(ALIGNMENTS))
def test_any_product_is_what_matrices_show_or_is_refused(text, role, alignment):
    try:
        own = law(text, role, alignment)
    except Refusal:
        return
    assert measured(text, role, alignment) == pytest.approx(own, abs=0.2)


def test_the_first_step_of_shampoo_is_the_polar_factor():
    g = np.random.default_rng(0).normal(size=(5, 3))

    def root(square):
        values, vectors = np.linalg.eigh(square)
        kept = values > 1e-9 * values[-1]
        return (vectors[:, kept] * values[kept] ** -0.25) @ vectors[:, kept].T

    stepped = root(g @ g.T) @ g @ root(g.T @ g)
    own = change(OPTIMIZERS["shampoo"].expression.root, g, g)
    assert -own == pytest.approx(stepped)
    assert own != pytest.approx(-root(g @ g.T) @ g, abs=0.1)  # one side alone


def test_a_parameter_of_zeros():
    bias = {k: v for k, v in ROLES["vector"].items() if k != PARAMETER}
    with pytest.raises(Refusal, match="never leaves it"):
        step(custom_optimizer("-eta*norm(theta)*sign(g)"), bias)
    own = Optimizer("own", "-eta*norm(theta)*sign(g)", at_zero="-eta*g")
    assert exponents(step(own, bias), bias) == [-1, -1]
    assert step(OPTIMIZERS["lamb"], bias).entry == ONE  # as its library has it
    floored = step(custom_optimizer("-eta*max(1/1000, rms(theta))*g"), bias)
    assert floored.entry == Monomial.of(GRADIENT)  # numbers are left out


# ---- laws that are missing ----

MISSING = {
    "depth": (
        ("eta*g", "the loss rises"),
        ("-eta*norm(theta)", "does not follow the gradient"),
        ("-eta*theta*sign(g)", "does not follow the gradient"),
        ("-eta*max(g, -g)", "does not follow the gradient"),
        ("-eta*(g + theta)", "different degrees"),
        ("-eta*g + eta*theta", "different degrees"),
        ("-eta*g/(abs(g) + 1/1000)", "different degrees"),
        ("-eta*clip(g, -1, 1)", "different degrees"),
        ("-eta*g*log(abs(g))", "a logarithm of something that scales"),
        ("-eta*log(abs(g))", "logarithm"),
        ("-eta**2*g", "of degree 2 in eta"),
        *((f"-eta*({zero})", "identically zero") for zero in (
            "0*g", "norm(g)**2 - numel(g)*rms(g)**2", "max(g, 2*g) - max(2*g, g)")),
        ("-eta*g/0", "divides by zero"),
        ("-eta*g*0**(-1)", "divides by zero"),
        ("-eta*g*log(1 - 1)", "logarithm of zero"),
        ("-eta*g/max(theta, 0)", "finite and real at every sign"),
        ("-eta*g/(theta - theta)", "not finite"),
    ),
    "width": (
        ("abs(g)", "no part is odd in g"),
        ("sign(g)*abs(g)**(-1/2)", "no second moment"),
        ("sign(g)*max(polar(theta), 0)", "one side of a polar factor of full rank"),
        ("g*rms(1/abs(theta))", "no second moment"),
        ("sign(g)/(g/rms(g) - theta/rms(theta))", "no second moment"),
        ("sign(g)*rms(g)**2/min(abs(g), rms(g))", "no second moment"),
        ("g*max(theta, 0)**(-1/4)", "no second moment"),
        ("g/polar(g)**2", "no second moment"),
        ("sign(g)*log(1)", "may be near 1"),
        ("sign(g) + theta", "adds terms of the sizes"),
        ("g*log(numel(theta))", "something that scales"),
        ("max(theta, g)", "either sign"),
        ("clip(g, -1, 2)", "either sign"),
        ("polar(g/rms(g) + theta/rms(theta))", "the rank"),
        ("polar(clip(g/rms(g), -1, 1))", "the rank"),
        ("g/(theta - theta*0*g)", "no second moment"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("room", "text", "says"), [(room, *missing) for room in MISSING for missing in MISSING[room]]
)
def test_a_law_that_is_missing_is_refused(room, text, says):
    with pytest.raises(Refusal, match=says):
        law(text, "hidden") if room == "width" else descending(custom_optimizer(text))
    if room == "depth" and "rises" not in says and "follow" not in says:
        with pytest.raises(Refusal, match=says):  # by the steps alike
            degrees(custom_optimizer(text))
