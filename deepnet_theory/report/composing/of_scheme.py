"""A published scheme as a document: what it balances, under which optimizer, what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.spec.measured import conditions, measured

if TYPE_CHECKING:
    from deepnet_theory.sizes.judgement import Judgement, Row
    from deepnet_theory.sizes.schemes import PartTrial

MEANING = (
    ("first order", "the output's change by one update of the matrices (and of a learnt scalar)"),
    ("order k", "the change that k scaled matrices of a branch make, moved at once"),
    ("r", "the branch's weight against the identity path; S sublayers"),
    ("rho", "the relative update of the scaled matrices, in units of eta"),
)


def document(judgement: Judgement) -> doc.Document:
    """The judgement under the optimizer asked for, then under every class of optimizers."""
    scheme = judgement.scheme
    growing = tuple(
        (f"{part.part}, {m.sublayer}: {m.name}", power(m.total, part.depth))
        for part in judgement.row.parts
        for m in part.growing
    )
    return doc.Document(
        f"{scheme.name} under {judgement.under}",
        (
            doc.Paragraph((f"{scheme.summary}: ", doc.Code(scheme.equation), ".")),
            doc.Paragraph(standing(scheme.name, judgement.row)),
            *(doc.Paragraph(f"Warning: {warning}.") for warning in judgement.warnings),
        ),
        (
            doc.Section("What it does", _tables(judgement)),
            doc.Section("Parameters whose share grows", _terms(growing)),
            doc.Section("Derived here", _paragraphs(derived(judgement))),
            doc.Section("One class", _paragraphs(one_class(judgement.row))),
            doc.Section("Constants", (doc.Terms(_constants(judgement)),)),
            doc.Section("Meaning", (doc.Terms((*MEANING, *_columns(judgement))),)),
            doc.Section("Source", (doc.Paragraph(scheme.source),)),
        ),
    )


def power(exponent: Fraction | None, depth: str) -> str:
    """An exponent as a power of the depth: ``constant``, ``N^(1/2)``."""
    if exponent is None:
        return "0"
    return "constant" if exponent == 0 else f"{depth}^({exponent})"


def standing(scheme: str, row: Row) -> str:
    """Whether a scheme balances the first order, and what was measured of it."""
    told = []
    for part in row.parts:
        change = f"the {part.part if len(row.parts) > 1 else 'output'}'s change by one update"
        if part.first == 0:
            told.append(f"{change} is constant in depth")
        else:
            way = "grows" if part.first > 0 else "falls"
            told.append(f"{change} {way} as {power(part.first, part.depth)}")
    sentence = "; ".join(told)
    name, found = measured(scheme, row.optimizers)
    shown = "; ".join(f"{one.depth}^{one}" for one in found)
    seen = f" Measured under {name} at {conditions()}: {shown}." if found else ""
    return f"{sentence[0].upper()}{sentence[1:]}.{seen}"


def derived(judgement: Judgement) -> str:
    """Which selections of the engine lead to the scheme; empty where none does."""
    exact, alike = (
        [f"{rule} ({', '.join(methods)})" for rule, methods in _by_rule(judgement, of).items()]
        for of in (True, False)
    )
    told = [f"exactly by {', '.join(exact)}"] if exact else []
    told += [f"up to constants by {', '.join(alike)}"] if alike else []
    return "; ".join(told)


def _by_rule(judgement: Judgement, exact: bool) -> dict[str, list[str]]:
    """The methods that derive each rule."""
    found: dict[str, list[str]] = {}
    for source in judgement.sources:
        if source.exact == exact:
            found.setdefault(str(source.rule), []).append(source.rule.method)
    return found


def one_class(row: Row) -> str:
    """The derived rules and published schemes of the same invariants; empty where none."""
    told = [f"derived: {', '.join(map(str, row.classes))}"] if row.classes else []
    told += [f"published: {', '.join(row.alike)}"] if row.alike else []
    return "; ".join(told)


def _paragraphs(words: str) -> tuple[doc.Block, ...]:
    return (doc.Paragraph(f"{words[0].upper()}{words[1:]}."),) if words else ()


def _terms(rows: tuple[tuple[str, str], ...]) -> tuple[doc.Block, ...]:
    return (doc.Terms(rows),) if rows else ()


def _constants(judgement: Judgement) -> tuple[tuple[str, doc.Words], ...]:
    scheme = judgement.scheme
    rows: list[tuple[str, doc.Words]] = []
    for part in scheme.parts:
        rows.append((f"{part.name}: alpha", doc.Code(part.alpha)))
        rows += [(f"{part.name}: {name}", doc.Code(gain)) for name, gain in part.gains.items()]
        if part.embedding != "1":
            rows.append((f"{part.name}: embedding", doc.Code(part.embedding)))
    if scheme.gate is not None:
        rows.append(("learnt scalar", doc.Code(scheme.gate)))
    if scheme.first is not None:
        rows.append((f"first {scheme.first_layers} layers", doc.Code(scheme.first)))
    several = (("rate", scheme.rates), ("epsilon", scheme.epsilon), ("decay", scheme.weight_decay))
    for what, multipliers in several:
        rows += [(f"{what} of {role}", doc.Code(text)) for role, text in multipliers.items()]
    return (*rows, *((("mind", scheme.mind),) if scheme.mind else ()))


def _tables(judgement: Judgement) -> tuple[doc.Block, ...]:
    """One table a part: an optimizer's class is a column, named by the one that stands for it."""
    rows = _shown(judgement)
    tables = []
    for index, part in enumerate(judgement.row.parts):
        of = {row.optimizers[0]: row.parts[index] for row in rows}
        quantities = _quantities(part)
        first, *rest = (
            (name, *(told(p) for p in of.values())) for name, told in quantities.items()
        )
        found = [measured(judgement.scheme.name, row.optimizers)[1] for row in rows]
        seen = ("measured", *(str(own[index]) if own else "" for own in found))
        body = (first, *([seen] if any(found) else []), *rest)
        tables.append(doc.Table((part.part, *of), body))
    return tuple(tables)


def _shown(judgement: Judgement) -> list[Row]:
    """The row asked for first, then the others."""
    return [judgement.row, *(row for row in judgement.others if row is not judgement.row)]


def _columns(judgement: Judgement) -> list[tuple[str, str]]:
    """Which optimizers a column stands for."""
    return [(row.optimizers[0], ", ".join(row.optimizers)) for row in _shown(judgement)]


def _quantities(part: PartTrial) -> dict[str, Callable[[PartTrial], str]]:
    orders = {
        f"order {k}": lambda p, k=k: power(p.orders[k - 1], p.depth)
        for k in range(2, len(part.orders) + 1)
    }
    return {
        "first order": lambda p: power(p.first, p.depth),
        **orders,
        "S*r": lambda p: power(p.aligned, p.depth),
        "S*r^2": lambda p: power(p.independent, p.depth),
        "rho": lambda p: power(p.relative, p.depth),
    }
