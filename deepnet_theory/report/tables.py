"""Tables as documents: of closures, of a published scheme in depth, of roles in the width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from deepnet_theory.definitions.selection import SHAPES
from deepnet_theory.report import document as doc
from deepnet_theory.report.document import number
from deepnet_theory.report.rule import document, owner, steps, title
from deepnet_theory.sizes.width import written

if TYPE_CHECKING:
    from deepnet_theory.definitions.scheme import Scheme
    from deepnet_theory.proof.batch import BatchDerivation
    from deepnet_theory.proof.width import WidthDerivation
    from deepnet_theory.sizes.answer import Comparison
    from deepnet_theory.sizes.batch import BatchTable
    from deepnet_theory.sizes.exponents import Judgement
    from deepnet_theory.sizes.layers import Layers
    from deepnet_theory.sizes.monomial import Monomial
    from deepnet_theory.sizes.table import ParameterRow


def comparison(c: Comparison) -> doc.Document:
    """The rule of every closure, a row an entry, and why closures are refused."""
    rows: list[tuple[doc.Words, ...]] = [
        (name, owner(e.part, e.sublayer), *map(doc.Formula, (e.alpha, e.beta, e.rate, eta, rho)))
        for name, answer in c.closures.items()
        if not isinstance(answer, str)
        for e in answer.rule.entries
        for eta, rho in [(answer.rule.eta, e.rho or "1")]
    ]
    table = doc.table("closure | of | α | β | κ | factor on η | ρ", rows)
    why = ((name, answer) for name, answer in c.closures.items() if isinstance(answer, str))
    refused = doc.Document("Refused", (doc.terms(why),))
    return doc.Document(f"Closures: {title(c.selection)}", (table, refused))


# ---- a published scheme, a part a row ----

QUANTITIES = (
    "of | change of the output | S*r, r the branch's weight | S*r^2 | rho, the relative update"
)


def scheme(judgement: Judgement) -> doc.Document:
    """What it does under the optimizer, to which parameters most, and what it sets."""
    published, parts = judgement.scheme, judgement.parts
    growing = (
        (f"{part.part}, {m.sublayer}: {m.name}", power(m.total, part.depth))
        for part in parts
        for m in part.growing
    )
    table = (
        (p.part, *(power(exponent, p.depth) for exponent in shown))
        for p in parts
        for shown in [(p.first, p.aligned, p.independent, p.relative)]
    )
    body: doc.Body = (
        (f"{published.summary}: ", doc.Formula(published.equation), "."),
        standing(parts),
        *(f"Warning: {warning}." for warning in judgement.warnings),
        doc.Document("What it does", (doc.table(QUANTITIES, table),)),
        doc.Document("Parameters whose share grows", (doc.terms(growing),)),
        doc.Document("Constants", (doc.terms(_constants(published)),)),
        doc.Document("Source", (published.source,)),
    )
    return doc.Document(f"{published.name} under {judgement.under}", body)


def power(exponent: Fraction | None, depth: str) -> str:
    """An exponent as a power of the depth: ``constant``, ``N``, ``N^(1/2)``."""
    if exponent is None:
        return "0"
    if exponent in (0, 1):
        return "constant" if exponent == 0 else depth
    return f"{depth}^({exponent})"


def standing(parts: tuple[Layers, ...]) -> str:
    """Whether a scheme balances the first order."""
    changes = []
    for part in parts:
        way = "is constant in depth"
        if part.first != 0:
            way = f"{'grows' if part.first > 0 else 'falls'} as {power(part.first, part.depth)}"
        whose = part.part if len(parts) > 1 else "output"
        changes.append(f"the {whose}'s change by one update {way}")
    return f"T{'; '.join(changes)[1:]}."


def grown(parts: tuple[Layers, ...]) -> str:
    """How the output's change by one update grows with the depth; empty where it does not."""
    growing = [(p.first, p.depth) for p in parts if p.first > 0]
    return " and ".join(f"{n}^1" if by == 1 else power(by, n) for by, n in growing)


def _constants(scheme: Scheme) -> Iterator[tuple[str, doc.Words]]:
    for part in scheme.parts:
        factors = {"alpha": part.alpha, **part.gains, "embedding": part.embedding}
        for name, formula in factors.items():
            if formula not in (None, "1"):
                yield f"{part.part}: {name}", doc.Formula(str(formula))
    several = {"rate": scheme.rates, "epsilon": scheme.epsilon}
    for what, texts in several.items():
        yield from ((f"{what} of {role}", doc.Formula(text)) for role, text in texts.items())
    if scheme.mind:
        yield "note", scheme.mind


# ---- the width, a role a row ----


COLUMNS = {  # of a row, and how the page calls them
    "init": "initial size",
    "multiplier": "multiplier",
    "rate": "learning rate",
    "epsilon": "epsilon",
    "decay": "weight decay",
}
BEHIND = {
    "gradient": "gradient",
    "update": "update",
    "action": "changes its output by",
    "coupled_decay": "coupled decay",
}


