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
from deepnet_theory.spec.results.measurement import Result
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import MATRICES, Role, sublayer

BEST_KNOWN = ("sgd", "adam", "lamb", "muon")  # what a class of optimizers is called by
OF_EACH_CLASS = ("token-embedding", "query", "fc1", "output", "fc2", "head")
AT_ONE = {"N": ONE}  # what is left of the depth in the width alone
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


def _stack(of: Optimizer) -> Selection:
    """Pre-LN with a factor on the branch, under an optimizer."""
    name, update = (of.name, None) if of.name in optimizers() else (None, of.update)
    return Selection(optimizer=name, update=update, placement="branch-multiplier")


def point_of(given: Parametrisation, selection: Selection, alignment: str) -> Point:
    """σ and c of every role in d alone; what the source leaves open is as derived."""
    found = {p.role: p for p in places(selection)}
    rule = rule_point(found, alignment, FORWARD)
    multipliers, inits = dict(rule.multipliers), dict(rule.inits)
    for role, place in found.items():
        drawn, c = (said(texts, class_of(place)) for texts in (given.init, given.multiplier))
        if drawn is not None:
            inits[role] = size(drawn)
        if drawn is not None or not place.is_matrix:
            multipliers[role] = size(c or "1") or ONE
    return Point(
        {role: c.put(AT_ONE) for role, c in multipliers.items()},
        {role: sigma.put(AT_ONE) if sigma else sigma for role, sigma in inits.items()},
    )


@dataclass(frozen=True)
class Through:
    """One role as powers of d: what it makes of its input, None at 0, and what an update moves."""

    role: str
    start: str | None
    output: str | None
    logits: str | None


@dataclass(frozen=True)
class Trial:
    """A parametrisation under the optimizers of one class.

    ``published`` says whether its rates are meant for them; ``near_identity`` whether every branch
    stays beside the stream; the law of moves ends without it. ``regime`` is what the matrices
    below the head do: ``unstable`` where one moves its output further in a wider model, ``lazy``
    where all within the branches move it less, ``features`` otherwise.
    """

    optimizers: tuple[str, ...]
    published: bool
    near_identity: bool
    regime: str
    roles: tuple[Through, ...]


def trial(given: Parametrisation, under: Optimizer | None = None, alignment: str = FULL) -> Trial:
    """What one update does under an optimizer, by default its own.

    Of a hybrid's own each role steps by the column that names it.
    """
    steps: list[tuple[Optimizer, tuple[Column, ...]]]
    if given.hybrid and under is None:
        steps = [(optimizer(c.optimizer), (c,)) for c in given.columns]
        published = True
    else:
        of = under or own_optimizer(given)
        column, published = column_of(given, of, alignment)
        steps = [(of, given.columns if given.hybrid else (column,))]
    moved, near_identity = [], True
    for of, columns in steps:
        rates = rates_of(columns, _stack(of))
        judged = judge(_stack(of), point_of(given, _stack(of), alignment), rates, alignment)
        moved += [m for m in judged.moved if m.row.role in rates]
        near_identity &= judged.near_identity
    own = [(m, m.output.exponent("d")) for m in moved if m.output and m.row.place.is_matrix]
    below = max((power for m, power in own if m.row.role != "head"), default=0)
    inside = max((power for m, power in own if m.row.place.is_hidden), default=None)
    regime = "" if inside is None else "lazy" if inside < 0 else "features"
    return Trial(
        tuple(of.name for of, _ in steps),
        published,
        near_identity,
        "unstable" if below > 0 else regime,
        tuple(
            Through(
                m.row.role,
                None if m.row.init is None else _power(m.enters),
                _power(m.output),
                _power(m.logits),
            )
            for m in moved
        ),
    )


def own_optimizer(given: Parametrisation) -> Optimizer:
    first = given.columns[0].optimizer
    return optimizer("adam" if first == ANY else first)


def rates_of(columns: tuple[Column, ...], selection: Selection) -> dict[str, Monomial]:
    """The learning rate in d of every role that the columns speak of."""
    texts = ((p.role, said(c.rate, class_of(p))) for c in columns for p in places(selection))
    return {role: rate.put(AT_ONE) for role, t in texts if t and (rate := size(t))}


