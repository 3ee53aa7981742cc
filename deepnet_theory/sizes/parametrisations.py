r"""A published parametrisation on trial in width: what it does, and which are one.

What one update does through a role is :func:`deepnet_theory.sizes.width.judge`. A published cell
is held against what the conditions ask for at the published multipliers: c·σ by (F) and (H), the
rate by (U), ε by the size of g, a weight decay by its share of the matrix in one step.

Under W = cW′ neither c·σ changes nor how far an update moves the output, c·η·action. These are
the invariants: two parametrisations are one class where both have the same powers of d in every
matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.entries import GRADIENT, HALF, INPUTS, OUTPUTS, PARAMETER, step
from deepnet_theory.sizes.monomial import ONE, Monomial, parse, read
from deepnet_theory.sizes.width import (
    COLUMN,
    FORWARD,
    HEAD,
    SQUARE,
    TIED,
    D,
    Judged,
    Place,
    Point,
    WidthRow,
    judge,
    places,
    rule_point,
    width_table,
)
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import Optimizer, optimizer, optimizers
from deepnet_theory.spec.parametrisation import (
    ANY,
    FULL,
    SIZES,
    Column,
    Parametrisation,
    Texts,
    parametrisations,
    said,
)
from deepnet_theory.spec.results.result import Result
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import MATRICES, Role, sublayer

BEST_KNOWN = ("sgd", "adam", "lamb", "muon")  # what a class of optimizers is called by
DERIVED = "the derived rule"
OUTGROWN = "a branch outgrows the stream at the start, so that no rate serves every width"


def size(text: str) -> Monomial | None:
    """A text of a fact as a monomial in d and N, numbers left out; None for what starts at 0."""
    return None if text == "0" else read(SIZES.parse(text).root, {}).without_number


def class_of(place: Place) -> str:
    """The class of parameters that sources speak of; empty for what none of them does."""
    if place.kind is Role.KEY_BIAS or place.role in (TIED, "head-bias"):
        return ""
    if place.kind in MATRICES and place.sublayer:
        last = sublayer(place.sublayer).last_map[0]
        return "residual-output" if place.parameter == last else "hidden"
    if place.kind is Role.NORM_GAIN:
        return "final-gain" if place.role == "final-norm-gain" else "gain"
    return {Role.EMBEDDING: "embedding", Role.HEAD: "head"}.get(place.kind, "bias")


@cache
def acts(of: Optimizer) -> tuple[object, ...]:
    """All that the width knows of an update: entry and action in every shape of a matrix."""
    found: list[object] = []
    for n_in, n_out in (COLUMN, SQUARE, HEAD):
        values = {GRADIENT: ONE / D, PARAMETER: ONE, INPUTS: n_in, OUTPUTS: n_out}
        try:
            own = step(of, values)
        except Refusal:
            found.append(None)
        else:
            found.append((own.entry.without_number, own.action.without_number))
    return tuple(found)


@cache
def optimizer_classes() -> tuple[tuple[str, ...], ...]:
    """The built-in optimizers that act alike in width, the best known first."""
    found: dict[object, tuple[str, ...]] = {}
    for name, of in sorted(optimizers().items(), key=lambda item: item[0] not in BEST_KNOWN):
        found[acts(of)] = (*found.get(acts(of), ()), name)
    return tuple(found.values())


def column_of(given: Parametrisation, of: Optimizer, alignment: str) -> tuple[Column, bool]:
    """The column of an optimizer, and whether it is published for it; else that of its own.

    Raises :class:`Refusal` where nothing is published at the alignment.
    """
    columns = [c for c in given.columns if c.alignment == alignment]
    if not columns:
        raise Refusal(f"the parametrisation {given.name!r} has no rates at alignment {alignment}")
    named = [c for c in columns if c.optimizer != ANY]
    own = [c for c in named if c.optimizer == of.name]
    own += [c for c in named if acts(optimizer(c.optimizer)) == acts(of)]
    own += [c for c in columns if c.optimizer == ANY]
    return (own or columns)[0], bool(own)


# ---- what it does ----


def point_of(given: Parametrisation, selection: Selection, alignment: str) -> Point:
    """σ and c of every role in d alone; what the source leaves open is as derived."""
    found = {p.role: p for p in places(selection)}
    rule = rule_point(found, alignment, FORWARD)
    multipliers, inits = dict(rule.multipliers), dict(rule.inits)
    for role, place in found.items():
        of = class_of(place)
        drawn, c = said(given.init, of), said(given.multiplier, of)
        if drawn is not None or not place.is_matrix:
            multipliers[role] = size(c or "1") or ONE
        if drawn is not None:
            inits[role] = size(drawn)
    at_one = {"N": ONE}
    return Point(
        {role: c.put(at_one) for role, c in multipliers.items()},
        {role: sigma.put(at_one) if sigma else sigma for role, sigma in inits.items()},
    )


def _judged(
    given: Parametrisation, of: Optimizer, alignment: str, columns: tuple[Column, ...]
) -> tuple[Judged, dict[str, Monomial]]:
    """One update of an optimizer at the rates of the columns, and those rates by role."""
    known = of.name in optimizers()
    selection = Selection(
        optimizer=of.name if known else None,
        update=None if known else of.update,
        placement="branch-multiplier",
    )
    texts = ((p.role, said(c.rate, class_of(p))) for c in columns for p in places(selection))
    rates = {role: rate.put({"N": ONE}) for role, t in texts if t and (rate := size(t))}
    return judge(selection, point_of(given, selection, alignment), rates, alignment), rates


@dataclass(frozen=True)
class Through:
    """One role as powers of d: what it makes of its input, None at 0, and what an update moves."""

    role: str
    matrix: bool
    start: str | None
    output: str | None
    logits: str | None


@dataclass(frozen=True)
class Trial:
    """A parametrisation under the optimizers of one class.

    ``published`` says whether its rates are meant for them; ``near_identity`` whether every branch
    stays beside the stream, without which the law of moves ends. ``regime`` is what the matrices
    below the head do: ``unstable`` where one moves its output further in a wider model, ``lazy``
    where all within the branches move it less, ``features`` otherwise.
    """

    optimizers: tuple[str, ...]
    published: bool
    near_identity: bool
    regime: str
    roles: tuple[Through, ...]


def trial(given: Parametrisation, of: Optimizer, alignment: str = FULL) -> Trial:
    """What one update does; of a hybrid, each role at the rate of the column that names it."""
    column, published = column_of(given, of, alignment)
    columns = given.columns if given.hybrid else (column,)
    judged, rates = _judged(given, of, alignment, columns)
    return _trial([(judged, rates)], (of.name,), published and not given.hybrid)


def _trial(
    parts: list[tuple[Judged, dict[str, Monomial]]], names: tuple[str, ...], published: bool
) -> Trial:
    def power(of: Monomial | None) -> str | None:
        return None if of is None else str(of.exponent("d"))

    moved = [m for judged, rates in parts for m in judged.moved if m.row.role in rates]
    own = [m for m in moved if m.output and m.row.place.is_matrix and m.row.role != "head"]
    powers = [m.output.exponent("d") for m in own if m.output]
    inside = [m.output.exponent("d") for m in own if m.output and m.row.place.is_hidden]
    regime = "" if not inside else "lazy" if max(inside) < 0 else "features"
    return Trial(
        names,
        published,
        all(judged.near_identity for judged, _ in parts),
        "unstable" if max(powers, default=0) > 0 else regime,
        tuple(
            Through(
                m.row.role,
                m.row.place.is_matrix,
                None if m.row.init is None else power(m.enters),
                power(m.output),
                power(m.logits),
            )
            for m in moved
        ),
    )


def alike(given: Parametrisation, of: Optimizer, alignment: str = FULL) -> tuple[str, ...]:
    """The parametrisations of the same invariants, the derived rule among them."""
    own = _invariants(trial(given, of, alignment))
    found = [DERIVED] if own and own == _derived(of, alignment) else []
    for name, other in parametrisations().items():
        if name != given.name and any(c.alignment == alignment for c in other.columns):
            found += [name] if own and own == _invariants(trial(other, of, alignment)) else []
    return tuple(found)


def _invariants(of: Trial) -> dict[str, tuple[str | None, str | None]] | None:
    """c·σ and c·η·action of every matrix; None where they are not all published."""
    found = {t.role: (t.start, t.output) for t in of.roles if t.matrix}
    return (
        found
        if of.published and {"token-embedding", "query", "fc2", "head"} <= set(found)
        else None
    )


def _derived(of: Optimizer, alignment: str) -> dict[str, tuple[str | None, str | None]] | None:
    """Those of the derived rule."""
    selection = Selection(optimizer=of.name, placement="branch-multiplier")
    rule = rule_point({p.role: p for p in places(selection)}, alignment, FORWARD)
    rows = width_table(selection, alignment=alignment).rows
    rates = {row.role: row.rate for row in rows if row.rate and row.role != TIED}
    return _invariants(_trial([(judge(selection, rule, rates, alignment), rates)], (), True))


# ---- cells ----


@dataclass(frozen=True)
class Cell:
    """A published cell beside what the conditions ask for; ``why`` they ask for nothing there.

    ``quantity`` is ``multiplier*init``, ``rate``, ``epsilon`` or ``decay``.
    """

    optimizer: str
    alignment: str
    of: str
    quantity: str
    published: str
    derived: str | None
    agrees: bool
    why: str = ""


def cells(given: Parametrisation) -> tuple[Cell, ...]:
    """Every published cell of named optimizers, in N too where the derived branch is theirs."""
    columns = (c for c in given.columns if c.optimizer != ANY)
    return tuple(cell for column in columns for cell in _cells(given, column))


def _cells(given: Parametrisation, column: Column) -> Iterator[Cell]:
    of = optimizer(column.optimizer)
    judged, _ = _judged(given, of, column.alignment, (column,))
    rule = rule_point({m.row.role: m.row.place for m in judged.moved}, column.alignment, FORWARD)
    deep = _depth(given, of)
    seen: set[tuple[str, str]] = set()
    for row in (moved.row for moved in judged.moved):
        name, c = class_of(row.place), said(given.multiplier, class_of(row.place)) or "1"
        sigma = given.init.get(name, "0")
        drawn = {} if sigma == "0" else {name: f"({c})*({sigma})"}
        asked: dict[str, tuple[Texts, Monomial | None]] = {
            "multiplier*init": (drawn, rule.enters(row.place) / row.place.shape[0] ** HALF),
            "rate": (column.rate, row.rate),
            "epsilon": (column.epsilon, row.epsilon),
            "decay": (column.decay, _decay(column, row, name)),
        }
        for quantity, (texts, derived) in asked.items():
            if name not in texts or (name, quantity) in seen:
                continue
            seen.add((name, quantity))
            published = size(texts[name]) or ONE
            deeper = deep.get((row.role, quantity))
            why = row.refused or row.coupled_refused or ""
            if not judged.near_identity and quantity != "multiplier*init":
                derived, why = None, OUTGROWN
            if derived is not None:
                derived, why = derived * (deeper or ONE), ""
            ratio = published / derived if derived else D
            agrees = not ratio.exponent("d") and not (deeper and ratio.exponent("N"))
            told = None if derived is None else str(derived)
            where = (column.optimizer, column.alignment, name, quantity)
            yield Cell(*where, str(published), told, agrees, why)


def _decay(column: Column, row: WidthRow, of: str) -> Monomial | None:
    """What keeps a weight decay's share of the matrix in one step."""
    rate = size(said(column.rate, of) or "1") or ONE
    return {"coupled": row.coupled_decay, "independent": ONE}.get(column.decays, ONE / rate)


