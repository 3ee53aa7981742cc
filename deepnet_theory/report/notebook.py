"""Pieces of results for a notebook: one section of a derivation, one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from deepnet_theory.report.figure import power
from deepnet_theory.report.html import section_html, table
from deepnet_theory.report.latex import equation
from deepnet_theory.report.notation import formula_mathml, math
from deepnet_theory.report.outline import sections
from deepnet_theory.report.svg import Mark, Plot, Series, loglog

if TYPE_CHECKING:
    from deepnet_theory.symbolic.derivation import Derivation


@dataclass(frozen=True)
class Shown:
    """Something that a notebook shows as HTML, and elsewhere as text."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def section(derivation: Derivation, title: str) -> Shown:
    """One section of a derivation, with the numbers that its steps have in the whole.

    Raises ``ValueError`` that lists the titles where there is no such section.
    """
    found = {s.title: s for s in sections(derivation)}
    if title not in found:
        raise ValueError(f"no section {title!r}; there are: {', '.join(found)}")
    chosen = found[title]
    lines = [f"({number}) {equation(step)}" for number, step in chosen.steps]
    return Shown(section_html(derivation, chosen), "\n".join(lines))


def rules(derivations: Mapping[str, Derivation]) -> Shown:
    """The rules of several derivations, one a row."""
    rows, lines = [], []
    for name, derivation in derivations.items():
        for e in derivation.rule.entries:
            whose = e.part if e.sublayer == "*" else f"{e.part}, {e.sublayer}"
            shown = [math(formula_mathml(f)) for f in (e.alpha, e.beta, derivation.rule.eta)]
            rows.append([escape(name), escape(whose), *shown])
            lines.append(f"{name} ({whose}): alpha = {e.alpha}, beta = {e.beta}")
    head = ["", "of", "α", "β", "factor on η"]
    return Shown(table(head, rows), "\n".join(lines))


def cross(found: Any) -> Shown:
    """A cross table: the rule of each row, stepped by the optimizer of each column."""
    names = list(found.rules)
    rows = [
        [
            escape(rule),
            *(
                escape("; ".join(power(float(e)) for e in found.cell(rule, o).exponents.values()))
                for o in names
            ),
        ]
        for rule in names
    ]
    lines = ["\t".join(["rule of", *names]), *("\t".join(row) for row in rows)]
    return Shown(table(["rule of ↓, stepped by →", *names], rows), "\n".join(lines))


def losses(runs: Sequence[Any]) -> Plot:
    """Loss against step of several training runs, the first one as the own."""
    series = []
    for index, run in enumerate(runs):
        steps = [s for s in (2**k for k in range(20)) if s <= len(run.losses)]
        marks = tuple(Mark(s, *(run.losses[s - 1],) * 3) for s in steps)
        # the last word of a long name tells it: "the constants' rule", "plain pre-LN"
        name = run.rule.split(", ")[-1]
        series.append(Series(name, marks, own=index == 0, colour=2 if index == 2 else 1))
    return loglog(series, [], "step", "cross-entropy, nats per byte", "Training loss by rule")
