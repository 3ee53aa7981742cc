"""Formulas as LaTeX, those of a rule as they are written, and in the characters of a terminal."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp
from sympy.printing.latex import latex
from sympy.printing.pretty.pretty import PrettyPrinter
from sympy.printing.pretty.stringpict import prettyForm
from sympy.printing.str import StrPrinter

from deepnet_theory.report.document import Formula, Knob, Step
from deepnet_theory.spec.expression import DEPTH, UPDATE, Grammar, fold
from deepnet_theory.spec.placement import PLACEMENT

# the sign between the sides of an equation, and the function around the right one
SIGN = {"ASYMPTOTIC": "∼", "AT_MOST": "≤"}
FUNCTION = {"ORDER": "Θ", "BOUND": "O"}
_COMMANDS = {"∼": r"\sim", "≤": r"\le", "Θ": r"\Theta"}
_FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}
# all that a selection or a rule writes as a formula
_WRITTEN = Grammar(
    "a formula",
    (*DEPTH.symbols, *UPDATE.symbols, *PLACEMENT.symbols, "d", "k"),
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
    sign, function = SIGN.get(step.relation, "="), FUNCTION.get(step.relation, "")
    right = str(latex(step.rhs))
    right = rf"{_COMMANDS.get(function, function)}\left({right}\right)" if function else right
    return f"{latex(step.lhs)} {_COMMANDS.get(sign, sign)} {right}"


def knob_latex(knob: Knob, aligned: str = " ") -> str:
    """``symbol = formula = value`` as LaTeX."""
    sign = r"\propto" if knob.symbol == "eta" else "="
    value = f" = {knob.value}" if knob.value else ""
    return rf"\{knob.symbol}{aligned}{sign} {inline_latex(knob.formula)}{value}"


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


def typed(expression: sp.Expr) -> str:
    """A formula in one line, as it can be typed again."""
    return str(StrPrinter().doprint(expression))


def equation(step: Step, width: int) -> list[str]:
    """``lhs relation rhs`` in characters, line by line: whole if that fits, else by sides."""
    left, right = _pretty(step.lhs), _pretty(step.rhs)
    function = FUNCTION.get(step.relation, "")
    if function:
        right = prettyForm(*prettyForm(*right.parens()).left(function))
    sign = SIGN.get(step.relation, "=").replace("∼", "~")
    whole = prettyForm(*left.right(f" {sign} ", right))
    if whole.width() <= width:
        return _lines(whole)
    right_typed = typed(step.rhs)
    if function:
        right_typed = f"{function.replace('Θ', 'Theta')}({right_typed})"
    return [
        *_side(left, typed(step.lhs), width),
        *_side(prettyForm(*right.left(f"{sign} ")), f"{sign} {right_typed}", width),
    ]


def _side(form: prettyForm, line: str, width: int) -> list[str]:
    return _lines(form) if form.width() <= width else _fold(line, width)


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
