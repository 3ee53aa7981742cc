"""Formulas as presentation MathML, in pieces; a narrow page may break the line between them."""

from __future__ import annotations

import re
from html import unescape
from xml.dom.minidom import Element
from xml.etree import ElementTree

import sympy as sp
from sympy.printing.mathml import MathMLPresentationPrinter
from sympy.printing.precedence import PRECEDENCE

from deepnet_theory.report.document import Formula, Knob, Step
from deepnet_theory.report.notation import FUNCTION, SIGN, as_written

LINE = 30  # em: a sum wider than this is broken between its terms


def math(content: str) -> str:
    """MathML content as an element that a browser shows, at the size of a display."""
    return f'<math displaystyle="true"><mrow>{content}</mrow></math>'


def inline_mathml(formula: Formula) -> str:
    """The content of a formula among words."""
    shown = formula.expression
    if isinstance(shown, str):
        return _printed(as_written(shown), root_notation=False)
    return _printed(shown)


def knob_mathml(knob: Knob) -> str:
    """The content of ``symbol = formula = value``."""
    sign = "∝" if knob.symbol == "eta" else "="
    letter = {"alpha": "α", "beta": "β", "kappa": "κ", "eta": "η"}[knob.symbol]
    value = f"<mo>=</mo><mn>{knob.value}</mn>" if knob.value else ""
    return f"<mi>{letter}</mi><mo>{sign}</mo>{inline_mathml(knob.formula)}{value}"


def equation_mathml(step: Step) -> list[str]:
    """The content of ``lhs relation rhs`` in pieces."""
    left, right = _broken(step.lhs), _broken(step.rhs)
    function = FUNCTION.get(step.relation)
    if function:
        inner = f"<mo>(</mo>{_printed(step.rhs)}<mo>)</mo>"
        right = [f"<mi>{function}</mi><mrow>{inner}</mrow>"]
    right[0] = f"{_infix(SIGN.get(step.relation, '='))}{right[0]}"
    return [*left, *right]


def _infix(sign: str) -> str:
    """A sign at the beginning of a piece: space after it, before it is that of the pieces."""
    return f'<mo form="infix" lspace="0">{sign}</mo>'


def _broken(expression: sp.Expr) -> list[str]:
    """A wide sum's terms, each with the sign before it; anything else whole."""
    whole = _printed(expression)
    if not expression.is_Add or width(whole) <= LINE:
        return [whole]
    pieces: list[str] = []
    for term in _Presentation({})._as_ordered_terms(expression):
        signed = term.could_extract_minus_sign() or not pieces
        pieces.append(_printed(term) if signed else f"{_infix('+')}{_printed(term)}")
    return pieces


# what SymPy prints, and what is set in its place
_SET = (
    (re.compile(r"<mo>-</mo>"), "<mo>−</mo>"),
    (re.compile(r"<mn>-([\d.]+)</mn>"), r"<mrow><mo>−</mo><mn>\1</mn></mrow>"),
    (re.compile(r"<mo>/</mo>"), '<mo lspace="0" rspace="0">/</mo>'),
    (re.compile(r"<mi>phi(?=\(?</mi>)"), "<mi>φ"),
    # a bracket inside a name, as in "norm(", would not grow with what it encloses
    (re.compile(r"<mi>(\w+)([(\[])</mi>"), r"<mi>\1</mi><mo>\2</mo>"),
    (re.compile(r"<mi>\)([(\[])</mi>"), r"<mo>)</mo><mo>\1</mo>"),
)


def _printed(expression: sp.Expr, **settings: bool) -> str:
    printed = str(_Presentation({"fold_frac_powers": True, **settings}).doprint(expression))
    for pattern, shown in _SET:
        printed = pattern.sub(shown, printed)
    return printed


