"""The lemma route's symbols, with their assumptions; α, β, η, N, M, S are everybody's."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.algebra.symbols import DEPTHS, M, N, S, alpha, beta, eta, part_symbol

__all__ = ["DEPTHS", "K", "M", "N", "S", "alpha", "beta", "eta", "gains", "part_symbol", "r", "x"]

v, w, x, r, c = sp.symbols("v w x r c", positive=True)
K = sp.Symbol("K", positive=True)  # number of Jacobians in a product
sigma = sp.Symbol("sigma", real=True)  # the source's random sign I = ±1
delta = sp.Symbol("delta", positive=True)  # ‖∂L/∂F‖, the loss's gradient at the output
kappa = sp.Symbol("kappa", positive=True)  # the exponent of r = S^(−κ)
rho = sp.Symbol("rho", positive=True)  # correlation of two tokens, at most 1
a = sp.Symbol("a", positive=True)  # magnitude of a softmax average, relative to a token's
ell = sp.Symbol("L_max", positive=True)  # the largest token norm
epsilon = sp.Symbol("epsilon", positive=True)  # a small change of the branch's output
s = sp.Symbol("s", positive=True)  # standard deviation of the residual stream
tokens, width = sp.symbols("n d", integer=True, positive=True)
i, j, k, l = sp.symbols("i j k l", integer=True, positive=True)  # noqa: E741

_GAINS = {1: ("w",), 2: ("v", "w"), 3: ("u", "v", "w")}


def gains(count: int, part: str = "", parts: int = 1) -> tuple[sp.Symbol, ...]:
    """The magnitudes of the ``count`` scaled matrices of a branch: v and w where there are two.

    In a stack of two parts they carry the part's initial, as ``v_e`` and ``w_d``.
    """
    names = _GAINS.get(count) or tuple(f"b_{index}" for index in range(1, count + 1))
    return tuple(part_symbol(name, part, parts) for name in names)
