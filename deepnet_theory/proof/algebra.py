"""What the proof computes with: the papers' symbols, positive monomials, and maps of matrices.

Matrices are non-commutative symbols, rows are tokens. Positive scalars are pulled out of a
map by its degree of homogeneity, so that differentiating in a scalar needs no chain rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.polys.fields import FracField
from sympy.polys.orderings import lex
from sympy.printing.printer import Printer

from deepnet_theory.definitions.expression import DEPTH, Algebra, Expression, Power, fold
from deepnet_theory.sizes.monomial import ONE, Monomial

N, M = sp.symbols("N M", positive=True)
DEPTHS = {"N": N, "M": M}
alpha, beta, eta = sp.symbols("alpha beta eta", positive=True)
S = sp.Symbol("S", positive=True)  # residual sublayers of one part
v, w = sp.symbols("v w", positive=True)  # the magnitudes of a branch's two scaled matrices
r = sp.Symbol("r", positive=True)  # the branch's weight against the identity path
i, l = sp.symbols("i l", integer=True, positive=True)  # noqa: E741  counters


def norm_of(name: str) -> sp.Symbol:
    """The norm of the named vector or matrix."""
    return sp.Symbol(f"norm_{name}", positive=True)


def output_change(of: str = "") -> sp.Symbol:
    """‖ΔF‖, the change of the stack's output by an update; of a sublayer or an order its share."""
    return norm_of(f"ΔF_{of}" if of else "ΔF")


def gains(count: int) -> tuple[sp.Symbol, ...]:
    """The magnitudes of the ``count`` scaled matrices of a branch: v and w where there are two."""
    if count <= 2:
        return (v, w)[2 - count :]
    return tuple(sp.Symbol(f"b_{index}", positive=True) for index in range(1, count + 1))


# ---- Positive monomials: the algebra of sizes, and a readable form ----


def sized(expression: sp.Expr) -> Monomial:
    """A positive monomial in the algebra of sizes.

    Raises ``ValueError`` where ``expression`` is a sum, negative, or has another power.
    """
    node = sp.sympify(expression)
    if node.is_Symbol:
        return Monomial.of(node.name)
    if node.is_Rational:
        return Monomial.number(Fraction(node.p, node.q))
    if node.is_Mul:
        return math.prod(map(sized, node.args), start=ONE)
    if node.is_Pow and node.exp.is_Rational:
        return sized(node.base) ** Fraction(node.exp.p, node.exp.q)
    raise ValueError(f"{node} is not a positive monomial")


def in_symbols(size: Monomial) -> sp.Expr:
    """A monomial of the algebra of sizes as SymPy has it."""
    bases = (sp.Integer(b) if b.isdigit() else sp.Symbol(b, positive=True) for b, _ in size.items)
    powers = zip(bases, (rational(power) for _, power in size.items), strict=True)
    return sp.Mul(*(base**power for base, power in powers))


def simplified(expression: sp.Expr) -> sp.Expr:
    """A monomial with its powers gathered; anything else with nested powers undone."""
    try:
        return in_symbols(sized(expression))
    except ValueError:
        return sp.powdenest(expression, force=True)


def present(expression: sp.Expr) -> sp.Expr:
    """The same monomial in the depths as texts are written: one outer root, ``(2*N)**(1/4)``."""
    return rooted(str(sized(expression)))


# ---- Formulas of the grammar as SymPy expressions; those in N and M among them ----

Functions = Mapping[str, Callable[..., sp.Expr]]
FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}


def rational(value: Fraction) -> sp.Rational:
    return sp.Rational(value.numerator, value.denominator)


def in_sympy(
    expression: Expression, names: Mapping[str, sp.Expr], functions: Functions = FUNCTIONS
) -> sp.Expr:
    """A formula with its names and functions read as given, its numbers exact."""

    def power(base: sp.Expr, exponent: Fraction) -> sp.Expr:
        if not base.is_commutative and exponent == 2:  # of every entry
            return functions["hadamard"](base, base)
        return base ** rational(exponent)

    return fold(expression.root, Algebra(names, functions, number=rational, power=power))


def rooted(text: str) -> sp.Expr:
    """A formula in the depths, its outer root as it is typed."""
    expression = DEPTH.parse(text)
    if not isinstance(root := expression.root, Power):
        return in_sympy(expression, DEPTHS)
    base = in_sympy(replace(expression, root=root.base), DEPTHS)
    return sp.Pow(base, rational(root.exponent), evaluate=False)


