"""Formulas as LaTeX, those of a rule as they are written, and in the characters of a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sympy as sp
from sympy.printing.latex import latex
from sympy.printing.str import StrPrinter

from deepnet_theory.definitions.expression import DEPTH, OPERATORS, UPDATE, Algebra, Grammar, fold
from deepnet_theory.definitions.placement import PLACEMENT
from deepnet_theory.report.document import lettered

if TYPE_CHECKING:
    from deepnet_theory.proof.step import Step

# the sign between the sides of an equation, and what stands around the right one
LETTERS = {"AT_MOST": ("≤", "{}"), "ORDER": ("=", "Θ({})"), "BOUND": ("=", "O({})")}
_FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}
# all that a selection or a rule writes as a formula
_WRITTEN = Grammar(
    "a formula",
    tuple(dict.fromkeys((*DEPTH.symbols, *UPDATE.symbols, *PLACEMENT.symbols, *"dklB"))),
    UPDATE.functions | PLACEMENT.functions,
)


def _quotient(left: sp.Expr, right: sp.Expr) -> sp.Expr:
    return right**-1 if left == 1 else left * right**-1


_AS_WRITTEN = Algebra(
    {name: sp.Symbol(name, positive=True) for name in _WRITTEN.symbols},
    {name: _FUNCTIONS.get(name, sp.Function(name)) for name in _WRITTEN.functions},
    {**OPERATORS, "/": _quotient},
    number=sp.Rational,
    power=pow,
)


def as_written(formula: str) -> sp.Expr:
    """A typed formula for printing: (2N)^(1/4) is shown so, not as a product of roots."""
    with sp.evaluate(False):
        return fold(_WRITTEN.parse(formula).root, _AS_WRITTEN)


def formula_latex(formula: sp.Expr | str) -> str:
    """A formula as LaTeX; a typed one, or several between semicolons, as it is written."""
    if not isinstance(formula, str):
        norms = {s: _norm(s.name) for s in formula.free_symbols if s.name.startswith("norm_")}
        return str(latex(formula, fold_frac_powers=True, symbol_names=norms))
    written = map(as_written, formula.split(";"))
    return r";\quad ".join(
        latex(one, root_notation=False, fold_frac_powers=True) for one in written
    )


def _norm(name: str) -> str:
    """‖ΔF‖ as LaTeX, of norm_ΔF, and ‖∂L/∂F‖, of norm_dL_dF."""
    if slope := re.fullmatch(r"norm_d(\w)_d(\w+)", name):
        return rf"\|\partial {slope[1]}/\partial {slope[2]}\|"
    inner = latex(sp.Symbol(name.removeprefix("norm_"))).replace("ΔF", r"\Delta F")
    return rf"\|{inner}\|"


def equation_latex(step: Step) -> str:
    """``left = lhs relation rhs`` as LaTeX."""
    sign, around = LETTERS.get(step.relation.name, ("=", "{}"))
    sides = [formula_latex(s) for s in (step.left, step.lhs, step.rhs) if s is not None]
    shown = _joined(sides, sign, around.replace("(", r"\left(").replace(")", r"\right)"))
    return shown.replace("~", r"\sim").replace("≤", r"\le").replace("Θ", r"\Theta")


class _Lined(StrPrinter):  # type: ignore[misc]
    """SymPy's text, its sums, products, derivatives and absolute values in their signs."""

    def _print_Sum(self, sum_: sp.Sum, sign: str = "Σ") -> str:
        term, (index, low, high) = sum_.args
        ends = "…".join(self._print(end).replace(" ", "") for end in (low, high))
        return f"{sign}[{index}={ends}] {self._print(term)}"

    def _print_Product(self, product: sp.Product) -> str:
        return f"({self._print_Sum(product, 'Π')})"

    def _print_Derivative(self, slope: sp.Derivative) -> str:
        of = self._print(slope.expr)
        return f"∂{of if slope.expr.is_Symbol else f'[{of}]'}/∂{slope.variables[0]}"

    def _print_Abs(self, size: sp.Abs) -> str:
        return f"|{self._print(size.args[0])}|"


def equation(step: Step) -> str:
    """``left = lhs relation rhs`` in a line of letters."""
    there = (side for side in (step.left, step.lhs, step.rhs) if side is not None)
    sides = [lettered(_Lined().doprint(side)).replace(".T", "ᵀ") for side in there]
    return _joined(sides, *LETTERS.get(step.relation.name, ("=", "{}")))


def _joined(sides: list[str], sign: str, around: str) -> str:
    return f"{' = '.join(sides[:-1])} {sign} {around.format(sides[-1])}"
