r"""The constant between adding matrices one by one and taking the norm over all of them.

.. math:: \sum_j D_j^{1+p}\,\beta_j^q = m^{(1-p-q)/2}\, D^{1+p}\,\|\theta\|^q

at equal gains; and the same form, the loss's gradient dropped, for S equal sublayers.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from deepnet_theory.proof.algebra import S, alpha, beta, eta
from deepnet_theory.proof.lemma import SECTION, SOURCE, Gains, Law, loss_gradient
from deepnet_theory.proof.placement import P
from deepnet_theory.proof.step import Check, Step


def sublayers_together(law: Law, of: Gains) -> Step:
    """The source's closing bound, S equal sublayers of unequal gains."""
    return SECTION.bound(
        "increment-of-equal-sublayers",
        S * eta * loss_gradient**law.degrees.p * law.share(of),
        eta * S * law.share(of),
        "the loss's gradient at the output is of order one",
        source=SOURCE,
        uses=("sum-over-sublayers",),
        assumptions=("bounded-loss-gradient",),
        bounded=(loss_gradient,),
    )


def matrix_by_matrix(law: Law, of: Gains) -> Step:
    """Both forms of one sublayer's increment, divided."""
    p, q, count = law.degrees.p, law.degrees.q, len(of)
    equal = dict.fromkeys(of, beta)
    kappa = law.leading.xreplace({P: sp.Mul(*of)})
    single = sp.Add(*((sp.Mul(*of) / gain * kappa) ** (1 + p) * gain**q for gain in of))
    norm = law.share(of)
    return SECTION.equal(
        "matrix-by-matrix",
        sp.Mul(single.xreplace(equal), 1 / norm.xreplace(equal), evaluate=False),
        sp.Integer(count) ** ((1 - p - q) / 2),
        (
            f"adding the {count} matrices' increments one by one gives this multiple of the "
            "norm's form: a constant, 1 where p + q = 1"
        ),
        uses=("sublayer-increment",),
        assumptions=("equal-gains",),
        checks=(Check("both forms added up at a rational point", _ratio_of_forms(law, count)),),
    )


def _ratio_of_forms(law: Law, count: int) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        residual, gain = sp.Rational(7, 3), sp.Rational(2, 5)
        p, q = law.degrees.p, law.degrees.q
        kappa = law.leading.xreplace({P: gain**count, alpha: residual})
        one = kappa * gain ** (count - 1)
        together = (sp.sqrt(count) * one) ** (1 + p) * (sp.sqrt(count) * gain) ** q
        expected = sp.N(count * one ** (1 + p) * gain**q / together, 40)
        at = {alpha: residual, beta: gain}
        sides = (step.lhs.xreplace(at), step.rhs.xreplace(at))
        return all(abs(sp.N(side, 40) - expected) < 1e-30 for side in sides)

    return holds
