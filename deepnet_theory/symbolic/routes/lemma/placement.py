r"""A placement's residual equation on three orthogonal directions.

A sublayer's output is written a·e_path + b·e_branch + t·e_change: the input's own direction,
the branch's (independent of it, as the random sign says in one dimension), and the direction
that a small change of the branch's matrices moves it along. A norm divides by the length; the
branch maps a signal of length y to P·y along e_branch and ε·y along e_change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.placement import Placement
from deepnet_theory.symbolic.algebra.monomial import S, alpha, i, in_sympy, l, r, vanishes
from deepnet_theory.symbolic.laws.placement import P, placement_law
from deepnet_theory.symbolic.proof.step import (
    SQUARES_AT_MOST,
    Check,
    Point,
    Regime,
    Relation,
    Section,
    Step,
    at_most_at_sizes,
    defines,
    equal_at_sizes,
    ratio_in_branch_weight,
    written_at,
)
from deepnet_theory.symbolic.routes.lemma.scalar import D, T

SECTION = Section("Placement")

epsilon = sp.Symbol("h", positive=True)  # a small change of the branch's output
s = sp.Symbol("x_rms", positive=True)  # standard deviation of the residual stream


@dataclass(frozen=True)
class Directions:
    """A placement's output, and what follows from it.

    ``path``, ``branch`` and ``change`` are its components along the three directions.
    ``weight``: the branch against the path at stream size 1.
    ``response``, ``leading``: the output's change per change of the branch, exactly and to
    leading order for a small branch.
    """

    placement: Placement
    path: sp.Expr
    branch: sp.Expr
    change: sp.Expr
    weight: sp.Expr
    response: sp.Expr
    leading: sp.Expr

    @property
    def at_rest(self) -> tuple[sp.Expr, sp.Expr]:
        """Path and branch where the branch does not change."""
        return self.path.xreplace({epsilon: sp.S.Zero}), self.branch.xreplace({epsilon: sp.S.Zero})

    @property
    def vanishing(self) -> sp.Symbol:
        """What is eliminated in favour of the branch weight: P, or α where P is not felt."""
        return P if self.weight.has(P) else alpha


def directions(placement: Placement) -> Directions:
    """Evaluate a placement's equation on directions.

    Raises :class:`Refusal` where it is not an identity path beside one branch.
    """
    size = sp.S.One if placement.normalises_sum else s
    names = {"x": sp.Matrix([size, 0, 0]), "alpha": alpha}
    functions = {"norm": lambda of: of / sp.sqrt(sp.factor(of.dot(of))), "branch": _branch,
                 "learnt": lambda start: start}  # fmt: skip
    try:
        path, branch, change = in_sympy(placement.expression, names, functions)
        weight = sp.powsimp((branch / path).subs({epsilon: 0, s: 1}))
        response = sp.diff(change, epsilon).subs(epsilon, 0)
        leading = sp.powsimp(sp.factor(response).as_leading_term(P))
    except (TypeError, AttributeError, ValueError, ZeroDivisionError):
        path = branch = change = weight = response = leading = sp.nan
    if not weight.is_positive or leading.has(s) or not leading.is_positive:
        raise Refusal(
            f"the lemma route has no law for the placement {placement.name!r}: its equation "
            f"{placement.equation!r} is not an identity path beside one branch"
        )
    return Directions(placement, path, branch, change, weight, sp.factor(response), leading)


def _branch(signal: sp.Matrix) -> sp.Matrix:
    if signal[1] != 0 or signal[2] != 0:
        raise TypeError("a branch of a branch")
    return sp.Matrix([0, P * signal[0], epsilon * signal[0]])


def placement_steps(found: Directions) -> tuple[Step, ...]:
    """The output's size, its response to the branch, and what a later stream does to it."""
    return (*_one_sublayer(found), *_stream(found))


