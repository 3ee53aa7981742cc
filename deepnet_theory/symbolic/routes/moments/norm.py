r"""The Jacobian of the normalisation, exactly, and the recursion it leads to.

With the centring :math:`P = I - \mathbf 1\mathbf 1^\top/d` and :math:`\hat z = Pz/\|Pz\|`,

.. math:: \frac{\partial\,\mathrm{LN}}{\partial z} = \frac{\sqrt d}{\|Pz\|}\,(P - \hat z\hat z^\top)

whose bracket is an orthogonal projection of rank d − 2 (without the centring: d − 1). Its
spectral norm is therefore exactly √d/‖Pz‖ for d ≥ 3, and 0 for d = 2. Derived here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache

import sympy as sp
from sympy.polys.rings import PolyElement

from deepnet_theory.symbolic.expectation import Expectation, Rademacher, Tensor, is_enumerated
from deepnet_theory.symbolic.expectation.model import Model, NamedQuantity, in_models, norm_of
from deepnet_theory.symbolic.proof.step import IDENTITY, SAMPLED, Check, Section, Step
from deepnet_theory.symbolic.routes.moments.setting import (
    CAKE,
    GaussianBranch,
    d,
    i,
    norm_dx_next,
    norm_z,
)

NORM = Section("Jacobian of the norm")
RECURSION = Section("Recursion")

norm_pz = norm_of("Pz")
jacobian = NamedQuantity("norm_J", r"\|\partial\mathrm{LN}/\partial z\|_2", nonnegative=True)
rank = NamedQuantity(
    "rank_J", r"\operatorname{rank}\partial\mathrm{LN}/\partial z", nonnegative=True
)
input_term = NamedQuantity("norm_z_x", r"\|\tfrac{\partial z}{\partial x}\Delta x\|")
parameter_term = NamedQuantity(
    "norm_z_theta", r"\|\tfrac{\partial z}{\partial\theta}\Delta\theta\|"
)


def explicit_jacobian(z: list[sp.Rational], centred: bool) -> tuple[sp.Matrix, sp.Expr]:
    """The Jacobian J of √d·Pz/‖Pz‖ at a rational z, as (A, c) with A rational and J = √c·A.

    With q = ‖Pz‖² an entry is √d(a'q − aq'/2)/q^{3/2}: differentiated entry by entry.
    """
    width = len(z)
    ring, *symbols = sp.ring(f"z:{width}", sp.QQ)
    mean = sum(symbols) * sp.QQ(1, width) if centred else ring.zero
    moved = [s - mean for s in symbols]
    size = sum(s**2 for s in moved)
    at = list(zip(symbols, map(sp.QQ.from_sympy, z), strict=True))

    def value(polynomial: PolyElement) -> sp.Rational:
        return sp.QQ.to_sympy(polynomial.evaluate(at))

    square = value(size)
    half_slopes = [value(size.diff(s)) / 2 for s in symbols]
    rows = [
        [value(top.diff(s)) * square - value(top) * slope
         for s, slope in zip(symbols, half_slopes, strict=True)]
        for top in moved
    ]  # fmt: skip
    return sp.Matrix(rows), sp.Integer(width) / square**3


@cache
def _norm_models(centred: bool) -> tuple[Model, ...]:
    generator = random.Random(30)
    models = []
    for width in (3, 4):
        z = [sp.Rational(generator.randint(-9, 9), 2) + index for index in range(width)]
        entries, c = explicit_jacobian(z, centred)
        mean = sum(z) / width if centred else sp.S.Zero
        gram = c * (entries * entries.T)
        # J Jᵀ = s·(projection) exactly where (J Jᵀ)² = s·J Jᵀ; then ‖J‖₂² = s, unless J = 0
        square = (gram * gram).trace() / gram.trace()
        if gram * gram != square * gram:
            raise ValueError("the Jacobian is no multiple of a projection")
        models.append(
            {
                d: sp.Integer(width),
                norm_pz: sp.sqrt(sum((a - mean) ** 2 for a in z)),
                jacobian: sp.sqrt(square),
                rank: sp.Integer(entries.rank()),
            }
        )
    return tuple(models)


def _models(centred: bool) -> Callable[[], Iterator[Model]]:
    return lambda: iter(_norm_models(centred))


def _vanishes_below(centred: bool) -> Check:
    """At the width that the rank excludes the Jacobian is zero: the norm is constant there."""
    width = 2 if centred else 1

    def holds(step: Step) -> bool:
        entries, _ = explicit_jacobian([sp.Rational(3, 2), sp.Rational(-5)][:width], centred)
        return bool(entries.is_zero_matrix and step.rhs.subs(d, width) == 0)

    return Check(f"the Jacobian is zero at d = {width}", holds)


def norm_steps(centred: bool) -> tuple[Step, ...]:
    """Rank and spectral norm of the Jacobian."""
    lost = 2 if centred else 1
    least = lost + 1
    why = (
        "P − ẑẑᵀ is an orthogonal projection: it loses the mean and the direction of Pz"
        if centred
        else "I − ẑẑᵀ is an orthogonal projection: it loses the direction of z"
    )
    explicit = in_models("entrywise derivatives at d = 3, 4", _models(centred))
    return (
        NORM.equal(
            "norm-jacobian-rank",
            rank,
            d - lost,
            why,
            establishes=(rank,),
            checks=(explicit, _vanishes_below(centred)),
        ),
        NORM.equal(
            "norm-jacobian",
            jacobian,
            sp.sqrt(d) / norm_pz,
            (
                f"√d/‖Pz‖ times a projection of rank d − {lost}, whose norm is 1 as soon as its "
                f"rank is not 0: exact, and attained, for d ≥ {least}"
            ),
            source=CAKE,
            uses=("norm-jacobian-rank",),
            establishes=(jacobian, norm_pz),
            checks=(explicit,),
        ),
    )


def norm_size_steps(
    branches: tuple[GaussianBranch, ...], of: Mapping[str, Step]
) -> tuple[Step, ...]:
    """‖z‖ at its root mean square, and the Jacobian's norm there."""
    mean_squares = tuple(f"{branch.name}-norm-of-unit-input" for branch in branches)
    size = NORM.equal(
        "norm-of-z",
        norm_z,
        sp.sqrt(of[mean_squares[0]].rhs),
        "‖z‖ is taken to be the root of its mean square, and Pz to be z",
        source=CAKE,
        uses=mean_squares,
        assumptions=("norm-concentrates", "unit-activations"),
        establishes=(norm_z,),
        checks=(_is_mean_square(branches),),
    )
    at_size = {norm_z: size.rhs}
    return (
        size,
        NORM.equal(
            "norm-jacobian-size",
            of["norm-jacobian"].rhs.xreplace({norm_pz: norm_z}),
            of["norm-jacobian"].rhs.xreplace({norm_pz: size.rhs}),
            "√d/‖z‖ at that norm: the width cancels",
            source=CAKE,
            uses=("norm-jacobian", "norm-of-z"),
            checks=tuple(_at(at_size, check) for check in (IDENTITY, SAMPLED)),
        ),
    )


