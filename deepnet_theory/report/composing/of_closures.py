"""The closures side by side: every one's rule and what it implies, as powers of the depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.composing.of_derivation import owner, title
from deepnet_theory.report.numbers import depth_words
from deepnet_theory.spec.rule import FIRST, TO_TRAIN_WITH

if TYPE_CHECKING:
    from deepnet_theory.spec.rule import RuleEntry
    from deepnet_theory.symbolic.implications.closures_compared import Comparison

MEANING = {
    "alpha": "residual multiplier",
    "beta": "gain of the scaled matrices",
    "kappa": "learning-rate multiplier of the scaled matrices",
    "eta": "factor on the learning rate",
    "one rule with": "the first closure with these powers of S*r and eta*rho, which a change of "
    "scales leaves alone",
}


def document(comparison: Comparison) -> doc.Document:
    """One table for each entry of the rule, what its rows mean, and why closures are refused."""
    first = next(iter(comparison.rules.values()))
    sections = [
        doc.Section(owner(e.part, e.sublayer), (_table(comparison, e),)) for e in first.entries
    ]
    meaning = dict(MEANING)
    for implied in comparison.consequences.values():
        meaning |= {c.name: c.meaning for c in implied}
    if all(rule.eta == "1" for rule in comparison.rules.values()):
        del meaning["eta"]
    if all(e.rate == "1" for rule in comparison.rules.values() for e in rule.entries):
        del meaning["kappa"]
    sections.append(doc.Section("Meaning", (doc.Terms(tuple(meaning.items())),)))
    if comparison.refused:
        sections.append(doc.Section("Refused", (doc.Terms(tuple(comparison.refused.items())),)))
    return doc.Document(
        f"Closures: {title(comparison.selection)}",
        tuple(_named(comparison)),
        tuple(sections),
    )


def _named(comparison: Comparison) -> Iterator[doc.Paragraph]:
    """The closure that is derived first, and the one to train with."""
    yield doc.Paragraph(f"Without --closure, {FIRST}: {comparison.default}.")
    if comparison.training:
        condition = comparison.selection.the_placement.training_condition
        yield doc.Paragraph(
            f"{TO_TRAIN_WITH.capitalize()}: {comparison.training}. {condition}".rstrip()
        )


def _table(comparison: Comparison, entry: RuleEntry) -> doc.Table:
    """What every closure makes of one kind of sublayer; a closure is a column."""
    depth = dict(comparison.values)
    rules = comparison.rules
    own = {name: rule.entry(entry.part, entry.sublayer) for name, rule in rules.items()}
    rows: dict[str, dict[str, doc.Words]] = {
        "alpha": {name: doc.Formula(e.alpha) for name, e in own.items()},
        "beta": {name: doc.Formula(e.beta) for name, e in own.items()},
    }
    if any(e.rate != "1" for e in own.values()):
        rows["kappa"] = {name: doc.Formula(e.rate) for name, e in own.items()}
    if any(rule.eta != "1" for rule in rules.values()):
        rows["eta"] = {name: doc.Formula(rule.eta) for name, rule in rules.items()}
    if depth:
        for index, knob in enumerate(("alpha", "beta")):
            values = {name: f"{e.at(**depth)[index]:.6g}" for name, e in own.items()}
            rows[f"{knob} at {depth_words(depth)}"] = {**values}
    for closure, implied in comparison.consequences.items():
        for c in implied:
            if (c.part, c.sublayer) == (entry.part, entry.sublayer):
                rows.setdefault(c.name, {})[closure] = doc.Formula(c.value)
    told = {
        name: c.remark
        for name, implied in comparison.consequences.items()
        for c in implied
        if c.name == "failing-rate" and (c.part, c.sublayer) == (entry.part, entry.sublayer)
    }
    rows["in depth"] = {**told}
    rows["one rule with"] = {**comparison.classes}
    cells = tuple((name, *(row.get(n, "-") for n in rules)) for name, row in rows.items())
    return doc.Table(("", *rules), cells)
