"""Exact second moments of a sublayer's entries: every index range written out, at small sizes.

A contraction over two index ranges, times powers of d and m, is a polynomial of degree two at most
in each of them, so a formula that is right at :data:`SIZES` is right at every size.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from paper_checks.shared.later import Expr, sp

SIZES = tuple(product((1, 2, 3), repeat=2))  # d and m


def entries(name: str, rows: int, columns: int) -> Expr:
    """A matrix of symbols."""
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}_{i}{j}", real=True))


def squared(matrix: Expr) -> Expr:
    """The sum of the squares of a matrix's entries."""
    return sp.Add(*(e**2 for e in matrix))


def drawn(matrix: Expr, variance: Expr | int) -> dict[Expr, Expr]:
    """The variance of every entry of a matrix."""
    return dict.fromkeys(matrix, sp.sympify(variance))


def free(*matrices: Expr) -> dict[Expr, Expr]:
    """Entries of any variances, independent and centred: the mean of e² is written e²."""
    return {entry: entry**2 for matrix in matrices for entry in matrix}


def expect(
    polynomial: Expr,
    variances: Mapping[Expr, Expr],
    masks: Mapping[Expr, Expr] | None = None,
) -> Expr:
    """The mean of a polynomial over independent centred Gaussian entries of these variances.

    ``masks`` are ReLU's R_k = 1{xW_k > 0} with their columns W_k: W_k → −W_k exchanges R_k for
    1 − R_k and keeps even moments, so R_k halves what is even in its column. Raises ``ValueError``
    where a term that stays has R_k and is odd in the column: no coin stands for R_k there.
    """
    masks = masks or {}
    ring = sp.polys.rings.ring(sorted(polynomial.free_symbols, key=str), sp.QQ)[0]
    mean = sp.Integer(0)
    for powers, coefficient in ring.from_expr(polynomial).terms():
        term = {s: power for s, power in zip(ring.symbols, powers, strict=True) if power}
        met = {mask: column for mask, column in masks.items() if term.pop(mask, 0)}
        inside = {entry for column in met.values() for entry in column}
        if any(power % 2 and s in variances and s not in inside for s, power in term.items()):
            continue
        if any(sum(term.get(entry, 0) for entry in column) % 2 for column in met.values()):
            raise ValueError("a mask meets an odd power of its column")
        factors = (moment(p, variances[s]) if s in variances else s**p for s, p in term.items())
        mean += sp.sympify(coefficient) / 2 ** len(met) * sp.Mul(*factors)
    return sp.expand(mean)


def moment(power: int, variance: Expr | int = 1) -> Expr:
    """E t^power of a centred Gaussian t: (power − 1)!! times a power of its variance."""
    return 0 if power % 2 else sp.factorial2(power - 1) * variance ** (power // 2)


class FeedForward:
    """W (d × m) of variance 2w²/d, V (m × d) of v²/m, and ReLU's mask R of a token x."""

    def __init__(self, d: int, m: int) -> None:
        self.v, self.w = sp.symbols("v w", positive=True)
        self.x, self.W, self.V = entries("x", 1, d), entries("W", d, m), entries("V", m, d)
        self.dW, self.dV = entries("D", d, m), entries("E", m, d)
        self.R = sp.Matrix(1, m, sp.symbols(f"R_:{m}"))
        self.variances = drawn(self.W, 2 * self.w**2 / d) | drawn(self.V, self.v**2 / m)
        self.masks = {R: self.W.col(k) for k, R in enumerate(self.R)}

    def hidden(self, inputs: Expr, matrix: Expr | None = None) -> Expr:
        """R ⊙ (inputs W), or with another matrix in W's place."""
        return (inputs * (matrix or self.W)).multiply_elementwise(self.R)

    def mean(self, polynomial: Expr, more: Mapping[Expr, Expr] | None = None) -> Expr:
        """The mean over W, V, the true mask, and entries of ``more`` variances."""
        return expect(polynomial, self.variances | dict(more or {}), self.masks)


class LinearAttention:
    """W_V and W_O (d × d) of variances v²/d and w²/d: the heads' W_V side by side are one."""

    def __init__(self, d: int) -> None:
        self.v, self.w = sp.symbols("v w", positive=True)
        self.x, self.V, self.W = entries("x", 1, d), entries("V", d, d), entries("W", d, d)
        self.dV, self.dW = entries("D", d, d), entries("E", d, d)
        self.variances = drawn(self.V, self.v**2 / d) | drawn(self.W, self.w**2 / d)

    def parameter_term(self) -> Expr:
        """E‖xΔW_V W_O + xW_V ΔW_O‖² of independent centred ΔW_V, ΔW_O, where E x_j² = 1."""
        change = self.x * self.dV * self.W + self.x * self.V * self.dW
        spread = free(self.dV, self.dW) | drawn(self.x, 1)
        return expect(squared(change), self.variances | spread)