def _at(values: Mapping[sp.Symbol, sp.Expr], check: Check) -> Check:
    """The check with the left side's symbols at their values."""
    return Check(check.name, lambda step: check.holds(replace(step, lhs=step.lhs.xreplace(values))))


def _is_mean_square(branches: tuple[GaussianBranch, ...]) -> Check:
    """The square is E‖z‖², by explicit sums over inputs of norm exactly √d."""

    def holds(step: Step) -> bool:
        for branch in branches:
            z = branch.z(Tensor("x", (d,), Rademacher()))
            node = Expectation((z * z).sum(i), f"||z||^2[{branch.name}]")
            if not is_enumerated(replace(step, lhs=node, rhs=step.rhs**2)):
                return False
        return bool(step.lhs == norm_z and step.rhs.is_positive)

    return Check("its square is E||z||^2 by explicit sums over inputs of norm sqrt(d)", holds)


def explicit_changes() -> Iterator[Model]:
    """‖J(a + b)‖ against ‖J‖(‖a‖ + ‖b‖) for explicit J, a, b; once with equality."""
    generator = random.Random(31)
    z = [sp.Rational(3), sp.Rational(-1), sp.Rational(5, 2)]
    entries, c = explicit_jacobian(z, True)
    mean = sum(z) / 3
    centred = sp.Matrix([a - mean for a in z])
    tangent = centred.cross(sp.Matrix([1, 1, 1]))  # in the plane that the Jacobian keeps
    pairs = [
        tuple(sp.Matrix([generator.randint(-9, 9) for _ in range(3)]) for _ in range(2))
        for _ in range(3)
    ]
    for a, b in (*pairs, (tangent, 2 * tangent)):
        yield {
            jacobian: sp.sqrt(3) / centred.norm(),
            norm_dx_next: sp.sqrt(c) * (entries * (a + b)).norm(),
            input_term: a.norm(),
            parameter_term: b.norm(),
        }
