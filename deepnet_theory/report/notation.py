"""Depth formulas of a rule in mathematical notation, as they are written."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp
from sympy.printing.latex import latex
from sympy.printing.mathml import MathMLPresentationPrinter
from sympy.printing.precedence import PRECEDENCE

from deepnet_theory.spec.expression import DEPTH, fold

RELATION_LATEX = {
    "EQUAL": "=",
    "ASYMPTOTIC": r"\sim",
    "AT_MOST": r"\le",
    "ORDER": r"= \Theta",
    "BOUND": "= O",
}
RELATION_MATHML = {
    "EQUAL": "<mo>=</mo>",
    "ASYMPTOTIC": "<mo>∼</mo>",
    "AT_MOST": "<mo>≤</mo>",
    "ORDER": "<mo>=</mo><mi>Θ</mi>",
    "BOUND": "<mo>=</mo><mi>O</mi>",
}


_FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}


class _AsWritten:
    """SymPy without evaluation: (2N)^(1/4) is shown so, not as a product of roots."""

    def number(self, value: Fraction) -> Any:
        return sp.Rational(value.numerator, value.denominator)

    def name(self, name: str) -> Any:
        return sp.Symbol(name, positive=True)

    def add(self, left: Any, right: Any) -> Any:
        return sp.Add(left, right, evaluate=False)

    def subtract(self, left: Any, right: Any) -> Any:
        return sp.Add(left, sp.Mul(-1, right, evaluate=False), evaluate=False)

    def multiply(self, left: Any, right: Any) -> Any:
        # one flat product: printers would reorder a nested one
        factors = left.args if left.is_Mul else (left,)
        return sp.Mul(*factors, right, evaluate=False)

    def divide(self, left: Any, right: Any) -> Any:
        inverse = sp.Pow(right, -1, evaluate=False)
        return inverse if left == 1 else sp.Mul(left, inverse, evaluate=False)

    def power(self, base: Any, exponent: Fraction) -> Any:
        return sp.Pow(base, self.number(exponent), evaluate=False)

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return _FUNCTIONS[function](*arguments)


def as_written(formula: str) -> Any:
    """A formula in N and M as an unevaluated SymPy expression, for printing only."""
    return fold(DEPTH.parse(formula).root, _AsWritten())


def formula_latex(formula: str) -> str:
    """A formula in N and M as LaTeX."""
    return str(latex(as_written(formula), root_notation=False, fold_frac_powers=True))


def formula_mathml(formula: str) -> str:
    """A formula in N and M as presentation MathML."""
    return expression_mathml(as_written(formula), root_notation=False)


def expression_latex(expression: Any) -> str:
    """An expression as LaTeX."""
    return str(latex(expression))


def expression_mathml(expression: Any, **settings: Any) -> str:
    """An expression as presentation MathML, without the enclosing ``<math>``."""
    return str(_Presentation(settings).doprint(expression))


class _Presentation(MathMLPresentationPrinter):  # type: ignore[misc]
    """SymPy's printer, with 1/4 in an exponent on one line where roots are not asked for, and
    with the parentheses that it omits around a differentiated sum.
    """

    def _print_Pow(self, expression: Any) -> Any:
        exponent = expression.exp
        if self._settings["root_notation"] or not exponent.is_Rational or exponent.is_Integer:
            return super()._print_Pow(expression)
        power = self.dom.createElement("msup")
        power.appendChild(self.parenthesize(expression.base, PRECEDENCE["Pow"]))
        row = self.dom.createElement("mrow")
        signs = [("mo", "−")] if exponent.is_negative else []
        for tag, word in (*signs, ("mn", abs(exponent.p)), ("mo", "/"), ("mn", exponent.q)):
            piece = self.dom.createElement(tag)
            piece.appendChild(self.dom.createTextNode(str(word)))
            row.appendChild(piece)
        power.appendChild(row)
        return power

    def _print_Derivative(self, expression: Any) -> Any:
        row = super()._print_Derivative(expression)
        if not expression.expr.is_Add:
            return row
        body = row.lastChild
        enclosed = self.dom.createElement("mrow")
        for piece in ("(", body, ")"):
            if isinstance(piece, str):
                mark = self.dom.createElement("mo")
                mark.appendChild(self.dom.createTextNode(piece))
                enclosed.appendChild(mark)
            else:
                enclosed.appendChild(piece)
        row.appendChild(enclosed)
        return row


def math(content: str) -> str:
    """MathML content as an element that a browser shows, at the size of a display."""
    return f'<math displaystyle="true"><mrow>{content}</mrow></math>'