# ---- Whether an expression is zero ----


def vanishes(expression: sp.Expr) -> bool:
    """Whether an expression is zero by expanding its numerator; False where that is not seen."""
    atoms = expression.free_symbols | expression.atoms(AppliedUndef)
    field = FracField(sorted(atoms, key=str) or [sp.Symbol("_")], sp.QQ, lex)
    try:
        return not field.from_expr(expression)
    except ZeroDivisionError:
        return False
    except (ValueError, TypeError):  # no quotient of polynomials
        return bool(sp.expand(sp.numer(sp.together(expression))) == 0)


# ---- Maps of matrices: they know their degree, and their directional differential ----


def split(expression: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """An expression as (commutative scalar, the rest)."""
    if not expression.is_Mul:
        one = sp.Integer(1)
        return (expression, one) if expression.is_commutative else (one, expression)
    scalars, matrices = expression.args_cnc()
    return sp.Mul(*scalars), sp.Mul(*matrices)


def coefficient(expression: sp.Expr) -> sp.Expr:
    """The scalar in front of a matrix expression; of a sum, the scalar all terms share.

    Raises ``ValueError`` where the terms have different scalars.
    """
    if expression == 0:
        return sp.Integer(0)
    scalars = {split(term)[0] for term in sp.Add.make_args(sp.expand_mul(expression))}
    if len(scalars) != 1:
        raise ValueError(f"the terms of {expression} have different scalars")
    return scalars.pop()


class Printed(sp.Function):  # type: ignore[misc]
    """A node with a template of its arguments for its text, and one for its LaTeX."""

    is_commutative = False
    shown: ClassVar[tuple[str, str]]

    def _sympystr(self, printer: Printer) -> str:
        return self.shown[0].format(*map(printer._print, self.args))

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        text = self.shown[1].format(*map(printer._print, self.args))
        return text if exp is None else f"{text}^{{{exp}}}"


class MatrixMap(Printed):
    """A map of matrices; ``degree`` is its degree of homogeneity, None if it has none."""

    degree: ClassVar[int | None] = None
    linear: ClassVar[bool] = False

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr:
        """Pull positive scalars out; linear maps distribute over sums."""
        if argument.is_zero and (cls.linear or cls.degree == 1):
            return sp.Integer(0)
        if cls.linear and argument.is_Add:
            return sp.Add(*(cls(term) for term in argument.args))
        if cls.degree is None:
            return None
        scalar, rest = split(argument)
        if scalar != 1 and (scalar.is_positive or cls.linear):
            return scalar**cls.degree * cls(rest)
        return None


class Activation(MatrixMap):
    """φ, positively homogeneous of degree 1 (ReLU exactly; GELU and SiLU approximately)."""

    degree = 1
    shown = "phi({0})", r"\phi\left({0}\right)"


class Softmax(MatrixMap):
    """Softmax over the last axis: not homogeneous, its differential is bounded."""

    shown = "softmax({0})", r"\mathrm{{softmax}}\left({0}\right)"


class Normalise(MatrixMap):
    """LN or RMSNorm without gain and bias: homogeneous of degree 0."""

    degree = 0
    shown = "norm({0})", r"\mathrm{{LN}}\left({0}\right)"


class BranchMap(MatrixMap):
    """The residual branch with its gains taken out, an unspecified map of order one."""

    shown = "B({0})", r"B\left({0}\right)"


class Transpose(MatrixMap):
    """Aᵀ: linear, and reverses products."""

    degree, linear = 1, True
    shown = "{0}.T", r"{0}^{{\top}}"

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr:
        """Pull scalars out, distribute over sums, reverse products, undo itself."""
        if isinstance(argument, Transpose):
            return argument.args[0]
        scalar, rest = split(argument)
        if rest.is_Mul:
            return scalar * sp.Mul(*(cls(factor) for factor in reversed(rest.args)))
        return super().eval(argument)


class Hadamard(Printed):
    """The entrywise product, linear in either factor."""

    shown = "hadamard({0}, {1})", r"\left({0} \odot {1}\right)"

    @classmethod
    def eval(cls, left: sp.Expr, right: sp.Expr) -> sp.Expr:
        """Pull scalars out of both factors."""
        (a, one), (b, other) = split(left), split(right)
        if a * b != 1:
            return a * b * cls(one, other) if a * b != 0 else sp.Integer(0)
        return None
