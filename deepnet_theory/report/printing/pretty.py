"""Formulas in the characters of a terminal: two-dimensional where they fit, else in one line."""

from __future__ import annotations

import sympy as sp
from sympy.printing.pretty.pretty import PrettyPrinter
from sympy.printing.pretty.stringpict import prettyForm
from sympy.printing.str import StrPrinter

from deepnet_theory.report.document import Formula, Step

_SIGN = {"ASYMPTOTIC": "~", "AT_MOST": "≤"}
_FUNCTION = {"ORDER": ("Θ", "Theta"), "BOUND": ("O", "O")}


class _Pretty(PrettyPrinter):  # type: ignore[misc]
    """Two-dimensional notation for the matrix-valued nodes of a derivation too."""

    def _print_Function(self, expression: sp.Expr, *args: object, **kwargs: object) -> prettyForm:
        if not hasattr(expression, "_sympystr"):
            return super()._print_Function(expression, *args, **kwargs)
        label = getattr(expression, "label", None)
        if label is None or len(expression.args) != 1:
            return prettyForm(StrPrinter().doprint(expression))
        argument = prettyForm(*self._print(expression.args[0]).parens())
        return prettyForm(*argument.left(_sign(label)))

    def _print_Mul(self, product: sp.Mul) -> prettyForm:
        # SymPy's own method first imports its units of measurement, which takes as long as
        # the derivation itself.
        above: list[sp.Expr] = []
        below: list[sp.Expr] = []
        for factor in product.as_ordered_factors():
            if factor.is_Rational:
                above += [sp.Integer(factor.p)] if factor.p != 1 else []
                below += [sp.Integer(factor.q)] if factor.q != 1 else []
            elif (
                factor.is_Pow
                and factor.is_commutative
                and factor.exp.is_extended_negative
                and factor.exp.is_Rational
            ):
                below.append(sp.Pow(factor.base, -factor.exp, evaluate=factor.exp == -1))
            else:
                above.append(factor)
        numerator = prettyForm.__mul__(*(self._print(f) for f in above or [sp.Integer(1)]))
        if not below:
            return numerator
        return numerator / prettyForm.__mul__(*(self._print(f) for f in below))

    def _print_Transpose(self, expression: sp.Expr) -> prettyForm:
        return prettyForm(*self._factor(expression.args[0]).right("ᵀ"))

    def _print_Hadamard(self, expression: sp.Expr) -> prettyForm:
        left, right = (self._factor(a) for a in expression.args)
        return prettyForm(*prettyForm(*left.right(" ⊙ ", right)).parens())

    def _print_DirectionalDifferential(self, expression: sp.Expr) -> prettyForm:
        label, point, direction = expression.args
        form = prettyForm(*self._print(point).parens())
        form = prettyForm(*form.left(f"D{_sign(label.function.label)}"))
        towards = prettyForm(*self._print(direction).parens("[", "]"))
        return prettyForm(*form.right(towards))

    def _factor(self, expression: sp.Expr) -> prettyForm:
        form = self._print(expression)
        compound = expression.is_Add or expression.is_Mul
        return prettyForm(*form.parens()) if compound else form


def _sign(label: str) -> str:
    return {"phi": "φ", "softmax": "σ"}.get(label, label)


def _pretty(expression: sp.Expr) -> prettyForm:
    printer = _Pretty({"use_unicode": True, "wrap_line": False, "num_columns": 10**6})
    form: prettyForm = printer._print(expression)
    return form


def inline(formula: Formula) -> str:
    """A formula in one line, as it can be typed again."""
    shown = formula.expression
    return shown if isinstance(shown, str) else str(StrPrinter().doprint(shown))


def equation(step: Step, width: int) -> list[str]:
    """The lines of ``lhs relation rhs``: whole if that fits, else each side by itself."""
    left, right = _pretty(step.lhs), _pretty(step.rhs)
    function, typed = _FUNCTION.get(step.relation, ("", ""))
    if function:
        right = prettyForm(*prettyForm(*right.parens()).left(function))
    sign = _SIGN.get(step.relation, "=")
    whole = prettyForm(*left.right(f" {sign} ", right))
    if whole.width() <= width:
        return _lines(whole)
    right_typed = inline(Formula(step.rhs))
    right_typed = f"{typed}({right_typed})" if typed else right_typed
    return [
        *_side(left, inline(Formula(step.lhs)), width),
        *_side(prettyForm(*right.left(f"{sign} ")), f"{sign} {right_typed}", width),
    ]


def _side(form: prettyForm, typed: str, width: int) -> list[str]:
    return _lines(form) if form.width() <= width else _fold(typed, width)


def _lines(form: prettyForm) -> list[str]:
    return [line.rstrip() for line in str(form).splitlines()]


def _fold(formula: str, width: int) -> list[str]:
    """A long linear formula, broken at spaces or before an operator."""
    lines = []
    while len(formula) > width:
        at = formula.rfind(" ", 1, width)
        if at <= 4:
            at = max(formula.rfind("*", 5, width), formula.rfind("/", 5, width))
        at = width if at <= 4 else at
        lines.append(formula[:at].rstrip())
        formula = "    " + formula[at:].lstrip()
    return [*lines, formula]
