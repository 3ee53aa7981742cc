"""A published scheme as a document: what it balances in depth, and what it does in the width."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc

if TYPE_CHECKING:
    from deepnet_theory.sizes.exponents import PartTrial
    from deepnet_theory.sizes.schemes import Judgement, Row

MEANING = (
    ("first order", "the output's change by one update of the matrices (and of a learnt scalar)"),
    ("order k", "the change that k scaled matrices of a branch make, moved at once"),
    ("r", "the branch's weight against the identity path; S sublayers"),
    ("rho", "the relative update of the scaled matrices, in units of eta"),
)


def document(judgement: Judgement) -> doc.Document:
    """The judgement under the optimizer asked for, then under every class of optimizers."""
    scheme, row = judgement.scheme, judgement.row
    growing = tuple(
        (f"{part.part}, {m.sublayer}: {m.name}", power(m.total, part.depth))
        for part in row.parts
        for m in part.growing
    )
    # which optimizers a column stands for
    columns = ((r.optimizers[0], ", ".join(r.optimizers)) for r in _rows(judgement))
    return doc.Document(
        f"{scheme.name} under {judgement.under}",
        doc.paragraphs(
            (
                (f"{scheme.summary}: ", doc.Code(scheme.equations), "."),
                standing(row),
                *(f"Warning: {warning}." for warning in judgement.warnings),
            )
        ),
        (
            doc.Section("What it does", _tables(judgement)),
            doc.Section("Parameters whose share grows", (doc.Terms(growing),)),
            doc.Section("Constants", (doc.Terms(_constants(judgement)),)),
            doc.Section("Meaning", (doc.Terms((*MEANING, *columns)),)),
            doc.Section("Source", (doc.Paragraph(scheme.source),)),
        ),
    )


def power(exponent: Fraction | None, depth: str) -> str:
    """An exponent as a power of the depth: ``constant``, ``N^(1/2)``."""
    if exponent is None:
        return "0"
    return "constant" if exponent == 0 else f"{depth}^({exponent})"


def standing(row: Row) -> str:
    """Whether a scheme balances the first order."""
    changes = []
    for part in row.parts:
        way = "is constant in depth"
        if part.first != 0:
            way = f"{'grows' if part.first > 0 else 'falls'} as {power(part.first, part.depth)}"
        whose = part.part if len(row.parts) > 1 else "output"
        changes.append(f"the {whose}'s change by one update {way}")
    return f"{_begun('; '.join(changes))}."


def grown(row: Row) -> str:
    """How the output's change by one update grows with the depth; empty where it does not."""
    growing = [(p.first, p.depth) for p in row.parts if p.first is not None and p.first > 0]
    return " and ".join(f"{n}^1" if by == 1 else power(by, n) for by, n in growing)


def _begun(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def _sentence(words: str) -> tuple[doc.Block, ...]:
    return doc.paragraphs([_begun(words) + "." * bool(words)])


def _constants(judgement: Judgement) -> tuple[tuple[str, doc.Words], ...]:
    scheme = judgement.scheme
    rows: dict[str, str | None] = {}
    for part in scheme.parts:
        rows[f"{part.name}: alpha"] = part.alpha
        rows |= {f"{part.name}: {name}": gain for name, gain in part.gains.items()}
        if part.embedding != "1":
            rows[f"{part.name}: embedding"] = part.embedding
    gate = None if scheme.gate is None else f"{scheme.gate:g}"
    rows |= {"learnt scalar": gate, f"first {scheme.first_layers} layers": scheme.first}
    several = (("rate", scheme.rates), ("epsilon", scheme.epsilon), ("decay", scheme.weight_decay))
    for what, multipliers in several:
        rows |= {f"{what} of {role}": text for role, text in multipliers.items()}
    mind = (("mind", scheme.mind),) if scheme.mind else ()
    return (*((name, doc.Code(text)) for name, text in rows.items() if text is not None), *mind)


def _tables(judgement: Judgement) -> tuple[doc.Block, ...]:
    """One table a part: an optimizer's class is a column, named by the one that stands for it."""
    rows = _rows(judgement)
    tables = []
    for index, part in enumerate(judgement.row.parts):
        columns = [_quantities(row.parts[index]) for row in rows]
        body = [(name, *(column[name] for column in columns)) for name in columns[0]]
        tables.append(doc.Table((part.part, *(row.optimizers[0] for row in rows)), tuple(body)))
    return tuple(tables)


def _rows(judgement: Judgement) -> list[Row]:
    """The row asked for first, then the others."""
    return [judgement.row, *(row for row in judgement.others if row is not judgement.row)]


def _quantities(part: PartTrial) -> dict[str, str]:
    powers = {
        "first order": part.first,
        **{f"order {k}": order for k, order in enumerate(part.orders[1:], start=2)},
        "S*r": part.aligned,
        "S*r^2": part.independent,
        "rho": part.relative,
    }
    return {name: power(exponent, part.depth) for name, exponent in powers.items()}
