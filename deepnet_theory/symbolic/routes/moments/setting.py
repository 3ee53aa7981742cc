"""The setting of the layer cake's §5: tensors, ranges, variances, and the branch z = αx + G(x)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import DEPTHS as DEPTHS
from deepnet_theory.symbolic.algebra.monomial import S as S
from deepnet_theory.symbolic.algebra.monomial import alpha as alpha
from deepnet_theory.symbolic.algebra.monomial import beta as beta
from deepnet_theory.symbolic.algebra.monomial import eta as eta
from deepnet_theory.symbolic.expectation import (
    Bernoulli,
    Gaussian,
    Index,
    Known,
    Polynomial,
    Tensor,
    White,
)
from deepnet_theory.symbolic.expectation.model import NamedQuantity, norm_of

CAKE = "layer cake, §5.1"
CAKE_ATTENTION = "layer cake, §5.2"

v, w = sp.symbols("v w", positive=True)
d = sp.Symbol("d", positive=True)  # width of the stream
m = sp.Symbol("m", positive=True)  # inner width of the branch
n = sp.Symbol("n", positive=True)  # tokens

HALF = sp.Rational(1, 2)

i, j = Index("i", d), Index("j", d)
k, l = Index("k", m), Index("l", m)  # noqa: E741  the sources' own letter

norm_x = norm_of("x")
norm_average = norm_of("a")
norm_z = norm_of("z")
norm_dx = norm_of("dx", r"\Delta x")
norm_dx_next = norm_of("dx_next", r"\Delta x_{l+1}")
entry_dx = NamedQuantity("dx_i", r"\Delta x_i", real=True)
norm_dv = norm_of("dV", r"\Delta V")
norm_dw = norm_of("dW", r"\Delta W")
norm_xdw = norm_of("xdW", r"x\Delta W")
norm_dv_i = norm_of("dV_i", r"\Delta V_{\cdot i}")
norm_dtheta = norm_of("dtheta", r"\Delta\theta")

x = Tensor("x", (d,))  # an arbitrary fixed input
x_white = Tensor("x", (d,), White(sp.S.One))  # E x_i = 0, E x_i x_j = δ_ij
dx = Tensor("dx", (d,))
delta_v = Tensor("dV", (m, d))
delta_w = Tensor("dW", (d, m))
average = Tensor("a", (d,))  # what softmax makes of the tokens
mask = Tensor("R", (m,), Bernoulli(HALF))

KNOWN_X = Known.norm(norm_x, x)
KNOWN_AVERAGE = Known.norm(norm_average, average)
KNOWN_DX = Known.norm(norm_dx, dx)
KNOWN_DX_I = Known(entry_dx, dx[i])
KNOWN_DV = Known.norm(norm_dv, delta_v)
KNOWN_DV_I = Known(norm_dv_i, (delta_v[k, i] * delta_v[k, i]).sum(k), 2)
KNOWN_DW = Known.norm(norm_dw, delta_w)
KNOWN_XDW = Known(norm_xdw, (x[j] * delta_w[j, k] * x[i] * delta_w[i, k]).sum(i, j, k), 2)


@dataclass(frozen=True)
class Convention:
    """Variances of the entries of W (d×m) and V (m×d)."""

    name: str
    inner: sp.Expr
    outer: sp.Expr
    source: str


def source_convention(rectified: bool) -> Convention:
    """Fan-in variances; with a mask, twice as much for the matrix before it."""
    factor = 2 if rectified else 1
    return Convention("fan-in", factor * w**2 / d, v**2 / m, CAKE)


XAVIER = Convention(
    "Xavier", 2 * w**2 / (d + m), 2 * v**2 / (d + m), "DeepNet, arXiv 2203.00555, §3"
)


@dataclass(frozen=True)
class GaussianBranch:
    """z = αx + R(xW)V of one kind of sublayer; without a mask R = 1 (attention's xW_VW_O)."""

    name: str
    rectified: bool
    convention: Convention
    source: str

    @property
    def W(self) -> Tensor:
        """The first matrix."""
        return Tensor("W", (d, m), Gaussian(self.convention.inner))

    @property
    def V(self) -> Tensor:
        """The second matrix."""
        return Tensor("V", (m, d), Gaussian(self.convention.outer))

    @property
    def kept(self) -> sp.Expr:
        """The share of the hidden second moment that passes the mask."""
        return HALF if self.rectified else sp.S.One

    def z(self, source: Tensor = x) -> Polynomial:
        """The entry z_i."""
        summed: Polynomial = source[i] * alpha + self.added(source)
        return summed

    def added(self, source: Tensor = x) -> Polynomial:
        """The entry of the branch alone, G(x)_i."""
        hidden: Polynomial = source[j] * self.W[j, k] * self.V[k, i]
        if self.rectified:
            hidden = hidden * mask[k]
        return hidden.sum(j, k)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What its expectations rest on; the mask's independence is removed later."""
        second = "independent-mask" if self.rectified else "attention-keeps-magnitude"
        return ("fresh-weights", second)


Point = dict[sp.Expr, Any]
Entries = dict[Tensor, dict[tuple[int, ...], Fraction]]


def cases(name: str, tensors: Iterable[Tensor]) -> Iterator[tuple[Point, Entries]]:
    """The numbers of d, m and α, and random rational entries (of a mask 0 or 1), at two sizes."""
    generator = random.Random(name)

    def entry(tensor: Tensor) -> Fraction:
        if tensor is mask:
            return Fraction(generator.randint(0, 1))
        return Fraction(generator.randint(-9, 9), generator.randint(1, 5))

    kinds = tuple(tensors)
    for width, inner in ((2, 3), (3, 2)):
        point: Point = {d: width, m: inner, alpha: Fraction(7, 3)}
        places = {t: product(*(range(1, point[size] + 1) for size in t.axes)) for t in kinds}
        yield point, {t: {place: entry(t) for place in at} for t, at in places.items()}


def explicit(branch: GaussianBranch, point: Point, at: Entries, source: Tensor) -> list[Fraction]:
    """((xW)∘R)V, by matrix products of explicit entries."""
    width, inner = range(1, point[d] + 1), range(1, point[m] + 1)
    big_w, big_v = at[branch.W], at[branch.V]
    hidden = {b: sum((at[source][a,] * big_w[a, b] for a in width), Fraction(0)) for b in inner}
    kept = {b: h * at[mask][b,] if branch.rectified else h for b, h in hidden.items()}
    return [sum((kept[b] * big_v[b, a] for b in inner), Fraction(0)) for a in width]


def explicit_z(branch: GaussianBranch, point: Point, at: Entries) -> list[Fraction]:
    """αx + ((xW)∘R)V."""
    added = explicit(branch, point, at, x)
    return [point[alpha] * at[x][a,] + g for a, g in enumerate(added, 1)]


def given() -> tuple[sp.Symbol, ...]:
    """The symbols that stand at the beginning."""
    sizes = (norm_x, norm_average, entry_dx, norm_dx, norm_dv, norm_dw, norm_xdw, norm_dv_i)
    return (*DEPTHS.values(), S, alpha, beta, eta, v, w, d, m, n, *sizes)
