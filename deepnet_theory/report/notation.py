"""Formulas as LaTeX, those of a rule as they are written, and in the characters of a terminal."""

from __future__ import annotations

import re
import textwrap
from fractions import Fraction

import sympy as sp
from sympy.printing.latex import latex
from sympy.printing.str import StrPrinter

from deepnet_theory.definitions.expression import DEPTH, UPDATE, Grammar, fold
from deepnet_theory.definitions.placement import PLACEMENT
from deepnet_theory.report.document import GREEK, Formula, Knob, Step

# the sign between the sides of an equation, and the function around the right one
SIGN = {"ASYMPTOTIC": "∼", "AT_MOST": "≤"}
FUNCTION = {"ORDER": "Θ", "BOUND": "O"}
_COMMANDS = {"∼": r"\sim", "≤": r"\le", "Θ": r"\Theta"}
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


def inline_latex(formula: Formula) -> str:
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


class _Line(StrPrinter):  # type: ignore[misc]
    """One line of characters: a product stands between spaces, small powers are raised."""

    def _print_Symbol(self, symbol: sp.Symbol) -> str:
        return lettered(symbol.name)

    def _print_Mul(self, product: sp.Mul) -> str:
        factors = product.as_ordered_factors()
        scalars = [factor for factor in factors if factor.is_commutative]
        matrices = [factor for factor in factors if not factor.is_commutative]
        powers: dict[sp.Expr, list[str]] = {}  # exponent → what is raised to it
        numbers: dict[sp.Expr, sp.Rational] = {}
        sign, others = "", []
        for factor in scalars:
            base, exponent = factor.as_base_exp()
            if base.is_Rational and exponent.is_Rational:
                sign += "-" * bool(base < 0)
                for prime, power in sp.factorrat(abs(base)).items():
                    numbers[prime] = numbers.get(prime, 0) + power * exponent
            elif base.is_Symbol and exponent.is_Rational:
                powers.setdefault(exponent, []).append(self._print(base))
            else:
                others.append(factor)
        number = sp.Integer(1)
        for prime, power in numbers.items():
            if power.is_Integer:
                number *= prime**power
            else:
                powers.setdefault(power, []).insert(0, str(prime))
        above = [str(number.p)] * (number.p != 1)
        below = [str(number.q)] * (number.q != 1)
        for exponent in sorted(powers, key=lambda e: (e.q, abs(e))):
            bases, side = powers[exponent], above if exponent > 0 else below
            joined = [*bases] if exponent.is_Integer else [self._times(bases)]
            side += [_raised(base, abs(exponent)) for base in joined]
        for factor in others:
            base, exponent = factor.as_base_exp()
            if exponent.is_Rational and exponent < 0:
                below.append(self._factor(sp.Pow(base, -exponent)))
            else:
                above.append(self._factor(factor))
        shown = self._times([*above, *map(self._factor, matrices)]) or "1"
        divisor = self._times(below)
        bracket = len(below) > 1 or (" " in divisor and divisor[-1] != ")")
        return sign + shown + (f"/({divisor})" if bracket else f"/{divisor}") * bool(below)

    def _times(self, factors: list[str]) -> str:
        """The factors side by side, a number close to what it multiplies."""
        if len(factors) > 1 and factors[0].isdigit() and not factors[1][0].isdigit():
            factors = [factors[0] + factors[1], *factors[2:]]
        return " ".join(factors)

    def _factor(self, expression: sp.Expr) -> str:
        shown: str = self._print(expression)
        return f"({shown})" if expression.is_Add or expression.is_Mul else shown

    def _print_Pow(self, power: sp.Pow, rational: bool = False) -> str:
        base, exponent = power.base, power.exp
        if exponent.is_Integer and exponent < 0:
            return f"1/{self._factor(sp.Pow(base, -exponent))}"
        shown = self._print(base)
        if not exponent.is_Rational:
            written = self._print(exponent)
            tight = written if len(written) == 1 else f"({written})"
            return f"{shown if base.is_Atom else f'({shown})'}^{tight}"
        return _raised(shown, exponent)

    def _print_ExpBase(self, expression: sp.Expr) -> str:
        return f"exp({self._print(expression.args[0])})"

    def _print_Exp1(self, _: sp.Expr) -> str:
        return "e"

    def _print_Abs(self, expression: sp.Abs) -> str:
        return f"|{self._print(expression.args[0])}|"

    def _print_Derivative(self, expression: sp.Derivative) -> str:
        body = self._print(expression.expr)
        body = f"({body})" if expression.expr.is_Add or expression.expr.is_Mul else body
        return f"∂{body}/∂{self._print(expression.variables[0])}"

    def _print_Sum(self, expression: sp.Sum, sign: str = "Σ") -> str:
        ends = ", ".join(
            f"{self._print(index)}={self._print(first)}..{self._print(last)}"
            for index, first, last in expression.limits
        )
        return f"{sign}[{ends}] {self._factor(expression.function)}"

    def _print_Product(self, expression: sp.Product) -> str:
        return self._print_Sum(expression, "Π")

    def _print_Max(self, expression: sp.Max) -> str:
        return f"max({', '.join(map(self._print, expression.args))})"

    def _print_Determinant(self, expression: sp.Determinant) -> str:
        return f"det {expression.args[0].tolist()}"

    def _print(self, expression: sp.Expr, **kwargs: object) -> str:
        if not hasattr(expression, "forms"):
            return str(super()._print(expression, **kwargs))
        *_, form = expression.forms()  # that of a page, whose marks are letters
        parts = expression.args
        shown = [p if isinstance(p, str) else self._factor(parts[p]) if form[0] in (0, "(")
                 else self._print(parts[p]) for p in form]  # fmt: skip
        return "".join(shown).replace("phi(", "φ(").replace("⊤", "ᵀ")


def _raised(base: str, exponent: sp.Rational) -> str:
    """base^exponent: a square raised, a square root under its sign, any other behind a ^."""
    base = base if re.fullmatch(_ATOM, base) else f"({base})"
    if exponent == sp.S.Half:
        return f"√{base}"
    if exponent.is_Integer:
        return base + ("" if exponent == 1 else str(exponent).translate(_RAISED))
    return f"{base}^({exponent})"


_ATOM = r"\d+|[^\W\d]\w*'?|‖[^‖]*‖"  # a base that needs no brackets
SHORT = 20  # characters of a side that never has a line of its own
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


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
    sides = [_Line().doprint(side) for side in (step.left, step.lhs, step.rhs) if side is not None]
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
