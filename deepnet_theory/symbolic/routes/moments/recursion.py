r"""The change through a stack: the norm's Jacobian, one sublayer, and all of them.

With the centring :math:`P = I - \mathbf 1\mathbf 1^\top/d` and :math:`\hat z = Pz/\|Pz\|`,

.. math:: \frac{\partial\,\mathrm{LN}}{\partial z} = \frac{\sqrt d}{\|Pz\|}\,(P - \hat z\hat z^\top)

whose bracket is an orthogonal projection: the spectral norm is exactly √d/‖Pz‖. What a norm behind
the sublayer makes of the input term is what a norm before it made of Δx, in every placement, since
size and change are multiplied alike. So a sublayer adds its parameter term, and

.. math:: \|\Delta F\| \le \sum_i R\sqrt{v^2+w^2}\,\|\Delta\theta_i\| .
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import S, alpha, v, vanishes, w
from deepnet_theory.symbolic.expectation import (
    Model,
    NamedQuantity,
    in_models,
    norm_of,
    output_change,
)
from deepnet_theory.symbolic.proof.step import (
    IDENTITY,
    NAMED,
    SQUARES_AT_MOST,
    Check,
    Section,
    Step,
)
from deepnet_theory.symbolic.routes.moments.sublayer import (
    CAKE,
    Sublayer,
    d,
    norm_da,
    norm_dtheta,
    norm_dv,
    norm_dw,
    norm_dx,
    norm_x,
    norm_z,
)

NORM, RECURSION = Section("Jacobian of the norm", CAKE), Section("Recursion", CAKE)
COEFFICIENT = "moment-coefficient"
ENDS = ("norm", "input-term", "parameter-bound-in-theta")

norm_pz, norm_dx_next = norm_of("Pz"), norm_of("dx_next", r"\Delta x_{l+1}")
norm_df = output_change()
jacobian = NamedQuantity("J_norm", r"\|\partial\mathrm{LN}/\partial z\|_2", nonnegative=True)
input_term = norm_of("z_x", r"\tfrac{\partial z}{\partial x}\Delta x")
parameter_term = norm_of("z_theta", r"\tfrac{\partial z}{\partial\theta}\Delta\theta")
change = sp.Function("T", positive=True)  # ‖Δθ_i‖ of sublayer i
index = sp.Symbol("i", integer=True, positive=True)
_s = sp.Symbol("s", positive=True)
_more = sp.Symbol("t", nonnegative=True)


# ---- the norm's Jacobian --------------------------------------------------------------------


@cache
def _jacobian(width: int, centred: bool) -> tuple[sp.Matrix, sp.Expr, sp.Expr]:
    """(A, s, ‖Pz‖²) with √s·A the Jacobian of √d·Pz/‖Pz‖ at a rational z, entry by entry.

    With q = ‖Pz‖² an entry is √d(a'q − aq'/2)/q^{3/2}.
    """
    generator = random.Random(width)
    z = sp.Matrix(sp.symbols(f"z:{width}"))
    moved = z - sp.ones(width, 1) * sum(z) / width if centred else z
    square = moved.dot(moved)
    entries = moved.jacobian(z) * square - moved * sp.Matrix([square]).jacobian(z) / 2
    at = {entry: sp.Rational(generator.randint(-9, 9), 2) + n for n, entry in enumerate(z)}
    found = square.xreplace(at)
    return entries.xreplace(at), sp.Integer(width) / found**3, found


def _norm_models(centred: bool) -> Iterator[Model]:
    for width in (3, 4):
        entries, scale, square = _jacobian(width, centred)
        gram = scale * entries * entries.T
        # J Jᵀ = s·(projection) exactly where (J Jᵀ)² = s·J Jᵀ; then ‖J‖₂² = s, unless J = 0
        if entries.rank() != width - (2 if centred else 1):
            raise ValueError("the Jacobian loses other directions")
        top = (gram * gram).trace() / gram.trace()
        if gram * gram != top * gram:
            raise ValueError("the Jacobian is no multiple of a projection")
        yield {d: sp.Integer(width), norm_pz: sp.sqrt(square), jacobian: sp.sqrt(top)}


def _changes() -> Iterator[Model]:
    """‖J(a + b)‖ against ‖J‖(‖a‖ + ‖b‖) for explicit J, a, b; once with equality."""
    generator = random.Random(31)
    entries, scale, square = _jacobian(3, centred=True)
    kept = sp.Matrix(entries.columnspace()[0])  # the Jacobian is a multiple of a projection
    drawn = [sp.Matrix([generator.randint(-9, 9) for _ in range(3)]) for _ in range(4)]
    for a, b in (drawn[:2], drawn[2:], (kept, 2 * kept)):
        yield {
            jacobian: sp.sqrt(3 / square),
            norm_dx_next: sp.sqrt(scale) * (entries * (a + b)).norm(),
            input_term: a.norm(),
            parameter_term: b.norm(),
        }


def norm_steps(centred: bool) -> tuple[Step, ...]:
    """The spectral norm of the Jacobian, and what it makes of a change of z."""
    least = 3 if centred else 2
    lost = "the mean and the direction of Pz" if centred else "the direction of z"
    explicit = in_models("entrywise derivatives at d = 3, 4", lambda: _norm_models(centred))
    return (
        NORM.equal(
            "norm-jacobian",
            jacobian,
            sp.sqrt(d) / norm_pz,
            f"√d/‖Pz‖ times an orthogonal projection, which loses {lost}: its norm is 1 as soon as "
            f"its rank d − {least - 1} is not 0: exact, and attained, for d ≥ {least}",
            establishes=(jacobian, norm_pz),
            checks=(explicit,),
        ),
        RECURSION.at_most(
            "triangle-inequality",
            norm_dx_next,
            jacobian * (input_term + parameter_term),
            "behind the norm that follows Δx_{l+1} = J(∂z/∂x Δx + ∂z/∂θ Δθ) to first order, "
            "‖J a‖ ≤ ‖J‖₂‖a‖ and the triangle inequality; in mean square it is Minkowski's",
            uses=("norm-jacobian",),
            assumptions=("linear-step",),
            establishes=(norm_dx_next, input_term, parameter_term),
            checks=(in_models("at explicit Jacobians and vectors, once with equality", _changes),),
        ),
    )


# ---- one sublayer, and all of them ----------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """The mean squares that a sublayer's steps prove, with the placement's sizes put in."""

    sublayer: Sublayer
    size: sp.Expr  # of z
    moved: sp.Expr  # of the input term
    own: sp.Expr  # of the parameter term, at most, per ‖Δθ‖²

    @classmethod
    def of(cls, sublayer: Sublayer, steps: tuple[Step, ...]) -> Moments:
        """The values of the steps."""
        rhs = {step.name.removeprefix(f"{sublayer.name}-"): step.rhs for step in steps}
        size, moved, own = (rhs[end] for end in ENDS)
        squares = (size, moved, sp.cancel(own / (norm_dv**2 + norm_dw**2)))
        return cls(sublayer, *(sp.factor(sublayer.at(square)) for square in squares))

    @property
    def path(self) -> sp.Expr:
        """The mean square of the identity path alone."""
        return self.sublayer.at(self.sublayer.reading.path**2 * norm_x**2)

    @property
    def weight(self) -> sp.Expr:
        """The branch's mean square against the path's, the stream being of size √d."""
        return at_rest(sp.cancel(self.size / self.path - 1))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.sublayer.name}-{end}" for end in ENDS)


def relative(sublayer: Sublayer) -> sp.Expr:
    """√d/‖x‖, the unit of a change of the stream."""
    return sp.sqrt(d) / sublayer.at(norm_x)


def at_rest(expression: sp.Expr) -> sp.Expr:
    """The stream at its initial size √d."""
    return expression.xreplace({norm_x: sp.sqrt(d)})


def _meets(step: Step) -> bool:
    """(lhs/rhs)² → 1 for v, w → 0 and α → ∞ at once: no constant was lost on the way."""
    weak = {v: v * _s, w: w * _s, alpha: alpha / _s}
    ratio = at_rest(sp.together((step.lhs / step.rhs) ** 2)).xreplace(weak)
    return bool(sp.cancel(sp.cancel(ratio).subs(_s, 0)) == 1)


def _is_at_most(step: Step) -> bool:
    at = {norm_x: sp.sqrt(d * (1 + _more))}
    return SQUARES_AT_MOST.holds(
        replace(step, lhs=step.lhs.xreplace(at), rhs=step.rhs.xreplace(at))
    )


REACHED = Check("lhs/rhs -> 1 as the branch's weight -> 0", _meets)
# a stream that is not normalised starts at the size √d and grows
AT_MOST = Check("rhs^2 - lhs^2 has no negative term, the stream being at least √d", _is_at_most)


def recursion_steps(every: tuple[Moments, ...]) -> tuple[Step, ...]:
    """‖z‖, what one sublayer adds to a change, and the telescoping sum; the first not crossing."""
    first = next(one for one in every if not one.sublayer.crosses)

    def is_size_of_every(step: Step) -> bool:
        alike = (vanishes(step.rhs**2 - one.size) for one in every)
        return step.rhs.is_positive and all(alike)

    size = NORM.equal(
        "norm-of-z",
        norm_z,
        sp.sqrt(first.size),
        "‖z‖ is taken to be the root of its mean square, and Pz to be z",
        uses=tuple(one.names[0] for one in every),
        assumptions=("norm-concentrates", "unit-activations"),
        establishes=(norm_z,),
        checks=(Check("of every kind of sublayer", is_size_of_every), NAMED),
    )
    added = sp.sqrt(sp.cancel(d * first.own / first.size)) * norm_dtheta
    put_in = RECURSION.equal(
        "moments-put-in",
        sp.sqrt(d) / size.rhs * (sp.sqrt(first.moved) + sp.sqrt(first.own) * norm_dtheta),
        relative(first.sublayer) * norm_dx + added,
        "√d/‖z‖ times the root mean squares of both terms, ‖Δθ‖² = ‖ΔV‖² + ‖ΔW‖²: relative to "
        "the stream the factor of ‖Δx‖ is 1, because z and its change carry one second moment",
        uses=("triangle-inequality", size.name, *(name for one in every for name in one.names[1:])),
        assumptions=("norm-concentrates",),
        establishes=(norm_dtheta,),
        checks=(
            IDENTITY,
            Check("of every kind of sublayer", lambda step: _is_of_every(step, every)),
        ),
    )
    coefficient = RECURSION.at_most(
        COEFFICIENT,
        put_in.rhs.coeff(norm_dtheta),
        sp.sqrt(sp.cancel(at_rest(d * first.own / first.path))),
        "what one sublayer adds per ‖Δθ‖: the branch's own square is dropped under the root, "
        "and a stream that is not normalised has only grown from √d",
        uses=(put_in.name,),
        checks=(AT_MOST, REACHED),
    )
    return size, put_in, coefficient, _telescoping(first, put_in, coefficient)


def _is_of_every(step: Step, every: tuple[Moments, ...]) -> bool:
    """The squared coefficients of ‖Δx‖ and ‖Δθ‖ are those of each kind: no root is simplified."""
    stream, own = step.rhs.coeff(norm_dx), step.rhs.coeff(norm_dtheta)
    for one in every:
        moved = (d * one.moved / one.size).xreplace({norm_da: 0}) / norm_dx**2
        kept = one.path / one.size if one.sublayer.crosses else 1  # what it reads stands still
        if not (vanishes(stream**2 * kept - moved) and vanishes(own**2 - d * one.own / one.size)):
            return False
    positive = own.is_positive and stream.is_positive
    return bool(positive and sp.expand(step.rhs.subs({norm_dx: 0, norm_dtheta: 0})) == 0)


def _telescoping(first: Moments, put_in: Step, coefficient: Step) -> Step:
    """‖ΔF‖ ≤ Σ_i R√(v²+w²)‖Δθ_i‖, the recursion unrolled."""

    def unrolled(step: Step) -> bool:
        generator = random.Random(step.name)
        at = {alpha: sp.Rational(7, 3), v: sp.Rational(3, 5), w: sp.Rational(4, 5), d: sp.S(4)}
        own = coefficient.rhs.xreplace(at)
        for sublayers in (1, 2, 5):
            sizes = [sp.Rational(generator.randint(1, 9), 4) for _ in range(sublayers)]
            stream, moved = sp.sqrt(at[d]), sp.S.Zero
            for size in sizes:
                here = {**at, norm_x: stream}
                # Δx relative to the stream, before and behind the sublayer
                before = moved * stream / sp.sqrt(at[d])
                moved = put_in.rhs.xreplace({**here, norm_dx: before, norm_dtheta: size})
                if not first.sublayer.reading.normed_sum:
                    stream = sp.sqrt(first.size.xreplace(here))
            names = {change(place): size for place, size in enumerate(sizes, 1)}
            bound = step.rhs.xreplace({**at, S: sp.Integer(sublayers)}).doit().xreplace(names)
            # a bound, and with the coefficient as it is derived, not a larger one
            if sp.N(bound - moved, 30) < 0 or abs(sp.N(bound - own * sum(sizes), 30)) > 1e-25:
                return False
        return bool(step.lhs == norm_df)

    return RECURSION.at_most(
        "telescoping",
        norm_df,
        sp.Sum(coefficient.rhs * change(index), (index, 1, S)),
        "the recursion from l = 1, where Δx_1 = 0, through the S sublayers of the stack; the "
        "factor 1 of the change makes it a plain sum",
        source="layer cake, §5.3",
        uses=(put_in.name, coefficient.name),
        assumptions=("linear-step", "norm-concentrates"),
        establishes=(norm_df,),
        checks=(Check("the recursion run at S = 1, 2, 5", unrolled),),
    )
