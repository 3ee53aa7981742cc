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
from collections.abc import Iterator
from dataclasses import dataclass

from deepnet_theory.spec.expression import OperatorAlgebra, fold
from deepnet_theory.spec.placement import Placement


@dataclass(frozen=True)
class Parts:
    """A value of the residual equation: what is common to all tokens, and what is a token's own.

    A number has no parts.
    """

    common: float
    own: float = 0.0
    is_number: bool = False

    @property
    def size(self) -> float:
        return math.hypot(self.common, self.own)

    def __add__(self, other: Parts) -> Parts:
        both = self.is_number and other.is_number
        return Parts(self.common + other.common, self.own + other.own, both)

    def __sub__(self, other: Parts) -> Parts:
        return self + other * Parts(-1.0, is_number=True)

    def __mul__(self, other: Parts) -> Parts:
        value, by = (self, other) if other.is_number else (other, self)
        return Parts(value.common * by.common, value.own * by.common, value.is_number)

    def __truediv__(self, other: Parts) -> Parts:
        return self * Parts(1 / other.common, is_number=True)


class _Equation(OperatorAlgebra[Parts]):
    """A residual equation at numbers, its branch the same for every token."""

    def __init__(self, x: Parts, alpha: float, branch: float) -> None:
        self.names = {"x": x, "alpha": Parts(alpha, is_number=True)}
        self.moved = Parts(branch)

    def number(self, value: object) -> Parts:
        return Parts(float(value), is_number=True)  # type: ignore[arg-type]

    def name(self, name: str) -> Parts:
        return self.names[name]

    def power(self, base: Parts, exponent: object) -> Parts:
        return Parts(base.common ** float(exponent), is_number=True)  # type: ignore[arg-type]

    def call(self, function: str, arguments: tuple[Parts, ...]) -> Parts:
        (of,) = arguments
        if function == "branch" or of is self.moved:  # its weight is that behind its own norm
            return self.moved
        return of / Parts(of.size, is_number=True)


def streams(
    placement: Placement, sublayers: int, weight: float, alpha: float = 1.0
) -> Iterator[Parts]:
    """The stream behind every sublayer, R = ``weight`` in all, from a stream of own parts alone.

    R counts branches behind their own norm where they have one, which bounds it by S/α.
    """
    multiplied, of_branch = placement.coefficients(alpha)
    branch = weight / sublayers * multiplied / of_branch
    x = Parts(0.0, 1.0)
    for _ in range(sublayers):
        x = fold(placement.expression.root, _Equation(x, alpha, branch))
        yield x


def own_part(placement: Placement, sublayers: int, weight: float, alpha: float = 1.0) -> float:
    """The share of an output of size 1 that is a token's own after ``sublayers`` of them."""
    *_, last = streams(placement, sublayers, weight, alpha)
    return abs(last.own) / last.size


def limit(placement: Placement, weight: float) -> float:
    """The same in a stack of many sublayers, at one R."""
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
