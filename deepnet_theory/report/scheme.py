"""A published scheme as a document: what it balances in depth, and its constants."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc

if TYPE_CHECKING:
    from deepnet_theory.sizes.exponents import PartTrial
    from deepnet_theory.sizes.schemes import Judgement, Row


def document(judgement: Judgement) -> doc.Document:
    """The judgement under the optimizer asked for, then under every class of optimizers."""
    scheme, row = judgement.scheme, judgement.row
    rows = [row, *(other for other in judgement.others if other is not row)]
    growing = (
        (f"{part.part}, {m.sublayer}: {m.name}", power(m.total, part.depth))
        for part in row.parts
        for m in part.growing
    )
    # which optimizers a column stands for
    columns = ((r.optimizers[0], ", ".join(r.optimizers)) for r in rows)
    body: doc.Body = (
        (f"{scheme.summary}: ", doc.Code(scheme.equation), "."),
        standing(row),
        *(f"Warning: {warning}." for warning in judgement.warnings),
        doc.Document("What it does", tuple(_tables(rows))),
        doc.Document("Parameters whose share grows", (doc.terms(growing),)),
        doc.Document("Constants", (doc.terms(_constants(judgement)),)),
        doc.Document("Optimizers", (doc.terms(columns),)),
        doc.Document("Source", (scheme.source,)),
    )
    return doc.Document(f"{scheme.name} under {judgement.under}", body)


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
    return f"T{'; '.join(changes)[1:]}."


def grown(row: Row) -> str:
    """How the output's change by one update grows with the depth; empty where it does not."""
    growing = [(p.first, p.depth) for p in row.parts if p.first is not None and p.first > 0]
    return " and ".join(f"{n}^1" if by == 1 else power(by, n) for by, n in growing)


def _constants(judgement: Judgement) -> Iterator[tuple[str, doc.Words]]:
    scheme = judgement.scheme
    several = (("rate", scheme.rates), ("epsilon", scheme.epsilon), ("decay", scheme.weight_decay))
    rows = [
        (f"{part.name}: {name}", formula)
        for part in scheme.parts
        for name, formula in {
            "alpha": part.alpha,
            **part.gains,
            "embedding": part.embedding,
        }.items()
    ]
    rows += [
        *((f"{part.name}: embedding", e) for part in scheme.parts if (e := part.embedding) != "1"),
        *((f"{what} of {role}", text) for what, texts in several for role, text in texts.items()),
    ]
    yield from ((name, doc.Code(text)) for name, text in rows if text)
    if scheme.mind:
        yield "mind", scheme.mind


def _tables(rows: list[Row]) -> Iterator[doc.Table]:
    """One table a part: an optimizer's class is a column, named by the one that stands for it."""
    for index, part in enumerate(rows[0].parts):
        columns = [_quantities(row.parts[index]) for row in rows]
        body = ((name, *(column[name] for column in columns)) for name in columns[0])
        yield doc.Table((part.part, *(row.optimizers[0] for row in rows)), tuple(body))


def _quantities(part: PartTrial) -> dict[str, str]:
    powers = {
        "change of the output": part.first,
        **{f"change of order {k}": order for k, order in enumerate(part.orders[1:], start=2)},
        "S*r, r the branch's weight": part.aligned,
        "S*r^2": part.independent,
        "rho, the relative update": part.relative,
    }
    return {name: power(exponent, part.depth) for name, exponent in powers.items()}
