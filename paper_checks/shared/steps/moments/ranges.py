"""The index ranges that the source prints for the first matrix, against those it needs."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

import sympy as sp

from deepnet_theory.proof.algebra import v
from deepnet_theory.proof.step import Check, Section, Step
from paper_checks.shared.expectation import NamedQuantity
from paper_checks.shared.steps.moments.route import WIDE
from paper_checks.shared.steps.moments.setting import CAKE, GaussianBranch, d, m

RANGES = Section("Index ranges")

tau = sp.Symbol("tau", positive=True)  # variance of the entries of ΔW
literal = NamedQuantity(
    "first_matrix_term_as_printed", r"\text{term of }\Delta W\text{ as printed}"
)
whole = NamedQuantity("first_matrix_term", r"\text{term of }\Delta W")


def _term(
    kept: sp.Expr, width: int, inner: int, first: int, last: int, numbers: tuple[Fraction, Fraction]
) -> sp.Expr:
    """Σ_i E(Σ_{j≤first} Σ_{k≤last} x_j v_ki R_k Δw_jk)², entry by entry, E x_j² = 1.

    Entries that do not exist count as zero, which is the kindest reading of a wrong range.
    """
    outer, variance = numbers
    total = Fraction(0)
    for _ in range(1, width + 1):
        for a in range(1, first + 1):
            for b in range(1, last + 1):
                if a <= width and b <= inner:
                    total += Fraction(int(kept.p), int(kept.q)) * outer * variance
    return sp.Rational(total.numerator, total.denominator)


def _counted(branch: GaussianBranch, printed: bool) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        generator = random.Random(step.name)
        for width, inner in ((1, 1), (1, 3), (2, 2), (2, 3), (2, 5), (3, 4)):
            gain, variance = (
                Fraction(generator.randint(1, 9), 4),
                Fraction(generator.randint(1, 9), 7),
            )
            first, last = (inner, width) if printed else (width, inner)
            numbers = (gain**2 / inner, variance)
            found = _term(branch.kept, width, inner, first, last, numbers)
            at = {d: width, m: inner, v: sp.Rational(gain), tau: sp.Rational(variance)}
            if step.rhs.subs(at) != found:
                return False
        return step.lhs in step.establishes

    return holds


def range_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """The term of ΔW with the printed ranges j = 1..m, k = 1..d and with j = 1..d, k = 1..m."""
    entry = branch.kept * v**2 / m * tau  # E R_k² · E v_ki² · E Δw_jk², with E x_j² = 1
    right, wrong = sp.expand(d * d * m * entry), sp.expand(d * d * d * entry)
    named = f"{branch.name}-index-ranges"
    return (
        RANGES.equal(
            named,
            whole,
            right,
            "Σ_{j=1}^{d} Σ_{k=1}^{m}: W is d×m, all d·m entries of ΔW of variance τ count",
            uses=(f"{branch.name}-parameter-term",),
            establishes=(whole, tau),
            checks=(Check("entries added one by one", _counted(branch, printed=False)),),
        ),
        RANGES.equal(
            named + "-as-printed",
            literal,
            wrong,
            (
                "the source prints Σ_{j=1}^{m} Σ_{k=1}^{d} over W ∈ R^{d×m}: for m > d there is no "
                "w_jk with j > d, and hidden units k > d are left out (m ≥ d)"
            ),
            source=CAKE,
            uses=(named,),
            assumptions=("wide-hidden-layer",),
            establishes=(literal,),
            checks=(Check("entries added one by one", _counted(branch, printed=True)),),
        ),
        RANGES.at_most(
            named + "-slip",
            wrong,
            right,
            (
                "by the factor d/m; equal for m = d alone. A slip of the pen: the result that the "
                "source goes on with, dv²/2m·‖ΔW‖², is the one of the right ranges"
            ),
            uses=(named, named + "-as-printed"),
            assumptions=("wide-hidden-layer",),
            checks=(WIDE,),
        ),
    )
