"""Formulas as LaTeX, those of a rule as they are written, and in the characters of a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from fractions import Fraction

import sympy as sp
from sympy.printing.latex import latex
from sympy.printing.str import StrPrinter

from deepnet_theory.definitions.expression import DEPTH, UPDATE, Grammar, fold
from deepnet_theory.definitions.placement import PLACEMENT
from deepnet_theory.report.document import GREEK, Step

# the sign between the sides of an equation, and the function around the right one
SIGN = {"ASYMPTOTIC": "∼", "AT_MOST": "≤"}
FUNCTION = {"ORDER": "Θ", "BOUND": "O"}
_FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}
# all that a selection or a rule writes as a formula
_WRITTEN = Grammar(
    "a formula",
    tuple(dict.fromkeys((*DEPTH.symbols, *UPDATE.symbols, *PLACEMENT.symbols, "d", "k"))),
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
    """A typed formula, or several between semicolons, as LaTeX."""
    if ";" in formula:
        return r";\quad ".join(map(formula_latex, formula.split(";")))
    shown, sign = as_written(formula), ""
    if shown.is_Mul and shown.args[0] == -1:  # which SymPy would put into a numerator
        shown, sign = sp.Mul(*shown.args[1:], evaluate=False), "- "
    return sign + str(latex(shown, root_notation=False, fold_frac_powers=True))


class _Line(StrPrinter):  # type: ignore[misc]
    """SymPy's own text with letters for names; what it prints otherwise is set by :data:`_SET`."""

    def _print_Symbol(self, symbol: sp.Symbol) -> str:
        return lettered(symbol.name)

    def _print_Derivative(self, expression: sp.Derivative) -> str:
        body = self._print(expression.expr)
        body = f"({body})" if expression.expr.is_Add or expression.expr.is_Mul else body
        return f"∂{body}/∂{self._print(expression.variables[0])}"

    def _print_Sum(self, expression: sp.Sum, sign: str = "Σ") -> str:
        ends = ", ".join("{}={}..{}".format(*map(self._print, one)) for one in expression.limits)
        return f"{sign}[{ends}] ({self._print(expression.function)})"

    def _print_Product(self, expression: sp.Product) -> str:
        return self._print_Sum(expression, "Π")

    def _print_Abs(self, expression: sp.Abs) -> str:
        return f"|{self._print(expression.args[0])}|"

    def _print_Max(self, expression: sp.Max) -> str:
        return f"max({', '.join(map(self._print, expression.args))})"

    def _print_Determinant(self, expression: sp.Determinant) -> str:
        return f"det {expression.args[0].tolist()}"

    def _print(self, expression: sp.Expr, **kwargs: object) -> str:
        if not hasattr(expression, "forms"):
            return str(super()._print(expression, **kwargs))
        *_, form = expression.forms()  # that of a page, whose marks are letters
        parts = expression.args
        shown = [p if isinstance(p, str) else f"({self._print(parts[p])})"
                 if form[0] in (0, "(") and not parts[p].is_Atom else self._print(parts[p])
                 for p in form]  # fmt: skip
        return "".join(shown).replace("phi(", "φ(").replace("⊤", "ᵀ")


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SET: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (  # in this order
    (r"sqrt\(([^\W_]+)\)", r"√\1"),
    (r"sqrt\(", "√("),
    (r"\*\*(\d+)", lambda match: match[1].translate(_RAISED)),
    (r"\*\*", "^"),
    (r"(?<![\w√])(\d+)\*(?=[^\W\d]|[√‖(])", r"\1"),
    (r"\*", " "),
)


def shown(expression: sp.Expr) -> str:
    """A formula in one line of letters: 2N^(3/2) β²/α."""
    line = str(_Line().doprint(expression))
    for pattern, sign in _SET:
        line = re.sub(pattern, sign, line)
    return line


SHORT = 20  # characters of a side that never has a line of its own


def lettered(name: str) -> str:
    """A symbol's name in letters: α_e of alpha_e, c₁ of c_1, ‖ΔF‖ of norm_dF."""
    if name.startswith("norm_"):
        inner = name.removeprefix("norm_")
        changed = len(inner) > 1 and inner[0] == "d" and inner not in GREEK
        return f"‖{'Δ' * changed}{lettered(inner[1:] if changed else inner)}‖"
    head, *below = name.split("_")
    shown = GREEK.get(head, head)
    for index in below:
        shown += index.translate(_LOWERED) if index.isdigit() else f"_{GREEK.get(index, index)}"
    return shown


def typed(expression: sp.Expr) -> str:
    """A formula in one line, as it can be typed again."""
    return str(StrPrinter().doprint(expression))


def equation(step: Step, width: int, beside: int = 0) -> list[str]:
    """``left = lhs relation rhs`` in lines; ``beside`` the first one something else stands."""
    sides = [shown(side) for side in (step.left, step.lhs, step.rhs) if side is not None]
    function = FUNCTION.get(step.relation, "")
    sign = SIGN.get(step.relation, "=").replace("∼", "~")
    sides[-1] = f"{sign} {function}({sides[-1]})" if function else f"{sign} {sides[-1]}"
    sides[1:-1] = [f"= {side}" for side in sides[1:-1]]
    lines = [""]
    for side in sides:
        room = width - beside * (len(lines) == 1)
        if not lines[-1] or len(lines[-1]) + len(side) < room or len(lines[-1]) < SHORT:
            side = f"{lines.pop()} {side}".lstrip()
        start = " " * (beside * (not lines))
        folded = textwrap.wrap(
            start + side, width, subsequent_indent="    ", break_on_hyphens=False
        )
        lines += [line.strip() if index == 0 else line for index, line in enumerate(folded)]
    return lines
