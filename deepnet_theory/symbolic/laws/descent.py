r"""Whether an update goes down the gradient, computed from its expression.

The loss changes by :math:`\langle g, \Delta\theta\rangle` to first order, and the changes of the
output that S sublayers make are aligned as far as they follow the gradient. Turning the sign of
one matrix of a branch turns that of another's gradient, so that a mean over the signs of g and
θ tells what is left of both:

.. math:: \operatorname{mean}_{\pm g, \pm\theta} \langle g, u(\eta, g, \theta)\rangle .
"""

from __future__ import annotations

import mpmath

from deepnet_theory.spec.errors import Refusal, shown
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.laws.entries import DIGITS, samples
from deepnet_theory.symbolic.laws.optimizer import Degrees


def signs_of_increment(found: Degrees) -> frozenset[int]:
    """The signs of the mean increment of the loss, at several sizes of g and θ."""
    means: dict[int, list[mpmath.mpf]] = {}
    with mpmath.workdps(2 * DIGITS):
        for sample in samples(found.reduced):
            increments = (g * u for g, u in zip(sample.g, sample.value, strict=True))
            means.setdefault(sample.size, []).extend(increments)
        return frozenset(_sign(increments) for increments in means.values())


def _sign(increments: list[mpmath.mpf]) -> int:
    mean, size = mpmath.fsum(increments), mpmath.fsum(increments, absolute=True)
    return 0 if abs(mean) <= mpmath.mpf(10) ** (5 - DIGITS) * size else int(mpmath.sign(mean))


def descends(found: Degrees) -> bool:
    """Whether the loss falls under the update, whatever the sizes."""
    return signs_of_increment(found) == {-1}


def refuse_unless_descent(selection: Selection, found: Degrees) -> None:
    """Raises :class:`Refusal` where the loss rises, or does not feel the update in the mean."""
    update = f"the update {shown(selection.the_optimizer.update)}"
    signs = signs_of_increment(found)
    if signs == {0}:
        raise Refusal(
            f"{update} does not follow the gradient: <g, update> is 0 in the mean over the signs "
            "of g and theta, as for directions that are independent of the loss; the changes of S "
            "sublayers then add as sqrt(S), while a rule balances changes that are aligned and add "
            "as S"
        )
    if signs != {-1} and not selection.allow_ascent:
        says = "rises" if signs == {1} else "rises or falls with the sizes of g and theta"
        raise Refusal(
            f"under {update} the loss {says}: <g, update> is not negative; write it with a minus "
            "sign, or allow an ascent with --allow-ascent (in Python allow_ascent=True)"
        )