class _Presentation(MathMLPresentationPrinter):  # type: ignore[misc]
    """SymPy's printer, with a fraction in an exponent on one line, with products and Kronecker's
    delta, and with parentheses around a differentiated sum.
    """

    def _print_Pow(self, expression: sp.Pow) -> Element:
        exponent = expression.exp
        if self._settings["root_notation"] or not exponent.is_Rational or exponent.is_Integer:
            powered: Element = super()._print_Pow(expression)
            return powered
        base = self.parenthesize(expression.base, PRECEDENCE["Pow"])
        return self._element("msup", base, self._get_printed_Rational(exponent, folded=True))

    def _get_printed_Rational(self, value: sp.Rational, folded: bool = False) -> Element:
        if not folded:
            printed: Element = super()._get_printed_Rational(value)
            return printed
        sign = [self._element("mo", "−")] if value.is_negative else []
        above, below = self._print(abs(value.p)), self._print(value.q)
        return self._element("mrow", *sign, above, self._element("mo", "/"), below)

    def _print_Product(self, expression: sp.Product) -> Element:
        ((index, first, last),) = expression.limits
        below = (self._print(index), self._element("mo", "="), self._print(first))
        ends = (self._element("mrow", *below), self._print(last))
        sign = self._element("munderover", self._element("mo", "∏"), *ends)
        factor = self.parenthesize(expression.function, PRECEDENCE["Mul"])
        return self._element("mrow", sign, factor)

    def _print_KroneckerDelta(self, expression: sp.KroneckerDelta) -> Element:
        indices = self._element("mrow", *map(self._print, expression.args))
        return self._element("msub", self._element("mi", "δ"), indices)

    def _print_Derivative(self, expression: sp.Derivative) -> Element:
        # SymPy leaves out the parentheses around a sum, which it prints last
        row: Element = super()._print_Derivative(expression)
        body = row.lastChild
        if expression.expr.is_Add and isinstance(body, Element):
            brackets = self._element("mo", "("), self._element("mo", ")")
            row.appendChild(self._element("mrow", brackets[0], body, brackets[1]))
        return row

    def _element(self, tag: str, *content: Element | str) -> Element:
        element: Element = self.dom.createElement(tag)
        for item in content:
            text = self.dom.createTextNode(item) if isinstance(item, str) else item
            element.appendChild(text)
        return element


# about how wide a formula will be drawn, so that a narrow page can draw it smaller
_SPACED = set("=+−∼≤⊙")  # relations and signs stand between spaces
_LARGE = set("∑∏∫")
_NARROW = set(",.'∣|′")
_INVISIBLE = "\u2061\u2062\u2063\u2064"
_SCRIPT = 0.72  # the size of indices and exponents


def width(mathml: str) -> float:
    """The width of presentation MathML in em, by counting characters.

    Rather a little too wide than too narrow: what is drawn smaller still fits.
    """
    named = re.sub(r"&(?!amp;|lt;|gt;)\w+;", lambda entity: unescape(entity[0]), mathml)
    return _width(ElementTree.fromstring(f"<mrow>{named}</mrow>"))


def _width(element: ElementTree.Element) -> float:
    children = [_width(child) for child in element]
    match element.tag:
        case "mfrac":
            return max(children) + 0.4
        case "msup" | "msub":
            return children[0] + _SCRIPT * sum(children[1:])
        case "msubsup":
            return children[0] + _SCRIPT * max(children[1:])
        case "munderover" | "munder" | "mover":
            return max(children[0], _SCRIPT * max(children[1:])) + 0.2
        case "msqrt" | "mroot":
            return sum(children) + 1.0
        case "mfenced":
            return sum(children) + 0.9
    return sum(children) if children else _of_text(element.text or "")


def _of_text(text: str) -> float:
    shown = [c for c in text if c not in _INVISIBLE]
    if len(shown) == 1:
        (character,) = shown
        if character in _SPACED or character in _LARGE:
            return 1.4
        return 0.45 if character in _NARROW else 0.7
    return 0.55 * len(shown) + (0.2 if shown else 0.0)
