"""The size in depth and layer index of what a scheme writes, and of scalars made of it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.scheme import INDEXED
from deepnet_theory.symbolic.algebra.depth import in_sympy
from deepnet_theory.symbolic.algebra.symbols import DEPTHS
from deepnet_theory.symbolic.schemes.power import Power

index = sp.Symbol("l", positive=True)  # the layer's, a real number here: limits are taken in it


@cache
def indexed(text: str) -> Any:
    """The SymPy form of a scheme's text, in N, M and l."""
    return in_sympy(INDEXED.parse(text), {**DEPTHS, "l": index})


@cache
def size_of(expression: Any, depth: str) -> Power | None:
    """The size of a positive expression in N, M and l as one depth grows; None where it is 0.

    Raises :class:`Refusal` where leading terms cancel.
    """
    return _Size(DEPTHS[depth]).of(sp.sympify(expression))


class _Size:
    def __init__(self, depth: sp.Symbol) -> None:
        self.sizes: Mapping[sp.Symbol, Power] = {
            **{symbol: Power.of() for symbol in DEPTHS.values()},
            depth: Power.of(depth=1),
            index: Power.of(index=1),
        }

    def of(self, e: Any) -> Power | None:
        if e == 0:
            return None
        if e.is_Symbol:
            return self.sizes[e]
        if e.is_number or isinstance(e, sp.log):  # a logarithm is slower than every power
            return Power.of()
        if e.is_Mul:
            return self._product(e)
        if e.is_Pow:
            base = self.of(e.base)
            return None if base is None else base.to(Fraction(int(e.exp.p), int(e.exp.q)))
        if e.is_Add:
            return self._sum(e)
        arguments = [size for a in e.args if (size := self.of(a)) is not None]
        if isinstance(e, sp.Min):
            return self._fold(arguments, Power.smaller)
        return self._fold(arguments, Power.plus)  # Max, Abs

    def _product(self, e: Any) -> Power | None:
        size = Power.of()
        for factor in e.args:
            one = self.of(factor)
            if one is None:
                return None
            size = size.times(one)
        return size

    def _sum(self, e: Any) -> Power:
        terms = []
        for term in e.args:
            number = term.as_coeff_Mul()[0]
            size = self.of(term)
            assert size is not None  # SymPy leaves no zero in a sum
            terms.append((size, -1 if number < 0 else 1))
        total = self._fold([size for size, _ in terms], Power.plus)
        for (a, _), (b, _) in zip(total.nodes, total.nodes[1:], strict=False):
            t = (a + b) / 2
            if len({sign for size, sign in terms if size.at(t) == total.at(t)}) > 1:
                raise Refusal(f"the leading terms of {e} cancel, and its size is not seen")
        return total

    @staticmethod
    def _fold(sizes: list[Power], join: Any) -> Power:
        first, *others = sizes
        for other in others:
            first = join(first, other)
        return first