def _one_sublayer(found: Directions) -> tuple[Step, ...]:
    source = found.placement.source or "derived here"
    still = found.at_rest
    exact, leading = found.response, found.leading
    same = vanishes(exact - leading)
    law = placement_law(found.placement)  # the same in matrices that do not commute
    reached = ratio_in_branch_weight(found.vanishing, found.weight)
    return (
        SECTION.equal(
            "stream-growth",
            still[0] ** 2 + still[1] ** 2,
            sp.factor(sp.expand(still[0] ** 2 + still[1] ** 2)),
            f"mean square of the stream after {found.placement.equation}, the branch "
            "independent of the path",
            source=source,
            assumptions=("independent-signs",),
            establishes=() if found.placement.normalises_sum else (s,),
        ),
        SECTION.equal(
            "branch-weight-of-placement",
            r,
            found.weight,
            "the branch of gains with the product P against the path, at stream size 1",
            source=source,
            uses=("stream-growth",),
            checks=(defines("the matrix law of the placement", lambda: law.weight),),
            establishes=(r,),
        ),
        SECTION.asymptotic(
            "branch-change",
            found.change,
            epsilon * exact,
            "a small change ε of the branch, transverse to it, as the output shows it",
            source=source,
            uses=("stream-growth",),
            regime=Regime(epsilon, sp.S.Zero),
            checks=(Check("limit of the squared ratio, both sides positive", _squared_limit),),
            establishes=(epsilon,),
        ),
        SECTION.step(
            Relation.EQUAL if same else Relation.AT_MOST,
            "branch-response",
            exact,
            leading,
            (
                "the response to the branch, exactly"
                if same
                else "the response to the branch is at most its leading order at a small branch"
            ),
            source=source,
            uses=("branch-change", "branch-weight-of-placement"),
            # a bound is reached as the weight vanishes: no constant may be lost in it
            checks=() if same else (SQUARES_AT_MOST, reached),
        ),
    )


def _squared_limit(step: Step) -> bool:
    assert step.regime is not None
    ratio = sp.cancel(sp.together((step.lhs / step.rhs) ** 2))
    positive = step.lhs.is_positive and step.rhs.is_positive
    return bool(positive and sp.cancel(ratio.subs(step.regime.variable, 0)) == 1)


def _stream(found: Directions) -> tuple[Step, ...]:
    if found.placement.normalises_sum:
        return ()
    added = found.at_rest[1]
    if added.has(s) or not found.placement.final_norm:
        raise Refusal(
            f"the lemma route has no law for the placement {found.placement.name!r}: a stream "
            "that is not normalised needs a branch that is, and a norm at the end"
        )
    size = SECTION.equal(
        "stream-size",
        1 + sp.Sum(r**2, (l, 1, S)),
        1 + S * r**2,
        "mean square of the stream after S sublayers: each adds r² to the input's 1",
        source="Pre/Post norm note, §1; derived here",
        uses=("stream-growth", "branch-weight-of-placement"),
        checks=(_iterated(found), equal_at_sizes(S)),
        establishes=(S,),
    )
    before, after = (size.rhs.subs(S, number) for number in (l - 1, l))
    later = SECTION.equal(
        "stream-jacobians",
        sp.Product(after / before, (l, i + 1, S)) / size.rhs,
        1 / size.rhs.subs(S, i),
        "mean square of all later Jacobians and the final norm: what a change grows by "
        "is what the stream grows by, so the product telescopes",
        uses=("stream-size",),
        assumptions=("independent-signs",),
        checks=(written_at("written out for every i ≤ S ≤ 4", _stretched),),
        establishes=(i,),
    )
    through = SECTION.at_most(
        "telescoping-through-the-stream",
        sp.Sum(D(i) * T(i) * sp.sqrt(later.rhs), (i, 1, S)),
        sp.Sum(D(i) * T(i), (i, 1, S)),
        "the published form is a bound at every r, tight where S·r² is small",
        uses=("telescoping", "stream-jacobians"),
        checks=(at_most_at_sizes(S, sizes=(1, 2), rewrite=_roots_above_one),),
    )
    return size, later, through


def _iterated(found: Directions) -> Check:
    path, added = found.at_rest

    def points() -> Iterator[Point]:
        square: sp.Expr = sp.S.One
        for count in (1, 2, 3):
            square = sp.expand((path**2 + added**2).subs(s, sp.sqrt(square)))
            yield {S: count, r: found.weight}, square

    return written_at("the sublayer's growth iterated", points)


def _stretched() -> Iterator[Point]:
    """What is left of a product that telescopes: the size at i, whatever S is."""
    for size in (1, 2, 3, 4):
        for start in range(1, size + 1):
            yield {S: size, i: start}, 1 / (1 + start * r**2)


def _roots_above_one(expression: sp.Expr) -> sp.Expr:
    """Every root √(1 + i r²) written 1 + t_i with t_i > 0."""
    roots = {
        power: 1 / (1 + sp.Symbol(f"t_{index}", positive=True))
        for index, power in enumerate(sorted(expression.atoms(sp.Pow), key=str))
        if power.exp == -sp.S.Half
    }
    return expression.subs(roots)