def wide(derivation: WidthDerivation, proof: bool = True) -> doc.Document:
    """The table, its numbers and conventions; with the ``proof`` sizes and every step too."""
    table, depth = derivation.table, derivation.depth
    coupled = _refused((r.coupled_refused, r.role) for r in table.rows)
    update: doc.Body = (_table(table.rows, BEHIND), *coupled)
    behind = (
        doc.Document("One update, per unit of learning rate", update),
        doc.Document("Derivation in depth", steps(depth) if depth else ()),
    )
    body: doc.Body = (
        *_answer(derivation),
        doc.Document("Conventions", table.conventions),
        doc.Document("Forced, whatever the conventions", table.forced),
        *(behind if proof else ("The sizes behind it: --steps.",)),
        (derivation.verdict, f": {derivation.shown}."),
    )
    dimensions = table.across.replace("both", "width and depth").replace(",", ", ")
    return doc.Document(f"{title(table.selection)} across {dimensions}", body)


def _answer(derivation: WidthDerivation) -> Iterator[doc.Block]:
    table = derivation.table
    kept = [row for row in table.rows if row.refused is None]
    symbols = {"width": "d", "depth": "N and M", **SHAPES}
    names = ", ".join(symbols[name] for name in sorted(table.dimensions, key="depth".__eq__))
    closure = "" if table.depth is None else f", closure {table.depth.closure}"
    if table.depth is not None:
        alphas = dict.fromkeys(e.alpha for e in table.depth.rule.entries)
        if "alpha" in (placement := table.selection.the_placement).expression.names:
            shown = (piece for a in alphas for piece in (", alpha = ", doc.Formula(a)))
            yield ("Every sublayer is ", doc.Formula(placement.equation), *shown, ".")
        yield table.selection.the_placement.training_condition
    yield f"In powers of {names}, alignment {table.alignment}, form {table.form}{closure}:"
    yield _table(kept, COLUMNS)
    if derivation.scale is not None:
        yield f"{derivation.scale.words} multiply what the base model takes by:"
        yield _table(kept, COLUMNS, derivation.scale.ratio)
    yield from _refused(((row.refused, row.role) for row in table.rows), "Refused, ")


def _refused(pairs: Iterable[tuple[str | None, str]], first: str = "") -> Iterator[str]:
    """A sentence a reason, with all roles that are refused for it."""
    for why, roles in doc.gathered(pair for pair in pairs if pair[0] is not None).items():
        yield f"{first}{', '.join(roles)}: {why}."


def _table(
    rows: Iterable[ParameterRow],
    columns: Mapping[str, str],
    ratio: Callable[[Monomial], float] | None = None,
) -> doc.TableBlock:
    """A line a role, once where sublayers agree; with a ``ratio`` numbers in place of formulas."""
    lines = dict.fromkeys(
        (row.role, *(cell(name, getattr(row, name), ratio) for name in columns)) for row in rows
    )
    sign = "" if ratio is None else ">"
    return doc.table(" | ".join(("role", *(sign + name for name in columns.values()))), lines)


def cell(name: str, size: Monomial | None, ratio: Callable[[Monomial], float] | None) -> doc.Words:
    """A size as a formula or a number; what starts at 0 is 0, what does not apply is "-"."""
    if size is None:
        return "0" if name == "init" else "-"
    return doc.Formula(written(size)) if ratio is None else number(ratio(size))


# ---- the batch, what roles share in a row ----

POWERS = {
    "rate": "learning rate",
    "decay": "weight decay",
    "coupled_decay": "coupled decay",
    "epsilon": "epsilon",
    "memory": "1 - beta",
    "memory_rate": "rate with it",
}


def _steady(table: BatchTable) -> Iterator[str]:
    """The rms that noise and decay leave of matrices, a line for each power of B and T."""
    for size in {row.weight_rms: 0 for row in table.rows if row.weight_rms}:
        in_batch, in_steps = (power(size.exponent(symbol), symbol) for symbol in "BT")
        yield (
            "Noise and decay hold a matrix at the rms √(η/(2λ))·rms(U): "
            f"{in_batch} in the batch B, {in_steps} in the number of steps T at one rate."
        )


def batch(derivation: BatchDerivation, proof: bool = True) -> doc.Document:
    """What each dial is multiplied by in B, and together with the other dimensions."""
    table, deep, across = derivation.table, derivation.deep, derivation.across
    of_roles = ((tuple(getattr(row, n) for n in POWERS), row) for row in table.rows)
    alike = doc.gathered((sizes, row.role) for sizes, row in of_roles if row.refused is None)
    lines = ((*(cell("", s, None) for s in sizes), ", ".join(to)) for sizes, to in alike.items())
    points = ((number(ratio), number(rate)) for ratio, rate in derivation.curve.items())
    closed = f"In closed form, for {derivation.premise}:" * derivation.curved
    values = doc.table(">B/B_noise | >best rate over that without noise", points)
    curve: doc.Body = (closed, values)
    others: doc.Body = ()
    if derivation.wide:
        kept = [row for row in derivation.joint if row.refused is None]
        others = (
            "In powers of all dimensions, where B_noise is of order one in each of the others:",
            _table(kept, COLUMNS),
            wide(derivation.wide, proof),
        )
    elif deep:
        others = (document(deep, proof),)
    body: doc.Body = (
        f"In powers of the batch size B, gradient noise {table.gradient_noise}:",
        doc.table(" | ".join((*POWERS.values(), "…roles")), lines),
        *_refused(((row.refused, row.role) for row in table.rows), "Refused, "),
        *_steady(table),
        doc.Document("The best rate of one update, between the regimes", curve),
        doc.Document("Conventions", table.conventions),
        *others,
        (derivation.verdict, f": {derivation.shown}."),
    )
    name = f"{title(table.selection)} across {across.replace(',', ', ')}"
    return doc.Document(name, body)
