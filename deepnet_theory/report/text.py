"""A derivation as plain text: a page of a paper in at most 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.printing.pretty.pretty import PrettyPrinter
from sympy.printing.pretty.stringpict import prettyForm
from sympy.printing.str import StrPrinter

from deepnet_theory.report.outline import (
    conclusion,
    numbers,
    owner,
    sections,
    setting,
    support,
    title,
)

if TYPE_CHECKING:
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.symbolic.proof.step import Step

WIDTH = 80
INDENT = 6  # of what stands under an equation's number


class _Pretty(PrettyPrinter):  # type: ignore[misc]
    """Two-dimensional notation for the matrix-valued nodes of a derivation too."""

    def _print_Function(self, expression: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(expression, "_sympystr"):
            return super()._print_Function(expression, *args, **kwargs)
        label = getattr(expression, "label", None)
        if label is None or len(expression.args) != 1:
            return prettyForm(StrPrinter().doprint(expression))
        argument = prettyForm(*self._print(expression.args[0]).parens())
        return prettyForm(*argument.left(_sign(label)))

    def _print_Mul(self, product: Any) -> Any:
        # SymPy's own method first imports its units of measurement, which takes as long as
        # the derivation itself.
        above: list[Any] = []
        below: list[Any] = []
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

    def _print_Transpose(self, expression: Any) -> Any:
        return prettyForm(*self._factor(expression.args[0]).right("ᵀ"))

    def _print_Hadamard(self, expression: Any) -> Any:
        left, right = (self._factor(a) for a in expression.args)
        return prettyForm(*prettyForm(*left.right(" ⊙ ", right)).parens())

    def _print_DirectionalDifferential(self, expression: Any) -> Any:
        label, point, direction = expression.args
        form = prettyForm(*self._print(point).parens())
        form = prettyForm(*form.left(f"D{_sign(label.function.label)}"))
        towards = prettyForm(*self._print(direction).parens("[", "]"))
        return prettyForm(*form.right(towards))

    def _factor(self, expression: Any) -> Any:
        form = self._print(expression)
        compound = expression.is_Add or expression.is_Mul
        return prettyForm(*form.parens()) if compound else form


def _sign(label: str) -> str:
    return {"phi": "φ", "softmax": "σ"}.get(label, label)


def _pretty(expression: Any) -> prettyForm:
    printer = _Pretty({"use_unicode": True, "wrap_line": False, "num_columns": 10**6})
    form: prettyForm = printer._print(expression)
    return form


def equation(step: Step, width: int) -> list[str]:
    """The lines of ``lhs relation rhs``: two-dimensional if it fits, else folded in one."""
    left, right = _pretty(step.lhs), _pretty(step.rhs)
    name = step.relation.name
    if name in ("ORDER", "BOUND"):
        right = prettyForm(*right.parens())
        right = prettyForm(*right.left("Θ" if name == "ORDER" else "O"))
    sign = {"ASYMPTOTIC": " ~ ", "AT_MOST": " ≤ "}.get(name, " = ")
    whole = prettyForm(*left.right(sign, right))
    if whole.width() <= width:
        return [line.rstrip() for line in str(whole).splitlines()]
    lines = []
    for head, side in (("", step.lhs), (sign.strip() + " ", step.rhs)):
        form = right if side is step.rhs else left
        headed = prettyForm(*form.left(head)) if head else form
        if headed.width() <= width:
            lines += [line.rstrip() for line in str(headed).splitlines()]
        else:
            mark = {"ORDER": "Theta", "BOUND": "O"}.get(name, "") if head else ""
            shown = StrPrinter().doprint(side)
            lines += _fold(f"{head}{mark}({shown})" if mark else f"{head}{shown}", width)
    return lines


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


def paragraph(words: str, indent: int = INDENT, first: str | None = None) -> list[str]:
    """Words folded to the page, ``indent`` deep; the first line begins with ``first``."""
    space = " " * indent
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=space if first is None else first,
        subsequent_indent=space,
        break_on_hyphens=False,
    )


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    column = max((len(label) for label, _ in rows), default=0) + 4
    lines = []
    for label, value in rows:
        lines += paragraph(value or "-", column, first=f"  {label}".ljust(column))
    return lines


def heading(words: str, mark: str = "-") -> list[str]:
    """A heading underlined with ``mark``."""
    return ["", words, mark * len(words)]


def text(derivation: Derivation) -> str:
    """The whole derivation: setting, steps by section, rule, consequences, assumptions."""
    head = title(derivation.selection)
    lines = [head, "=" * min(len(head), WIDTH), *_rows(list(setting(derivation)))]
    for index, section in enumerate(sections(derivation), start=1):
        lines += heading(f"{index}. {section.title}")
        for number, step in section.steps:
            lines += ["", *_step(derivation, number, step)]
    lines += heading("Rule")
    lines += _rule(derivation)
    if derivation.consequences:
        lines += heading("Consequences")
        for c in derivation.consequences:
            whose = c.part if c.sublayer == "*" else f"{c.part}, {c.sublayer}"
            value = StrPrinter().doprint(c.value)
            lines += paragraph(f"{c.name} ({whose}): {value}", 4, first="  ")
            words = ". ".join(w.rstrip(".") for w in (c.meaning, c.remark) if w)
            lines += paragraph(words, 6) if words else []
    if derivation.predictions.exponents:
        lines += heading("Predicted exponents of the model update")
        lines += _predictions(derivation)
    if derivation.assumptions:
        lines += heading("Assumptions")
        lines += _rows([(a.name, a.statement) for a in derivation.assumptions])
    for remark in derivation.remarks:
        lines += ["", *paragraph(f"Remark. {remark}", 0)]
    lines += ["", *paragraph(conclusion(derivation), 0)]
    return "\n".join(lines)


def _step(derivation: Derivation, number: int, step: Step) -> list[str]:
    label = f"({number})"
    body = equation(step, WIDTH - INDENT)
    middle = len(body) // 2
    lines = [(label if i == middle else "").ljust(INDENT) + line for i, line in enumerate(body)]
    lines += paragraph(step.because)
    rests = support(derivation, step)
    lines += paragraph(f"[{rests}; {step.source}]" if rests else f"[{step.source}]")
    verdict = derivation.verdicts[step.name].value
    if verdict != "PROVED":
        lines += paragraph(f"{verdict}: fails {', '.join(step.failures())}")
    return lines


def _rule(derivation: Derivation) -> list[str]:
    depth = dict(derivation.values)
    lines = []
    number = numbers(derivation)
    for entry in derivation.rule.entries:
        lines.append(f"  {owner(entry)}")
        values = entry.at(**depth) if depth else None
        for index, (name, formula) in enumerate((("alpha", entry.alpha), ("beta", entry.beta))):
            value = f"  = {values[index]:.6g}" if values and formula != "1" else ""
            lines.append(f"    {name:5} = {formula}{value}")
    if derivation.rule.eta != "1":
        value = f"  = {derivation.rule.eta_at(**depth):.6g}" if depth else ""
        lines.append(f"    eta is multiplied by {derivation.rule.eta}{value}")
    if depth:
        where = ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())
        lines.append(f"  (values at {where})")
    concluded = ", ".join(f"({number[name]})" for name in derivation.conclusion)
    meaning = f" {derivation.rule.meaning}" if derivation.rule.meaning else ""
    return [*lines, *paragraph(f"From {concluded}.{meaning}", 2)]


def _predictions(derivation: Derivation) -> list[str]:
    rows = []
    for p in derivation.predictions.exponents:
        exponent = "no prediction" if p.exponent is None else str(p.exponent)
        rivals = ", ".join(f"{name} {e}" for name, e in p.rivals)
        shown = exponent + (f" (rules of others: {rivals})" if rivals else "")
        rows.append((f"in {p.variable}, {p.share}", shown))
    return _rows(rows)