def _power(of: Monomial | None) -> str | None:
    return None if of is None else str(of.exponent("d"))


# ---- one class ----


def derived(of: Optimizer, alignment: str = FULL) -> Parametrisation:
    """The derived rule as a parametrisation, which goes through the same trial."""
    rows = {class_of(r.place): r for r in width_table(_stack(of), alignment=alignment).rows}
    rows.pop("")
    return Parametrisation(
        name="derived",
        init={name: str(row.init) for name, row in rows.items() if row.place.is_matrix},
        multiplier={name: str(row.multiplier) for name, row in rows.items()},
        columns=(
            Column(
                of.name,
                {name: str(row.rate) for name, row in rows.items() if row.rate},
                {name: str(row.epsilon) for name, row in rows.items() if row.epsilon},
                alignment=alignment,
            ),
        ),
        summary="the derived rule",
        source="derived here",
    )


def alike(given: Parametrisation, of: Optimizer, alignment: str = FULL) -> tuple[str, ...]:
    """The parametrisations of the same invariants, ``derived`` among them."""
    every = {"derived": derived(of, alignment), **parametrisations()}
    found = {
        name: _invariants(trial(other, of, alignment))
        for name, other in {**every, given.name: given}.items()
        if any(c.alignment == alignment for c in other.columns)
    }
    own = found.pop(given.name)
    return tuple(name for name, invariants in found.items() if own and invariants == own)


def _invariants(of: Trial) -> dict[str, tuple[str | None, str | None]]:
    """c·σ and c·η·action by class of matrices; empty where they are not all published."""
    found = {t.role: (t.start, t.output) for t in of.roles if t.role in OF_EACH_CLASS}
    return found if of.published and len(found) == len(OF_EACH_CLASS) else {}


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
    point = point_of(given, _stack(of), column.alignment)
    judged = judge(_stack(of), point, {}, column.alignment)
    rule = rule_point({m.row.role: m.row.place for m in judged.moved}, column.alignment, FORWARD)
    deep = _depth(given, of)
    seen: set[tuple[str, str]] = set()
    for row in (moved.row for moved in judged.moved):
        name, c = class_of(row.place), said(given.multiplier, class_of(row.place)) or "1"
        sigma = given.init.get(name, "0")
        enters = {} if sigma == "0" else {name: f"({c})*({sigma})"}
        asked: dict[str, tuple[Texts, Monomial | None]] = {
            "multiplier*init": (enters, rule.enters(row.place) / row.place.shape[0] ** HALF),
            "rate": (column.rate, row.rate),
            "epsilon": (column.epsilon, row.epsilon),
            "decay": (column.decay, _decay(column, row, name)),
        }
        for quantity, (texts, value) in asked.items():
            if name not in texts or (name, quantity) in seen:
                continue
            seen.add((name, quantity))
            why = row.refused or row.coupled_refused or ""
            if not judged.near_identity and quantity != "multiplier*init":
                value, why = None, OUTGROWN
            published, deeper = size(texts[name]) or ONE, deep.get((row.role, quantity))
            value = value and value * (deeper or ONE)
            ratio = published / value if value else D
            agrees = not ratio.exponent("d") and not (deeper and ratio.exponent("N"))
            where = (column.optimizer, column.alignment, name, quantity, str(published))
            yield Cell(*where, str(value) if value else None, agrees, "" if value else why)


def _decay(column: Column, row: WidthRow, of: str) -> Monomial | None:
    """What keeps a weight decay's share of the matrix in one step."""
    rate = size(said(column.rate, of) or "1") or ONE
    return {"coupled": row.coupled_decay, "independent": ONE}.get(column.decays, ONE / rate)


def _depth(given: Parametrisation, of: Optimizer) -> dict[tuple[str, str], Monomial]:
    """What the depth multiplies a rate and ε by, where the rule's branch is the published one."""
    selection = _stack(of)
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
    judged = trial(given, under, alignment)
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
        alike(given, under or own_optimizer(given), alignment),
    )
