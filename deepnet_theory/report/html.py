"""Pieces of HTML: the derivation as mathematics, folded by section, and tables of results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from deepnet_theory.report.notation import (
    RELATION_MATHML,
    expression_mathml,
    formula_mathml,
    math,
    terms_mathml,
)
from deepnet_theory.report.outline import Section, conclusion, owner, sections, support, title
from deepnet_theory.report.width import width

if TYPE_CHECKING:
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.symbolic.proof.step import Step


LINE = 30  # em: a sum wider than this is broken between its terms


def equation(step: Step) -> str:
    """``lhs relation rhs`` as ``<math>`` elements, between which a narrow page may break the line.

    The widest one's width is told to the style, which draws all smaller where it would not fit.
    """
    left, right = _side(step.lhs), _side(step.rhs)
    if step.relation.name in ("ORDER", "BOUND"):
        right = [f"<mrow><mo>(</mo>{expression_mathml(step.rhs)}<mo>)</mo></mrow>"]
    right[0] = RELATION_MATHML[step.relation.name] + right[0]
    sides = [*left, *right]
    drawn = "".join(map(math, sides))
    return f'<div class="formula" style="--wide:{1.05 * max(map(width, sides)):.1f}">{drawn}</div>'


def _side(expression: Any) -> list[str]:
    whole = expression_mathml(expression)
    return terms_mathml(expression) if expression.is_Add and width(whole) > LINE else [whole]


def code(text: str) -> str:
    """A command or an expression that a narrow page breaks after ``*``, ``/`` and spaces alone."""
    pieces = re.findall(r"[^\s*/,]*(?:[*/,]+|\s+|$)", text)
    return "<wbr>".join(f'<span class="whole">{escape(piece)}</span>' for piece in pieces if piece)


def prose(text: str) -> str:
    """A sentence, in which a formula's leading minus stays with what it belongs to."""
    return re.sub(r"(?<![^\s(])-\w[^\s]*", lambda found: code(found[0]), escape(text))


def verdict_badge(verdict: str) -> str:
    """A verdict, coloured by what it says."""
    return f'<span class="verdict {escape(verdict)}">{escape(verdict)}</span>'


def steps_html(derivation: Derivation) -> str:
    """Every section as a fold, every step with its number, reason, premises and verdict."""
    return "\n".join(
        f"<details><summary>{escape(section.title)} "
        f'<span class="soft">{_steps(len(section.steps))}</span></summary>\n'
        f"{section_html(derivation, section)}</details>"
        for section in sections(derivation)
    )


def section_html(derivation: Derivation, section: Section) -> str:
    """The steps of one section."""
    return "\n".join(_step(derivation, number, step) for number, step in section.steps)


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _step(derivation: Derivation, number: int, step: Step) -> str:
    rests = support(derivation, step)
    tail = f"{rests}; {step.source}" if rests else step.source
    verdict = derivation.verdicts[step.name].value
    badge = "" if verdict == "PROVED" else f" {verdict_badge(verdict)}"
    return (
        '<div class="step"><div class="equation" style="display:flex;align-items:center;gap:1em">'
        f"{equation(step)}"
        f'<div class="number">({number})</div></div>'
        f'<p class="because">{prose(step.because)} [{escape(tail)}]{badge}</p></div>'
    )


def rule_html(derivation: Derivation) -> str:
    """The rule as a table; with values where the derivation was given a depth."""
    depth = dict(derivation.values)
    eta = derivation.rule.eta
    head = ["of", "α", "β"] + (["factor on η"] if eta != "1" else [])
    if depth:
        where = ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())
        head += [f"α at {where}", f"β at {where}"]
    rows = []
    for entry in derivation.rule.entries:
        cells = [escape(owner(entry))]
        cells += [math(formula_mathml(f)) for f in (entry.alpha, entry.beta)]
        cells += [math(formula_mathml(eta))] if eta != "1" else []
        cells += [f"{value:.6g}" for value in entry.at(**depth)] if depth else []
        rows.append(cells)
    return table(head, rows)


def consequences_html(derivation: Derivation) -> str:
    """What follows from the rule, as powers of the depth."""
    rows = []
    for c in derivation.consequences:
        whose = c.part if c.sublayer == "*" else f"{c.part}, {c.sublayer}"
        words = ". ".join(w.rstrip(".") for w in (c.meaning, c.remark) if w)
        value = math(expression_mathml(c.value))
        rows.append([escape(c.name), escape(whose), value, escape(words)])
    return table(["quantity", "of", "order", "meaning"], rows, words=(3,))


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[int] = (),
    words: Sequence[int] = (),
) -> str:
    """A table that scrolls sideways where it does not fit; cells are HTML already."""

    def attribute(column: int) -> str:
        if column in numbers:
            return ' class="number"'
        return ' class="words"' if column in words else ""

    def cell(column: int, content: str) -> str:
        # where the page is narrow the row becomes a block, and a number needs its head beside it
        label = f' data-label="{escape(head[column])}"' if column in numbers else ""
        return f"<td{attribute(column)}{label}>{content}</td>"

    heads = "".join(f"<th{attribute(i)}>{escape(h)}</th>" for i, h in enumerate(head))
    body = "".join(
        "<tr>" + "".join(cell(i, c) for i, c in enumerate(row)) + "</tr>\n" for row in rows
    )
    # on a narrow page a table of sentences or of many columns is stacked, another scrolls
    kind = ' class="stack"' if words or len(head) > 4 else ""
    return f'<div class="wide"><table{kind}><tr>{heads}</tr>\n{body}</table></div>'


def derivation_html(derivation: Derivation) -> str:
    """A derivation as a notebook shows it: the rule, and the steps folded under it."""
    return (
        f"<div><p><b>{escape(title(derivation.selection))}</b></p>\n{rule_html(derivation)}\n"
        f"{steps_html(derivation)}\n<p>{escape(conclusion(derivation))}</p></div>"
    )
