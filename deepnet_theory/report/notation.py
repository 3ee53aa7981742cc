"""Depth formulas of a rule in mathematical notation, as they are written."""

from __future__ import annotations

import re
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
    printed = str(_Presentation(settings).doprint(expression)).replace("<mo>-</mo>", "<mo>−</mo>")
    # a bracket inside a name, as in "norm(", would not grow with what it encloses
    return re.sub(r"<mi>(\w+|\))([(\[])</mi>", _apart, printed)


def terms_mathml(expression: Any) -> list[str]:
    """A sum's terms, each with the sign before it, so that a line may be broken between them."""
    pieces: list[str] = []
    for term in _Presentation({})._as_ordered_terms(expression):
        printed = expression_mathml(term)
        negative = term.could_extract_minus_sign()
        pieces.append(printed if negative or not pieces else f"<mo>+</mo>{printed}")
    return pieces


def _apart(found: re.Match[str]) -> str:
    tag = "mo" if found[1] == ")" else "mi"
    return f"<{tag}>{found[1]}</{tag}><mo>{found[2]}</mo>"


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
            row.appendChild(self._mark(tag, str(word)))
        power.appendChild(row)
        return power

    def _print_Product(self, expression: Any) -> Any:
        """As SymPy prints a sum, which it cannot a product."""
        ((index, first, last),) = expression.limits
        sign = self._mark("mo", "∏")
        below = self.dom.createElement("mrow")
        for piece in (self._print(index), self._mark("mo", "="), self._print(first)):
            below.appendChild(piece)
        over = self.dom.createElement("munderover")
        for piece in (sign, below, self._print(last)):
            over.appendChild(piece)
        row = self.dom.createElement("mrow")
        row.appendChild(over)
        row.appendChild(self.parenthesize(expression.function, PRECEDENCE["Mul"]))
        return row

    def _print_KroneckerDelta(self, expression: Any) -> Any:
        indices = self.dom.createElement("mrow")
        for index in expression.args:
            indices.appendChild(self._print(index))
        delta = self.dom.createElement("msub")
        delta.appendChild(self._mark("mi", "δ"))
        delta.appendChild(indices)
        return delta

    def _mark(self, tag: str, text: str) -> Any:
        piece = self.dom.createElement(tag)
        piece.appendChild(self.dom.createTextNode(text))
        return piece

    def _print_Derivative(self, expression: Any) -> Any:
        row = super()._print_Derivative(expression)
        if not expression.expr.is_Add:
            return row
        body = row.lastChild
        enclosed = self.dom.createElement("mrow")
        for piece in ("(", body, ")"):
            if isinstance(piece, str):
                enclosed.appendChild(self._mark("mo", piece))
            else:
                enclosed.appendChild(piece)
        row.appendChild(enclosed)
        return row


def math(content: str) -> str:
    """MathML content as an element that a browser shows, at the size of a display."""
    return f'<math displaystyle="true"><mrow>{content}</mrow></math>'
