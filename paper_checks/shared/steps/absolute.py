r"""The absolute size of ‖ΔF‖ from single layers: how their changes add, and what comes next.

A layer's change of the output is V, with :math:`B = E\|V\|^2` and :math:`A = E\langle V, V'\rangle`
for two independent layers: both are numbers of single layers, which the laboratory samples
(``laboratory/measuring/one_sublayer.py``). These steps say what L of them make of ‖ΔF‖.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import sympy as sp

from deepnet_theory.proof.algebra import i, j, r, vanishes
from deepnet_theory.proof.step import Check, Regime, Section, Step, equal_at_sizes

SECTION = Section("Absolute size")

L, K, m = sp.symbols("L K m", positive=True)  # layers; of another part; that a block stands for
A, B, C, n = sp.symbols("A B C n", positive=True)
g, c = sp.symbols("g c", positive=True)
f = sp.symbols("f_0:4", real=True)
SIZES = (1, 2, 3, 4)


def given() -> tuple[sp.Symbol, ...]:
    """What single layers have of their own: sizes, products, and how they respond to others."""
    return (L, K, m, A, B, C, n, g, c, *f, r)


def absolute_steps() -> tuple[Step, ...]:
    """From single layers to ‖ΔF‖: the sum, its two parts, and the correction in S·r²."""
    same = sp.Eq(i, j)
    square = L * B + L * (L - 1) * A
    added = SECTION.equal(
        "changes-add",
        sp.Sum(sp.Piecewise((B, same), (A, True)), (i, 1, L), (j, 1, L)),
        square,
        "E||dF||^2 sums <V_i, V_j> over all pairs of layers: near the identity each adds its own "
        "change, and every one sees almost the same input and backward signal",
        assumptions=("linear-step", "near-identity", "independent-signs"),
        checks=(
            equal_at_sizes(L, SIZES),
            Check("the mean over all outcomes of two-valued changes", _mean_of_outcomes),
        ),
    )
    parts = SECTION.equal(
        "aligned-and-random",
        square.xreplace({B: A + n**2}),
        L**2 * A + L * n**2,
        "B = A + n^2, n the size of what a layer's change has of its own: the common part adds as "
        "L, the other as sqrt(L)",
        uses=(added.name,),
    )
    leading = SECTION.asymptotic(
        "aligned-part-leads",
        sp.sqrt(L**2 * A + L * n**2),
        L * sp.sqrt(A),
        "the random part falls behind as 1/L of the square",
        uses=(parts.name,),
        regime=Regime(L, sp.oo, "single layers as they are"),
    )
    two = SECTION.equal(
        "parts-add",
        square + (K * B + K * (K - 1) * A) + 2 * sp.Sum(K * C, (i, 1, L)),
        (L + K) * (B - A) + (L**2 + K**2) * A + 2 * L * K * C,
        "two parts of a stack, L and K layers of the same A and B, and C = E<V, W> between them",
        uses=(added.name,),
        checks=(equal_at_sizes(L, SIZES),),
    )
    even = SECTION.equal(
        "odd-orders-vanish",
        sp.Sum(_response((-1) ** i * r), (i, 1, 2)) / 2,
        f[0] + f[2] * r**2,
        "how a layer's change responds to another branch of weight r: the sign of that branch's "
        "last matrix is as often the other one, so that no term of order r, and no S*r, is left",
        assumptions=("independent-signs",),
        checks=(
            Check("both signs, written out", lambda step: vanishes(step.lhs.doit() - step.rhs)),
        ),
    )
    between = SECTION.equal(
        "layers-between",
        2 / (L * (L - 1)) * sp.Sum(sp.Sum(j - i - 1, (j, i + 1, L)), (i, 1, L - 1)),
        (L - 2) / 3,
        "of the L - 2 other layers a third stands between two layers taken at random, on average, "
        "and so a third before and a third behind them",
        checks=(equal_at_sizes(L, (2, 3, 4, 5)),),
    )
    block = SECTION.equal(
        "block-size",
        sp.Sum(sp.Piecewise((g**2, same), (0, True)), (i, 1, m), (j, 1, m)),
        (sp.sqrt(m) * g) ** 2,
        "m independent branches of size g together are as large as one of size sqrt(m)*g",
        assumptions=("independent-signs",),
        checks=(
            equal_at_sizes(m, SIZES),
            Check("the mean over all signs of the branches", _mean_over_signs),
        ),
    )
    correction = SECTION.equal(
        "blocks-correct",
        sp.Sum(c * r**2, (i, 1, m)),
        c * (sp.sqrt(m) * r) ** 2,
        "to order S*r^2 each of the other layers corrects by c*r^2, c being that of its stretch, "
        "and a block of weight sqrt(m)*r by as much as the m layers that it stands for",
        uses=(even.name, between.name, block.name),
        assumptions=("near-identity",),
        checks=(equal_at_sizes(m, SIZES),),
    )
    return added, parts, leading, two, even, between, block, correction


def _response(weight: sp.Expr) -> sp.Expr:
    return sum(coefficient * weight**order for order, coefficient in enumerate(f))


def _mean_of_outcomes(step: Step) -> bool:
    """V takes two values alike often: E‖ΣV‖² over all outcomes of one, two and three layers."""
    x, y = (sp.Matrix(sp.symbols(f"{name}_1 {name}_2", real=True)) for name in "xy")
    own = (x.dot(x) + y.dot(y)) / 2
    common = ((x + y) / 2).dot((x + y) / 2)
    for layers in SIZES[:3]:
        mean = _mean([_square(v) for v in product((x, y), repeat=layers)])
        if not vanishes(step.rhs.xreplace({L: sp.Integer(layers), A: common, B: own}) - mean):
            return False
    return True


def _mean_over_signs(step: Step) -> bool:
    """±g alike often, for one to four branches."""
    for count in SIZES:
        signs = product((g, -g), repeat=count)
        mean = _mean([sp.Add(*sign) ** 2 for sign in signs])
        if not vanishes(step.rhs.xreplace({m: sp.Integer(count)}) - mean):
            return False
    return True


def _square(vectors: Sequence[sp.Matrix]) -> sp.Expr:
    total = sum(vectors, sp.zeros(2, 1))
    return total.dot(total)


def _mean(values: Sequence[sp.Expr]) -> sp.Expr:
    return sp.Add(*values) / len(values)
