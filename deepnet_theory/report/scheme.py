"""A published scheme as a document: what it balances in depth, and what it does in the width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.scheme import conditions, measured
from deepnet_theory.report import document as doc

if TYPE_CHECKING:
    from deepnet_theory.sizes.exponents import PartTrial
    from deepnet_theory.sizes.parametrisations import Cell, Trial, WidthJudgement
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
                standing(scheme.name, row),
                *(f"Warning: {warning}." for warning in judgement.warnings),
            )
        ),
        (
            doc.Section("What it does", _tables(judgement)),
            doc.Section("Parameters whose share grows", (doc.Terms(growing),)),
            doc.Section("Derived here", _sentence(derived(judgement))),
            doc.Section("One class", _sentence(_one_class(row))),
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


def standing(scheme: str, row: Row) -> str:
    """Whether a scheme balances the first order, and what was measured of it."""
    changes = []
    for part in row.parts:
        way = "is constant in depth"
        if part.first != 0:
            way = f"{'grows' if part.first > 0 else 'falls'} as {power(part.first, part.depth)}"
        whose = part.part if len(row.parts) > 1 else "output"
        changes.append(f"the {whose}'s change by one update {way}")
    name, slopes = measured(scheme, row.optimizers)
    shown = "; ".join(f"{one.depth}^{one}" for one in slopes)
    seen = f" Measured under {name} at {conditions()}: {shown}." if slopes else ""
    return f"{_begun('; '.join(changes))}.{seen}"


def derived(judgement: Judgement) -> str:
    """Which selections of the engine lead to the scheme; empty where none does."""
    ways = []
    for exact, how in ((True, "exactly by"), (False, "up to constants by")):
        methods = doc.gathered(
            (str(source.rule), source.rule.method)
            for source in judgement.sources
            if source.exact == exact
        )
        rules = ", ".join(f"{rule} ({', '.join(by)})" for rule, by in methods.items())
        ways += [f"{how} {rules}"] if rules else []
    return "; ".join(ways)


def _one_class(row: Row) -> str:
    rules = [f"derived: {', '.join(map(str, row.classes))}"] if row.classes else []
    rules += [f"published: {', '.join(row.alike)}"] if row.alike else []
    return "; ".join(rules)


def _begun(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def _sentence(words: str) -> tuple[doc.Block, ...]:
    return doc.paragraphs([_begun(words) + "." * bool(words)])


def _constants(judgement: Judgement) -> tuple[tuple[str, doc.Words], ...]:
    scheme = judgement.scheme
    rows: dict[str, str | None] = {}
    if scheme.placement.streams is not None:
        one = scheme.of_one_stream
        rows = {"output": scheme.output, "moves as one stream": one.equation}
        rows |= {f"{p.name}: its alpha": p.alpha for p in one.parts if p not in scheme.parts}
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
    slopes = [measured(judgement.scheme.name, row.optimizers)[1] for row in rows]
    tables = []
    for index, part in enumerate(judgement.row.parts):
        columns = [_quantities(row.parts[index]) for row in rows]
        for column, slope in zip(columns, slopes, strict=True):
            if slope and slope[index].verdict == Verdict.REFUTED.value:
                column["first order"] += f" ({slope[index].verdict})"
        body = [(name, *(column[name] for column in columns)) for name in columns[0]]
        if any(slopes):
            body.insert(1, ("measured", *(str(slope[index]) if slope else "" for slope in slopes)))
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


# in the width, cell by cell

REGIMES = {
    "features": "Features move alike at every width.",
    "lazy": "Lazy: features move less in a wider model.",
    "unstable": "Unstable: features move further in a wider model.",
}
MEANING_IN_WIDTH = (
    ("start", "what a role makes of an input of size 1"),
    ("moves its output", "one update, in powers of the width d; for the head, the logits"),
    ("moves the logits", "the same, as far as the head reads it"),
    ("asked", "what the conditions ask for at the published multipliers"),
    ("borrowed", "no rates are published for the optimizer: those of the scheme's own are taken"),
)


def width_document(judgement: WidthJudgement) -> doc.Document:
    given, judged = judgement.scheme, judgement.judged
    columns = ((t.optimizers[0], ", ".join(t.optimizers)) for t in judgement.optimizers)
    rows = (((_power(t.start, "0"), _power(t.output), _power(t.logits)), t) for t in judged.roles)
    head = ("role", "start", "moves its output", "moves the logits")
    alike = f"Up to W = c*W' in each role: {', '.join(judgement.alike)}." * bool(judgement.alike)
    return doc.Document(
        f"{given.name} under {judgement.optimizer} across width, alignment {judgement.alignment}",
        doc.paragraphs((f"{_begun(given.summary)}.", *_standing(judged))),
        (
            doc.Section(
                "What one update does", (_alike(head, ((t.role, line) for line, t in rows)),)
            ),
            doc.Section("How far one update moves each output", (_every(judgement.optimizers),)),
            doc.Section("Cells", tuple(_cells(judgement.cells))),
            doc.Section("One class", doc.paragraphs([alike])),
            doc.Section("Meaning", (doc.Terms((*MEANING_IN_WIDTH, *columns)),)),
            doc.Section("Source", doc.paragraphs((given.source, given.mind or ""))),
        ),
    )


def _standing(trial: Trial) -> Iterator[str]:
    head = {t.role: t.start for t in trial.roles}.get("head")
    most = max((Fraction(t.logits) for t in trial.roles if t.logits), default=None)
    yield REGIMES.get(trial.regime, "The rates of the matrices are not said.")
    if most is not None:
        yield f"Logits at the start: {_power(head)}; one update: {_power(str(most))}."
    if not trial.published:
        yield "No rates are published for this optimizer: those of its own are taken."
    if not trial.near_identity:
        yield "Warning: a branch outgrows the stream at the start, where the law of moves ends."


def _power(exponent: str | None, otherwise: str = "-") -> str:
    """``constant``, ``d^(1/2)``; ``otherwise`` where there is nothing."""
    return otherwise if exponent is None else power(Fraction(exponent), "d")


def _alike(
    head: tuple[str, ...], rows: Iterable[tuple[str, tuple[str, ...]]], short: bool = False
) -> doc.Table:
    """A line for roles that are alike; ``short`` names the first and the last of them."""
    lines = doc.gathered((line, role) for role, line in rows)
    if short:
        named = ((r[0] if len(r) == 1 else f"{r[0]} … {r[-1]}", line) for line, r in lines.items())
        return doc.Table(head, tuple((name, *line) for name, line in named))
    return doc.Table(head, tuple((", ".join(r), *line) for line, r in lines.items()), (), (0,))


def _every(trials: tuple[Trial, ...]) -> doc.Table:
    """A class of optimizers a column, named by the one that stands for it."""
    columns = [{t.role: _power(t.output) for t in trial.roles} for trial in trials]
    roles = dict.fromkeys(role for column in columns for role in column)
    lines = [
        ("rates", tuple("published" if trial.published else "borrowed" for trial in trials)),
        ("regime", tuple(trial.regime or "-" for trial in trials)),
    ]
    lines += [(role, tuple(column.get(role, "-") for column in columns)) for role in roles]
    return _alike(("role", *(trial.optimizers[0] for trial in trials)), lines, short=True)


def _cells(cells: tuple[Cell, ...]) -> Iterator[doc.Block]:
    """Published beside asked for, and why nothing is asked for somewhere."""
    rows = (
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
    yield doc.table("optimizer | class | | published | asked | ", rows)
    for why in dict.fromkeys(c.why for c in cells if c.why):
        yield doc.Paragraph(f"Nothing is asked: {why}.")
