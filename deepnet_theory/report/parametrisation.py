"""A published parametrisation as a document: what it does in the width, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc

if TYPE_CHECKING:
    from deepnet_theory.sizes.parametrisations import Cell, Trial, WidthJudgement

REGIMES = {
    "features": "Features move alike at every width.",
    "lazy": "Lazy: features move less in a wider model.",
    "unstable": "Unstable: features move further in a wider model.",
}
MEANING = (
    ("start", "what a role makes of an input of size 1"),
    ("moves its output", "one update, in powers of the width d; for the head, the logits"),
    ("moves the logits", "the same, as far as the head reads it"),
    ("asked", "what the conditions ask for at the published multipliers"),
    ("borrowed", "no rates are published for the optimizer: those of the scheme's own are taken"),
)


def document(judgement: WidthJudgement) -> doc.Document:
    given, judged = judgement.scheme, judgement.judged
    columns = ((of.optimizers[0], ", ".join(of.optimizers)) for of in judgement.optimizers)
    rows = (((_power(t.start, "0"), _power(t.output), _power(t.logits)), t) for t in judged.roles)
    head = ("role", "start", "moves its output", "moves the logits")
    alike = f"Up to W = c*W' in each role: {', '.join(judgement.alike)}."
    return doc.Document(
        f"{given.name} under {judgement.optimizer} across width, alignment {judgement.alignment}",
        doc.paragraphs((f"{given.summary[0].upper()}{given.summary[1:]}.", *_standing(judged))),
        (
            doc.Section(
                "What one update does", (_table(head, ((t.role, line) for line, t in rows)),)
            ),
            doc.Section("How far one update moves each output", (_every(judgement.optimizers),)),
            doc.Section("Cells", tuple(_cells(judgement.cells))),
            doc.Section("One class", doc.paragraphs([alike] if judgement.alike else ())),
            doc.Section("Meaning", (doc.Terms((*MEANING, *columns)),)),
            doc.Section("Source", doc.paragraphs(filter(None, (given.source, given.mind)))),
        ),
    )


def _standing(of: Trial) -> Iterator[str]:
    head = {t.role: t.start for t in of.roles}.get("head")
    most = max((Fraction(t.logits) for t in of.roles if t.logits), default=None)
    yield REGIMES.get(of.regime, "The rates of the matrices are not said.")
    if most is not None:
        yield f"Logits at the start: {_power(head)}; one update: {_power(str(most))}."
    if not of.published:
        yield "No rates are published for this optimizer: those of its own are taken."
    if not of.near_identity:
        yield "Warning: a branch outgrows the stream at the start, where the law of moves ends."


def _power(exponent: str | None, otherwise: str = "-") -> str:
    """``constant``, ``d^(1/2)``; ``otherwise`` where there is nothing."""
    return otherwise if exponent is None else "constant" if exponent == "0" else f"d^({exponent})"


def _table(
    head: tuple[str, ...], rows: Iterable[tuple[str, tuple[str, ...]]], short: bool = False
) -> doc.Table:
    """A line for roles that are alike; ``short`` names the first and the last of them."""
    found: dict[tuple[str, ...], list[str]] = {}
    for role, line in rows:
        roles = found.setdefault(line, [])
        roles += [role] * (role not in roles)
    if short:
        named = ((r[0] if len(r) == 1 else f"{r[0]} … {r[-1]}", line) for line, r in found.items())
        return doc.Table(head, tuple((name, *line) for name, line in named))
    return doc.Table(head, tuple((", ".join(r), *line) for line, r in found.items()), (), (0,))


def _every(trials: tuple[Trial, ...]) -> doc.Table:
    """A class of optimizers a column, named by the one that stands for it."""
    at = [{t.role: _power(t.output) for t in of.roles} for of in trials]
    roles = dict.fromkeys(role for column in at for role in column)
    lines = [
        ("rates", tuple("published" if of.published else "borrowed" for of in trials)),
        ("regime", tuple(of.regime or "-" for of in trials)),
    ]
    lines += [(role, tuple(column.get(role, "-") for column in at)) for role in roles]
    return _table(("role", *(of.optimizers[0] for of in trials)), lines, short=True)


def _cells(cells: tuple[Cell, ...]) -> Iterator[doc.Block]:
    """Published beside asked for, and why nothing is asked for somewhere."""
    rows = tuple(
        (
            f"{c.optimizer}{'' if c.alignment == 'full' else ', no alignment'}",
            c.of,
            c.quantity,
            doc.Formula(c.published),
            "-" if c.derived is None else doc.Formula(c.derived),
            "" if c.agrees else "differs",
        )
        for c in cells
    )
    if rows:
        yield doc.Table(("optimizer", "class", "", "published", "asked", ""), rows)
    for why in dict.fromkeys(c.why for c in cells if c.why):
        yield doc.Paragraph(f"Nothing is asked: {why}.")
