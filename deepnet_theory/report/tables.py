"""Tables as documents: of closures, of a published scheme in depth, of roles in what grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from deepnet_theory.definitions.selection import SHAPES
from deepnet_theory.report import document as doc
from deepnet_theory.report.document import number
from deepnet_theory.report.rule import document, owner, short, steps, title
from deepnet_theory.sizes.width import in_order, written

if TYPE_CHECKING:
    from deepnet_theory.definitions.scheme import Scheme
    from deepnet_theory.proof.width import RoleDerivation
    from deepnet_theory.sizes.answer import Comparison
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


# ---- what grows, a role a row ----


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
IN_BATCH = {
    "coupled_decay": "coupled decay",
    "memory": "1 - beta",
    "memory_rate": "rate with it",
}


def roles(derivation: RoleDerivation, proof: bool = True) -> doc.Document:
    """The table, its numbers and conventions; with the ``proof`` sizes and every step too."""
    table, depth = derivation.table, derivation.depth
    coupled = _refused((r.coupled_refused, r.role) for r in table.rows)
    update: doc.Body = (_table(table.rows, BEHIND), *coupled) if table.in_width else ()
    behind = (
        doc.Document("One update, per unit of learning rate", update),
        doc.Document("Derivation in depth", steps(depth) if depth and table.in_width else ()),
    )
    alone = ((document if proof else short)(depth),) if depth and not table.in_width else ()
    curve = _curve(derivation) if derivation.curved else ()
    body: doc.Body = (
        *_answer(derivation),
        doc.Document("The best rate of one update, between the regimes", curve),
        doc.Document("Conventions", table.conventions),
        doc.Document("Forced, whatever the conventions", table.forced),
        *alone,
        *(behind if proof else ("The sizes behind it: --steps.",) * table.in_width),
        (derivation.verdict, f": {derivation.shown}."),
    )
    dimensions = table.across.replace("both", "width and depth").replace(",", ", ")
    return doc.Document(f"{title(table.selection)} across {dimensions}", body)


def _answer(derivation: RoleDerivation) -> Iterator[doc.Block]:
    table = derivation.table
    kept = [row for row in table.rows if row.refused is None]
    symbols = {"width": "d", "depth": "N and M", **SHAPES, "batch": "the batch size B"}
    names = ", ".join(symbols[name] for name in in_order(table.dimensions))
    closure = "" if table.depth is None else f", closure {table.depth.closure}"
    if table.depth is not None:
        alphas = dict.fromkeys(e.alpha for e in table.depth.rule.entries)
        if "alpha" in (placement := table.selection.the_placement).expression.names:
            shown = (piece for a in alphas for piece in (", alpha = ", doc.Formula(a)))
            yield ("Every sublayer is ", doc.Formula(placement.equation), *shown, ".")
        yield table.selection.the_placement.training_condition
    form = f", alignment {table.alignment}, form {table.form}" if table.in_width else ""
    noise = f", gradient noise {table.gradient_noise}" if table.batch else ""
    yield f"In powers of {names}{form}{closure}{noise}:"
    yield _table(kept, COLUMNS | IN_BATCH if table.batch else COLUMNS)
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
    rows = tuple(rows)
    names = [name for name in columns if any(getattr(row, name) is not None for row in rows)]
    cells = ((tuple(cell(n, getattr(row, n), ratio) for n in names), row.role) for row in rows)
    heads = (("" if ratio is None else ">") + columns[name] for name in names)
    if {"init", "update"}.isdisjoint(names):  # in the batch, where most roles are alike
        gathered = doc.gathered(cells).items()
        lines = [(*own, ", ".join(roles)) for own, roles in gathered]
        return doc.table(" | ".join((*heads, "…roles")), lines)
    return doc.table(" | ".join(("role", *heads)), dict.fromkeys((r, *own) for own, r in cells))


def cell(name: str, size: Monomial | None, ratio: Callable[[Monomial], float] | None) -> doc.Words:
    """A size as a formula or a number; what starts at 0 is 0, what does not apply is "-"."""
    if size is None:
        return "0" if name == "init" else "-"
    return doc.Formula(written(size)) if ratio is None else number(ratio(size))


# ---- the batch, between its regimes ----

CURVE = "The best rate of one update: the line by its law, the points by normal draws."


def _curve(derivation: RoleDerivation) -> doc.Body:
    """The curve between the regimes beside normal draws."""
    curve, of = derivation.curve, derivation.premise
    found = [f.found for f in derivation.measured if f.of.endswith("/batch/curve")]
    shown = zip(curve, map(float, found), strict=True)
    marks = tuple(doc.Mark(ratio, rate, rate, rate) for ratio, rate in shown)
    series = doc.Series(f"for {of}", marks, tuple(curve.items()))
    label = "best rate over that without noise"
    points = (tuple(map(number, point)) for point in curve.items())
    return (
        f"In closed form, for {of}:",
        doc.table(f">B/B_noise | >{label}", points),
        doc.Figure(((title(derivation.table.selection), (series,)),), "B/B_noise", label, CURVE),
    )
