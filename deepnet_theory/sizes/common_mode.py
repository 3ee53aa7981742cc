r"""What a part that all tokens share does to what is a token's own.

Early in training every branch moves all tokens in one direction m̂: the stack learns what they have
in common. With r the branch's weight beside the stream, R = Σr over the sublayers, and the
stream :math:`x = a\hat m + z`, a norm on every sum divides z in each sublayer:

.. math:: \frac{da}{dR} = 1 - a^2, \quad \frac{dz}{dR} = -a z
          \quad\Rightarrow\quad z = \frac{z_0}{\cosh R};

without one the stream grows to :math:`R\hat m + z_0`, and the final norm alone divides it, by
:math:`\sqrt{1 + R^2}`. So does the gradient that reaches what lies below.

Source: derived here.
"""

from __future__ import annotations

import math

from deepnet_theory.spec.placement import Placement


def limit(placement: Placement, weight: float) -> float:
    """The share of an output of size 1 that is a token's own in a deep stack, at one R."""
    return 1 / (math.cosh(weight) if placement.normalises_sum else math.hypot(1, weight))


def divisor(placement: Placement) -> str:
    """What R divides a token's own part by in a deep stack, as a formula."""
    return "cosh(R)" if placement.normalises_sum else "sqrt(1 + R**2)"


C1 = math.sqrt(2 / math.pi)  # E|ξ| of a standard normal ξ


def carried(width: int, head_std: float) -> float:
    r"""The logits, in nats, that a wholly common stream draws from a head as it starts.

    .. math:: c_1\,d\,\sigma_H, \qquad \text{the head's multiplier in } \sigma_H

    The stack moves along the signs of :math:`W_H^\top u`, u the error of the token frequencies.
    """
    return C1 * width * head_std
