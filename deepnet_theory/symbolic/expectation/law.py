"""The law of one entry of a random tensor: its moments, and from them its cumulants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from math import comb

import sympy as sp

from deepnet_theory.spec.errors import InputError


class Law(ABC):
    """A real law with moments E xʳ; entries of one tensor are independent and share it."""

    @abstractmethod
    def moment(self, order: int) -> sp.Expr:
        """E xʳ for r = ``order`` ≥ 1."""

    def cumulant(self, order: int) -> sp.Expr:
        r"""The cumulant of the law.

        .. math:: \kappa_r = \mu_r - \sum_{s<r} \binom{r-1}{s-1} \kappa_s \mu_{r-s}
        """
        return _cumulant(self, order)


@cache
def _cumulant(law: Law, order: int) -> sp.Expr:
    rest = sum(
        comb(order - 1, s - 1) * law.cumulant(s) * law.moment(order - s) for s in range(1, order)
    )
    return sp.expand(law.moment(order) - rest)


@dataclass(frozen=True)
class Gaussian(Law):
    """Centred Gaussian of the given variance; only its second cumulant is not zero."""

    variance: sp.Expr

    def moment(self, order: int) -> sp.Expr:
        """(r−1)!! σʳ for even r, else 0."""
        return 0 if order % 2 else sp.factorial2(order - 1) * self.variance ** (order // 2)

    def cumulant(self, order: int) -> sp.Expr:
        """σ² for r = 2, else 0 (Isserlis, Wick)."""
        return self.variance if order == 2 else sp.S.Zero


@dataclass(frozen=True)
class Rademacher(Law):
    """±1 with probability ½ each: a vector of d such entries has norm exactly √d."""

    def moment(self, order: int) -> sp.Expr:
        """1 for even r, else 0."""
        return sp.Integer(1 - order % 2)


@dataclass(frozen=True)
class Bernoulli(Law):
    """1 with probability p, else 0."""

    p: sp.Expr

    def moment(self, order: int) -> sp.Expr:
        """``p`` for every r ≥ 1."""
        return self.p


@dataclass(frozen=True)
class White(Law):
    """Mean zero, the given variance, and nothing else known."""

    variance: sp.Expr

    def moment(self, order: int) -> sp.Expr:
        """0 and the variance; raises :class:`InputError` for every higher order."""
        if order > 2:
            raise InputError(
                f"the moment of order {order} was asked of a law of which only the mean "
                "and the variance are given; give a full law such as Gaussian"
            )
        return sp.S.Zero if order == 1 else self.variance


@dataclass(frozen=True)
class RectifiedGaussian(Law):
    """max(h, 0) of a centred Gaussian h of the given variance: a hidden unit after ReLU."""

    variance: sp.Expr

    def moment(self, order: int) -> sp.Expr:
        """E max(h, 0)ʳ = sʳ 2^{r/2 − 1} Γ((r + 1)/2)/√π; half the Gaussian moment for even r."""
        half = sp.Rational(order, 2)
        size = self.variance**half * 2 ** (half - 1)
        return size * sp.gamma(half + sp.Rational(1, 2)) / sp.sqrt(sp.pi)
