"""Formulas as LaTeX; those of a rule as they are written, not as SymPy sorts them."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp
from sympy.printing.latex import latex

from deepnet_theory.report.document import Formula, Knob, Step
from deepnet_theory.spec.expression import DEPTH, UPDATE, Grammar, fold
from deepnet_theory.spec.placement import PLACEMENT

# the sign between the sides, and the function around the right one
_RELATION = {
    "EQUAL": ("=", ""),
    "ASYMPTOTIC": (r"\sim", ""),
    "AT_MOST": (r"\le", ""),
    "ORDER": ("=", r"\Theta"),
    "BOUND": ("=", "O"),
}
_FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}
# all that a selection or a rule writes as a formula
_WRITTEN = Grammar(
    "a formula",
    (*DEPTH.symbols, *UPDATE.symbols, *PLACEMENT.symbols),
    UPDATE.functions | PLACEMENT.functions,
)


class _AsWritten:
    """SymPy without evaluation: (2N)^(1/4) is shown so, not as a product of roots."""

    def number(self, value: Fraction) -> sp.Expr:
        return sp.Rational(value.numerator, value.denominator)

    def name(self, name: str) -> sp.Expr:
        return sp.Symbol(name, positive=True)

    def add(self, left: sp.Expr, right: sp.Expr) -> sp.Expr:
        return sp.Add(left, right, evaluate=False)

    def subtract(self, left: sp.Expr, right: sp.Expr) -> sp.Expr:
        return sp.Add(left, sp.Mul(-1, right, evaluate=False), evaluate=False)

    def multiply(self, left: sp.Expr, right: sp.Expr) -> sp.Expr:
        # one flat product: printers would reorder a nested one
        factors = left.args if left.is_Mul else (left,)
        return sp.Mul(*factors, right, evaluate=False)

    def divide(self, left: sp.Expr, right: sp.Expr) -> sp.Expr:
        inverse = sp.Pow(right, -1, evaluate=False)
        return inverse if left == 1 else self.multiply(left, inverse)

    def power(self, base: sp.Expr, exponent: Fraction) -> sp.Expr:
        return sp.Pow(base, self.number(exponent), evaluate=False)

    def call(self, function: str, arguments: tuple[sp.Expr, ...]) -> sp.Expr:
        known = _FUNCTIONS.get(function, sp.Function(function))
        return known(*arguments, evaluate=function != "abs")  # |g| of a positive g too


def as_written(formula: str) -> sp.Expr:
    """A typed formula as an unevaluated SymPy expression, for printing only."""
    return fold(_WRITTEN.parse(formula).root, _AsWritten())


def formula_latex(formula: str) -> str:
    """A typed formula as LaTeX."""
    shown, sign = as_written(formula), ""
    if shown.is_Mul and shown.args[0] == -1:  # which SymPy would put into a numerator
        shown, sign = sp.Mul(*shown.args[1:], evaluate=False), "- "
    return sign + str(latex(shown, root_notation=False, fold_frac_powers=True))


def inline_latex(formula: Formula) -> str:
    """A formula among words as LaTeX."""
    shown = formula.expression
    return formula_latex(shown) if isinstance(shown, str) else str(latex(shown))


def equation_latex(step: Step) -> str:
    """``lhs relation rhs`` as LaTeX."""
    sign, function = _RELATION[step.relation]
    right = str(latex(step.rhs))
    right = rf"{function}\left({right}\right)" if function else right
    return f"{latex(step.lhs)} {sign} {right}"


def knob_latex(knob: Knob, aligned: str = " ") -> str:
    """``symbol = formula = value`` as LaTeX."""
    sign = r"\propto" if knob.symbol == "eta" else "="
    value = f" = {knob.value}" if knob.value else ""
    return rf"\{knob.symbol}{aligned}{sign} {inline_latex(knob.formula)}{value}"