def _depth(given: Parametrisation, of: Optimizer) -> dict[tuple[str, str], Monomial]:
    """What the depth multiplies a rate and ε by, where the rule's branch is the published one."""
    selection = Selection(optimizer=of.name, placement="branch-multiplier")
    joint = width_table(selection, "both")
    (entry,) = Answer(joint.selection).rule.entries
    branch = size(given.branch) or ONE
    if branch == ONE or (branch * parse(entry.alpha)).symbols:
        return {}
    found = {}
    for row, both in zip(width_table(selection).rows, joint.rows, strict=True):
        for quantity in ("rate", "epsilon"):
            own, deep = getattr(row, quantity), getattr(both, quantity)
            if own and deep:
                found[row.role, quantity] = (deep / own).without_number
    return found


# ---- the judgement ----


@dataclass(frozen=True)
class WidthJudgement(Result):
    """A parametrisation under the optimizer asked for, and under every class of built-in ones."""

    schema: ClassVar[str] = "deepnet-theory/parametrisation/1"
    scheme: Parametrisation
    optimizer: str
    alignment: str
    judged: Trial
    optimizers: tuple[Trial, ...]
    cells: tuple[Cell, ...]
    alike: tuple[str, ...]


def judge_parametrisation(
    given: Parametrisation, under: Optimizer | None = None, alignment: str = FULL
) -> WidthJudgement:
    """Judge a parametrisation under an optimizer, its own by default, and under every class.

    Raises :class:`Refusal` where it has no rates at the alignment.
    """
    first = given.columns[0].optimizer
    own = under or optimizer("adam" if first == ANY else first)
    judged = trial(given, own, alignment)
    if given.hybrid and under is None:
        names = tuple(c.optimizer for c in given.columns)
        each = [_judged(given, optimizer(c.optimizer), alignment, (c,)) for c in given.columns]
        judged = _trial(each, names, True)
    others = (
        replace(trial(given, optimizer(names[0]), alignment), optimizers=names)
        for names in optimizer_classes()
    )
    return WidthJudgement(
        given,
        ", ".join(judged.optimizers),
        alignment,
        judged,
        tuple(others),
        cells(given),
        alike(given, own, alignment),
    )
