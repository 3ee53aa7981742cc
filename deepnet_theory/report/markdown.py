"""A derivation as Markdown with mathematics between dollar signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.report.latex import equation
from deepnet_theory.report.notation import expression_latex, formula_latex
from deepnet_theory.report.outline import (
    conclusion,
    owner,
    sections,
    setting,
    support,
    title,
)

if TYPE_CHECKING:
    from deepnet_theory.symbolic.derivation import Derivation

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#$"})


def escape(words: str) -> str:
    """Words as Markdown: what would be markup is shown as it is."""
    return words.translate(_SPECIAL)


def markdown(derivation: Derivation) -> str:
    """The whole derivation as a Markdown document."""
    lines = [f"# {escape(title(derivation.selection))}", ""]
    lines += [f"- {escape(label)}: `{value}`" for label, value in setting(derivation)]
    for section in sections(derivation):
        lines += ["", f"## {escape(section.title)}", ""]
        for number, step in section.steps:
            rests = support(derivation, step)
            tail = f"{rests}; {step.source}" if rests else step.source
            lines += [
                "$$",
                rf"{equation(step)} \tag{{{number}}}",
                "$$",
                "",
                f"{escape(step.because)} *({escape(tail)})*",
                "",
            ]
        lines.pop()
    lines += ["", "## Rule", "", *rule_table(derivation)]
    if derivation.rule.meaning:
        lines += ["", escape(derivation.rule.meaning)]
    if derivation.consequences:
        lines += ["", "## Consequences", "", "| quantity | of | order | |", "|---|---|---|---|"]
        for c in derivation.consequences:
            whose = c.part if c.sublayer == "*" else f"{c.part}, {c.sublayer}"
            words = ". ".join(w.rstrip(".") for w in (c.meaning, c.remark) if w)
            lines.append(
                f"| {escape(c.name)} | {escape(whose)} | ${expression_latex(c.value)}$ "
                f"| {escape(words)} |"
            )
    if derivation.assumptions:
        lines += ["", "## Assumptions", ""]
        lines += [f"- **{escape(a.name)}**: {escape(a.statement)}" for a in derivation.assumptions]
    for remark in derivation.remarks:
        lines += ["", f"*Remark.* {escape(remark)}"]
    lines += ["", escape(conclusion(derivation))]
    return "\n".join(lines)


def rule_table(derivation: Derivation) -> list[str]:
    """The rule as the lines of a Markdown table; with values where a depth was asked for."""
    depth = dict(derivation.values)
    eta = derivation.rule.eta
    head = ["of", "α", "β"] + (["η ×"] if eta != "1" else [])
    if depth:
        where = ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())
        head += [f"α at {where}", f"β at {where}"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for entry in derivation.rule.entries:
        cells = [owner(entry), f"${formula_latex(entry.alpha)}$", f"${formula_latex(entry.beta)}$"]
        cells += [f"${formula_latex(eta)}$"] if eta != "1" else []
        cells += [f"{value:.6g}" for value in entry.at(**depth)] if depth else []
        lines.append(f"| {' | '.join(cells)} |")
    return lines
