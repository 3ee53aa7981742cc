"""The symbols of the papers, once, with their assumptions."""

from __future__ import annotations

import sympy as sp

N, M = sp.symbols("N M", positive=True)
DEPTHS = {"N": N, "M": M}
alpha, beta, eta = sp.symbols("alpha beta eta", positive=True)
S = sp.Symbol("S", positive=True)  # residual sublayers of one part


def part_symbol(name: str, part: str, parts: int, sublayer: str = "*") -> sp.Symbol:
    """``alpha`` of a stack with one part, ``alpha_e`` or ``alpha_d`` of one with two.

    Where the kinds of sublayers take their own, the kind is appended.
    """
    suffix = "" if parts == 1 else f"_{part[0]}"
    kind = "" if sublayer == "*" else "_" + sublayer.replace("-", "")
    return sp.Symbol(f"{name}{suffix}{kind}", positive=True)


v, w = sp.symbols("v w", positive=True)  # the magnitudes of a branch's two scaled matrices
r = sp.Symbol("r", positive=True)  # the branch's weight against the identity path
i, j, k, l = sp.symbols("i j k l", integer=True, positive=True)  # noqa: E741  counters

_GAINS = {1: (w,), 2: (v, w)}


def gains(count: int) -> tuple[sp.Symbol, ...]:
    """The magnitudes of the ``count`` scaled matrices of a branch: v and w where there are two."""
    return _GAINS.get(count) or tuple(
        sp.Symbol(f"b_{index}", positive=True) for index in range(1, count + 1)
    )
