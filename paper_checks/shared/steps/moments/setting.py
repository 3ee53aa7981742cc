"""The source's branch by index sums: tensors, what is known of them, and z = αx + R(xW)V."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from deepnet_theory.proof.algebra import alpha, v, w
from paper_checks.shared.expectation import (
    Bernoulli,
    Gaussian,
    Index,
    Known,
    Polynomial,
    Tensor,
    White,
    norm_of,
)

d, m = sp.symbols("d m", positive=True)  # width of the stream, inner width of the branch
norm_x, norm_dx = norm_of("x"), norm_of("dx", r"\Delta x")
norm_dv, norm_dw = norm_of("dV", r"\Delta V"), norm_of("dW", r"\Delta W")

CAKE, CAKE_ATTENTION = "layer cake, §5.1", "layer cake, §5.2"
HALF = sp.Rational(1, 2)
i, j, k, l = Index("i", d), Index("j", d), Index("k", m), Index("l", m)  # noqa: E741
norm_xdw = norm_of("xdW", r"x\Delta W")

x, dx = Tensor("x", (d,)), Tensor("dx", (d,))
x_white = Tensor("x", (d,), White(sp.S.One))  # E x_i = 0, E x_i x_j = δ_ij
delta_v, delta_w = Tensor("dV", (m, d)), Tensor("dW", (d, m))
mask = Tensor("R", (m,), Bernoulli(HALF))

KNOWN_X = Known.norm(norm_x, x)
KNOWN_DX = Known.norm(norm_dx, dx)
KNOWN_DV, KNOWN_DW = Known.norm(norm_dv, delta_v), Known.norm(norm_dw, delta_w)
KNOWN_XDW = Known(norm_xdw, (x[j] * delta_w[j, k] * x[i] * delta_w[i, k]).sum(i, j, k), 2)

# premises that these steps alone name, beside those of ``deepnet_theory.definitions.assumption``
PREMISES = {
    "independent-mask": "which hidden units are active is a fair coin for each unit, independent "
    "of the weights (exact for the moments of z and of what Δx and ΔW change; not for ΔV, where "
    "the mean of the hidden units adds what the rows of ΔV have in common)",
    "independent-signal": "the back-propagated signals of different tokens are independent, "
    "centred and independent of the inputs they are paired with in the gradient",
    "norm-concentrates": "‖z‖ is near the root of E‖z‖², and the mean of z over its entries is "
    "negligible",
    "white-input": "the entries of a sublayer's input have mean 0 and second moment 1 and are "
    "uncorrelated",
    "wide-hidden-layer": "the branch's inner width is at least the model's: m ≥ d",
}

_CHANGE = r"\tfrac{\partial z}{\partial V}\Delta V+\tfrac{\partial z}{\partial W}\Delta W"
PARAMETER_TERM = ("||dz/dV dV + dz/dW dW||^2", rf"\|{_CHANGE}\|^2")


@dataclass(frozen=True)
class GaussianBranch:
    """G(y) = R(yW)V, variances of the entries of W (d×m) and V (m×d) given; attention has R = 1."""

    name: str
    rectified: bool
    inner: sp.Expr
    outer: sp.Expr
    source: str

    @property
    def W(self) -> Tensor:
        """The first matrix."""
        return Tensor("W", (d, m), Gaussian(self.inner))

    @property
    def V(self) -> Tensor:
        """The second matrix."""
        return Tensor("V", (m, d), Gaussian(self.outer))

    @property
    def kept(self) -> sp.Expr:
        """The share of the hidden second moment that passes the mask."""
        return HALF if self.rectified else sp.S.One

    def added(self, read: Tensor = x) -> Polynomial:
        """The entry G(y)_i."""
        hidden: Polynomial = read[j] * self.W[j, k] * self.V[k, i]
        return (hidden * mask[k] if self.rectified else hidden).sum(j, k)

    def z(self, read: Tensor = x) -> Polynomial:
        """The entry of the source's z = αx + G(x)."""
        summed: Polynomial = read[i] * alpha + self.added(read)
        return summed

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What its expectations rest on."""
        second = "independent-mask" if self.rectified else "attention-keeps-magnitude"
        return ("fresh-weights", second)


# Fan-in variances; with a mask, twice as much for the matrix before it.
BRANCHES = {
    "ffn": GaussianBranch("ffn", True, 2 * w**2 / d, v**2 / m, CAKE),
    "attention": GaussianBranch("attention", False, w**2 / d, v**2 / m, CAKE_ATTENTION),
}


def parameter_change(branch: GaussianBranch, read: Tensor) -> Polynomial:
    """(∂z/∂V ΔV + ∂z/∂W ΔW)_i."""
    z = branch.z(read)
    return z.along(branch.V, delta_v) + z.along(branch.W, delta_w)
