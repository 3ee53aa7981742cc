"""The premises of the balance, judged at the rule that it leads to."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.spec.expression import UPDATE, Call, Name
from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.algebra.depth import rational
from deepnet_theory.symbolic.algebra.monomial import exponent_in, present
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, alpha, beta
from deepnet_theory.symbolic.laws.optimizer import Degree
from deepnet_theory.symbolic.laws.parameters import Term, terms
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.kinds import Kind
from deepnet_theory.symbolic.rule.setting import Setting


def broken_premise(setting: Setting, found: Balanced) -> str | None:
    """The first premise that a solution breaks, as a sentence; None where all hold."""
    judges = (_stream_size, _far_from_identity, _end_of_regime)
    told = (judge(setting, found, kind) for kind in found.kinds for judge in judges)
    return next((broken for broken in told if broken is not None), None)


def _stream_size(setting: Setting, found: Balanced, kind: Kind) -> str | None:
    """A stream that no norm takes back keeps its size only where its coefficient is 1."""
    if setting.law.normalised:
        return None
    times = found.at_solution(setting.law.stream.xreplace({alpha: kind.alpha}))
    if times == 1:
        return None
    growth = exponent_in(times, DEPTHS[found.part.depth])
    explodes = growth > 0 or (growth == 0 and times > 1)
    return (
        f"with the closure {found.closure.name!r} a sublayer {setting.placed} multiplies the "
        f"stream by {present(times)}, and no norm takes it back: after {found.sublayers} sublayers "
        f"the stream is ({present(times)})**({found.sublayers}), which "
        f"{'explodes' if explodes else 'vanishes'} with depth; the coefficient of x must be 1"
    )


def _far_from_identity(setting: Setting, found: Balanced, kind: Kind) -> str | None:
    """Where S·r² grows the stack leaves the neighbourhood of the identity."""
    depth = DEPTHS[found.part.depth]
    growth = exponent_in(found.self_consistency(kind), depth)
    if growth <= 0:
        return None
    if "eta" not in found.closure.knobs:
        return (
            f"the closure {found.closure.name!r} makes S*r^2 grow as {depth}^({growth}): the "
            "stack leaves the neighbourhood of the identity on which the orders of magnitude "
            "rest, and the law beyond it is missing"
        )
    shrunk = shrinkage(setting, growth)
    if shrunk == 0:
        return None  # the balance still holds; the derivation says that the premises fail
    return (
        f"the closure {found.closure.name!r} makes S*r^2 grow as {depth}^({growth}), and with it "
        f"the stream {setting.placed}, which no norm takes back before the last: the sublayers' "
        f"changes shrink by {depth}^({shrunk}), so that they do not add to {found.sublayers} equal "
        "ones, which the balance rests on"
    )


def shrinkage(setting: Setting, growth: sp.Expr) -> sp.Expr:
    r"""By what exponent a stream that grows, :math:`\|x_l\|^2 \sim 1 + l r^2`, shrinks the sum.

    ``growth`` is the exponent of :math:`S r^2`. The final norm's Jacobian and the gradient that
    comes back through it are both of order :math:`1/\|x_S\|`. A stream that is normalised in
    every sublayer does not grow.

    Source: derived here; the growth is that of the Pre/Post norm note.
    """
    if setting.law.normalised or growth <= 0:
        return sp.Integer(0)
    return growth * sp.Min(1, (1 + setting.degrees.p) / 2)


_MATRICES = (Role.SCALED, Role.UNSCALED)


def _end_of_regime(setting: Setting, found: Balanced, kind: Kind) -> str | None:
    """A stated regime holds at the rule in every depth, or where it ends is known.

    The sides are of the sizes that g and θ of the stepped matrices have at the rule.
    """
    for regime in setting.degrees.regimes:
        if is_floor(regime.larger, regime.smaller):
            continue  # the depth at which the rule reaches it is computed, and said
        for sublayer in dict.fromkeys(found.part.layer):
            if sublayer.name not in kind.members:
                continue
            matrices = [t for t in terms(sublayer, setting.law) if t.role in _MATRICES]
            for term in sorted(matrices, key=lambda t: _MATRICES.index(t.role)):
                for depth in map(DEPTHS.__getitem__, setting.selection.the_stack.depths):
                    sizes = [
                        exponent_in(_size(degree, term, found, kind), depth)
                        for degree in (regime.larger_degree, regime.smaller_degree)
                    ]
                    if sizes[0] < sizes[1]:
                        return (
                            f"the stated regime {regime} ends: the closure {found.closure.name!r} "
                            f"leads to a rule under which, for the {term.name} of the "
                            f"{found.part.name}, {regime.larger} goes as {depth}^({sizes[0]}) and "
                            f"{regime.smaller} as {depth}^({sizes[1]}), so that the latter is the "
                            "larger one in depth and the update another"
                        )
    return None


def _size(degree: Degree, term: Term, found: Balanced, kind: Kind) -> sp.Expr:
    """The size at the rule of what has a degree in η, g and θ."""
    own = {alpha: kind.alpha, beta: kind.beta}
    rate = found.rate ** rational(degree.eta)
    of_update = term.gradient ** rational(degree.g) * term.size ** rational(degree.theta)
    return found.at_solution(rate * of_update.xreplace(own))


def is_floor(larger: str, smaller: str) -> bool:
    """Whether a regime is that of a floor: ``rms(theta) > constant``."""
    left, right = UPDATE.parse(larger), UPDATE.parse(smaller)
    return left.root == Call("rms", (Name("theta"),)) and not right.names | right.functions
