"""Every law of the fold in width, measured on explicit matrices of several sizes."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.optimizer import Optimizer, custom_optimizer, optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.proof import explicit
from deepnet_theory.proof.explicit import Drawn, change, see, slope
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.update import (
    COLUMNS,
    FULL_RANK,
    GRADIENT,
    INPUTS,
    PARAMETER,
    RANK,
    ROWS,
    UpdateSize,
    counts,
    step,
)

D = Monomial.of("d")
WIDTHS = (64, 256)
NEAR = 0.12  # quarters are told apart
Sizes = dict[str, Monomial]
HIDDEN = {GRADIENT: D**-1, PARAMETER: D ** Fraction(-1, 2)}
ROLES: dict[str, Sizes] = {  # γ, σ and counts
    "hidden": HIDDEN | counts((D, D)),
    "many tokens": HIDDEN | counts((D, D), FULL_RANK),
    "loud": {GRADIENT: D ** Fraction(-1, 4), PARAMETER: D**-1, **counts((D, D))},
    "head": {GRADIENT: ONE, PARAMETER: D**-1, **counts((D, ONE))},
    "vector": {GRADIENT: D**-1, PARAMETER: ONE, **counts((ONE, D))},
    "table": {GRADIENT: D**-1, PARAMETER: ONE, **counts((ONE, D), is_table=True)},
}


def drawn_at(at: dict[str, float]) -> Drawn:
    """Explicit matrices of a role; an output of one entry is drawn as three."""
    is_table = at[COLUMNS] > at[INPUTS]
    n_in, n_out = round(at[INPUTS]), round(at[COLUMNS] if is_table else at[ROWS])
    full = at[RANK] > 1
    return Drawn(n_in, max(3, n_out), 1.0, at[PARAMETER], at[GRADIENT], full, is_table)


LAWS = (
    "g",
    "sign(g)",
    "sign(g)*abs(g)**(1/2)",
    "sign(g)*abs(g)**(-1/4)",
    "g**3",
    "polar(g)",
    "norm(theta)*sign(g)",
    "sign(g)/norm(g)",
    "g/rms(g)",
    "sqrt(max(1, rows(theta)/columns(theta)))*polar(g)",
    "sqrt(max(rows(theta), columns(theta)))*polar(g)",
    "norm(theta)*polar(g)/norm(polar(g))",
    # parity in θ and in g
    "theta*sign(g)",
    "abs(theta)*sign(g)",
    "theta*g*sign(theta)",
    "theta**2*sign(g)",
    "min(theta, 0)*sign(g)",
    "polar(theta)*sign(g)",
    "g*abs(g)",
    "norm(theta)*g/norm(g)",
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


@pytest.fixture(autouse=True, scope="module")
def _few_matrices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explicit, "ENTRIES", 1 << 18)
        yield


def law(update: str, sizes: Sizes, alignment: str = "full") -> tuple[float, float]:
    """The exponents in d of an update's entries and of its action, by the fold."""
    own = step(custom_optimizer(f"-eta*({update})"), sizes, alignment)
    return exponents(own, sizes)


def exponents(own: UpdateSize, sizes: Sizes) -> tuple[float, float]:
    entry, action = (float(of.put(sizes).exponent("d")) for of in (own.entry, own.action))
    return entry, action


def measured(update: str, sizes: Sizes, *, aligned: bool = True) -> tuple[float, float]:
    """The same on explicit matrices."""
    root = custom_optimizer(f"-eta*({update})").expression.root
    seen = {}
    for d in WIDTHS:
        at = {name: size.at(d=d) for name, size in sizes.items()}
        seen[d] = see(root, root, drawn_at(at), aligned=aligned)
    return (
        slope({d: s.update for d, s in seen.items()}),
        slope({d: s.action for d, s in seen.items()}),
    )


@pytest.mark.parametrize(
    ("update", "role"), [(u, r) for i, u in enumerate(LAWS) for r in [*ROLES][i % 2 :: 2]]
)
def test_the_fold_is_what_matrices_show(
    update: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each update in every other role: the terms of a kind come in several updates."""
    if role == "head" and update.endswith("**3"):  # a cube over few logits scatters the most
        monkeypatch.setattr(explicit, "DRAWS", 384)
    assert measured(update, ROLES[role]) == pytest.approx(law(update, ROLES[role]), abs=NEAR)


def test_the_first_step_of_shampoo_is_the_polar_factor() -> None:
    g = np.random.default_rng(0).normal(size=(5, 3))

    def root(square: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(square)
        kept = values > 1e-9 * values[-1]
        return (vectors[:, kept] * values[kept] ** -0.25) @ vectors[:, kept].T

    stepped = root(g @ g.T) @ g @ root(g.T @ g)
    own = change(optimizers()["shampoo"].expression.root, g, g)
    assert -own == pytest.approx(stepped)
    assert own != pytest.approx(-root(g @ g.T) @ g, abs=0.1)  # one side alone


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


@settings(max_examples=40)
@given(products, st.sampled_from(("hidden", "head")), st.booleans())
def test_any_product_is_what_matrices_show_or_is_refused(
    update: str, role: str, aligned: bool
) -> None:
    try:
        own = law(update, ROLES[role], "full" if aligned else "none")
    except Refusal:
        return
    assert measured(update, ROLES[role], aligned=aligned) == pytest.approx(own, abs=0.2)


# ---- zeros, floors, refusals ----


def test_a_parameter_of_zeros() -> None:
    bias = {k: v for k, v in ROLES["vector"].items() if k != PARAMETER}
    with pytest.raises(Refusal, match="never leaves it"):
        step(custom_optimizer("-eta*norm(theta)*sign(g)"), bias)
    own = Optimizer("own", "-eta*norm(theta)*sign(g)", at_zero="-eta*g")
    assert exponents(step(own, bias), bias) == (-1, -1)
    assert step(optimizers()["lamb"], bias).entry == ONE  # as its library has it
    floored = step(custom_optimizer("-eta*max(1/1000, rms(theta))*g"), bias)
    assert floored.entry == Monomial.of(GRADIENT)  # numbers are left out


@pytest.mark.parametrize(
    ("update", "says"),
    [
        ("abs(g)", "no part is odd in g"),
        ("sign(g)*abs(g)**(-1/2)", "no second moment"),
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
    ],
)
def test_a_missing_law_is_refused(update: str, says: str) -> None:
    with pytest.raises(Refusal, match=says):
        law(update, ROLES["hidden"])
