r"""A published parametrisation on trial in width: what it does, and which are one.

What one update does through a role is :func:`deepnet_theory.sizes.width.judge`. A published cell
is held against what the conditions ask for at the published multipliers: c·σ by (F) and (H), the
rate by (U), ε by the size of g, a weight decay by its share of the matrix in one step.

Under W = cW′ neither c·σ changes nor how far an update moves the output, c·η·action. These are
the invariants: two parametrisations are one class where both have the same powers of d in every
matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import ClassVar

from deepnet_theory.definitions.measurement import Result, Scaling
from deepnet_theory.definitions.optimizer import Optimizer, optimizer, optimizers
from deepnet_theory.definitions.outcome import Refusal, unknown
from deepnet_theory.definitions.parametrisation import (
    ANY,
    FULL,
    SIZES,
    Column,
    Parametrisation,
    Texts,
    parametrisations,
    said,
)
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role, sublayer
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.monomial import ONE, Monomial, parse, read
from deepnet_theory.sizes.update import GRADIENT, HALF, PARAMETER, counts, step
from deepnet_theory.sizes.width import (
    COLUMN,
    FORWARD,
    HEAD,
    SQUARE,
    TIED,
    D,
    Moved,
    Place,
    Point,
    Shape,
    judge,
    places,
    rule_point,
    width_table,
)
from deepnet_theory.sizes.width import width_table as table

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
def acts(under: Optimizer) -> tuple[object, ...]:
    """All that the width knows of an update: entry and action in every shape of a matrix."""

    def act(shape: Shape, is_table: bool) -> tuple[Monomial, ...] | None:
        values = counts(shape, is_table=is_table)
        try:
            u = step(under, {GRADIENT: ONE / D, PARAMETER: ONE, **values})
        except Refusal:
            return None
        return tuple(size.put(values).without_number for size in (u.entry, u.action))

    shapes = ((COLUMN, False), (COLUMN, True), (SQUARE, False), (HEAD, False))
    return tuple(act(*shape) for shape in shapes)


@cache
def optimizer_classes() -> tuple[tuple[str, ...], ...]:
    """The built-in optimizers that act alike in width, the best known first."""
    classes: dict[object, tuple[str, ...]] = {}
    for name, under in sorted(optimizers().items(), key=lambda item: item[0] not in BEST_KNOWN):
        classes[acts(under)] = (*classes.get(acts(under), ()), name)
    return tuple(classes.values())


def column_of(given: Parametrisation, under: Optimizer, alignment: str) -> tuple[Column, bool]:
    """The column of an optimizer, and whether it is published for it; else that of its own.

    Raises :class:`Refusal` where nothing is published at the alignment.
    """
    columns = [c for c in given.columns if c.alignment == alignment]
    if not columns:
        raise Refusal(f"the parametrisation {given.name!r} has no rates at alignment {alignment}")
    meant: tuple[Callable[[Column], bool], ...] = (
        lambda c: c.optimizer == under.name,
        lambda c: c.optimizer != ANY and acts(optimizer(c.optimizer)) == acts(under),
        lambda c: c.optimizer == ANY,
    )
    published = [c for is_meant in meant for c in columns if is_meant(c)]
    return (published or columns)[0], bool(published)


# ---- what it does ----


def _stack(under: Optimizer) -> Selection:
    """Pre-LN with a factor on the branch, under an optimizer."""
    name, update = (under.name, None) if under.name in optimizers() else (None, under.update)
    return Selection(optimizer=name, update=update, placement="branch-multiplier")


def point_of(given: Parametrisation, selection: Selection, alignment: str) -> Point:
    """σ and c of every role in d alone; what the source leaves open is as derived."""
    roles = {p.role: p for p in places(selection)}
    rule = rule_point(roles, alignment, FORWARD)
    multipliers, inits = dict(rule.multipliers), dict(rule.inits)
    for role, place in roles.items():
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
        under = under or own_optimizer(given)
        column, published = column_of(given, under, alignment)
        steps = [(under, given.columns if given.hybrid else (column,))]
    moved: list[Moved] = []
    near_identity = True
    for stepping, columns in steps:
        selection = _stack(stepping)
        rates = rates_of(columns, selection)
        judged = judge(selection, point_of(given, selection, alignment), rates, alignment)
        moved += [m for m in judged.moved if m.row.role in rates]
        near_identity &= judged.near_identity
    matrices = [m for m in moved if m.output and m.row.place.is_matrix]
    below = [_power(m.output) for m in matrices if m.row.role != "head"]
    inside = [_power(m.output) for m in matrices if m.row.place.is_hidden]
    regime = "" if not inside else "lazy" if max(inside) < 0 else "features"
    return Trial(
        tuple(stepping.name for stepping, _ in steps),
        published,
        near_identity,
        "unstable" if max(below, default=Fraction(0)) > 0 else regime,
        tuple(
            Through(
                m.row.role,
                *(
                    str(_power(moves)) if moves else None
                    for moves in (m.enters if m.row.init else None, m.output, m.logits)
                ),
            )
            for m in moved
        ),
    )


def _power(moves: Monomial | None) -> Fraction:
    return (moves or ONE).exponent("d")


def own_optimizer(given: Parametrisation) -> Optimizer:
    first = given.columns[0].optimizer
    return optimizer("adam" if first == ANY else first)


def rates_of(columns: tuple[Column, ...], selection: Selection) -> dict[str, Monomial]:
    """The learning rate in d of every role that the columns speak of."""
    texts = ((p.role, said(c.rate, class_of(p))) for c in columns for p in places(selection))
    return {role: rate.put(AT_ONE) for role, t in texts if t and (rate := size(t))}


# ---- one class ----


def derived(under: Optimizer, alignment: str = FULL) -> Parametrisation:
    """The derived rule as a parametrisation, which goes through the same trial."""
    rows = {class_of(r.place): r for r in width_table(_stack(under), alignment=alignment).rows}
    rows.pop("")

    def texts(quantity: str) -> dict[str, str]:
        values = {name: getattr(row, quantity) for name, row in rows.items()}
        return {name: str(value) for name, value in values.items() if value is not None}

    return Parametrisation(
        name="derived",
        init={name: text for name, text in texts("init").items() if rows[name].place.is_matrix},
        multiplier=texts("multiplier"),
        columns=(Column(under.name, texts("rate"), texts("epsilon"), alignment=alignment),),
        summary="the derived rule",
        source="derived here",
    )


def alike(given: Parametrisation, under: Optimizer, alignment: str = FULL) -> tuple[str, ...]:
    """The parametrisations of the same invariants, ``derived`` among them.

    They are c·σ and c·η·action by class of matrices, where these are all published.
    """
    invariants = {}
    others = {"derived": derived(under, alignment), **parametrisations(), given.name: given}
    for name, other in others.items():
        if any(c.alignment == alignment for c in other.columns):
            tried = trial(other, under, alignment)
            by_role = {t.role: (t.start, t.output) for t in tried.roles if t.role in OF_EACH_CLASS}
            if tried.published and len(by_role) == len(OF_EACH_CLASS):
                invariants[name] = by_role
    mine = invariants.pop(given.name, None)
    return tuple(name for name, theirs in invariants.items() if theirs == mine)


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
    under = optimizer(column.optimizer)
    point = point_of(given, _stack(under), column.alignment)
    judged = judge(_stack(under), point, {}, column.alignment)
    rule = rule_point({m.row.role: m.row.place for m in judged.moved}, column.alignment, FORWARD)
    deep = _depth(given, under)
    seen: set[tuple[str, str]] = set()
    for row in (moved.row for moved in judged.moved):
        name = class_of(row.place)
        c, sigma = said(given.multiplier, name) or "1", given.init.get(name, "0")
        enters = {} if sigma == "0" else {name: f"({c})*({sigma})"}
        rate = size(said(column.rate, name) or "1") or ONE
        decays = {"coupled": row.coupled_decay, "independent": ONE}
        asked: dict[str, tuple[Texts, Monomial | None]] = {
            "multiplier*init": (enters, rule.enters(row.place) / row.place.shape[0] ** HALF),
            "rate": (column.rate, row.rate),
            "epsilon": (column.epsilon, row.epsilon),
            # what keeps a decay's share of the matrix in one step
            "decay": (column.decay, decays.get(column.decays, ONE / rate)),
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


def _depth(given: Parametrisation, under: Optimizer) -> dict[tuple[str, str], Monomial]:
    """What the depth multiplies a rate and ε by, where the rule's branch is the published one."""
    selection = _stack(under)
    joint = width_table(selection, "both")
    (entry,) = Answer(joint.selection).rule.entries
    branch = size(given.branch) or ONE
    if branch == ONE or (branch * parse(entry.alpha)).symbols:
        return {}
    pairs = list(zip(width_table(selection).rows, joint.rows, strict=True))
    return {
        (row.role, quantity): (getattr(both, quantity) / alone).without_number
        for row, both in pairs
        for quantity in ("rate", "epsilon")
        if (alone := getattr(row, quantity))
    }


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


# ---- one update at a point, that is at some σ, c and η of every role ----
#
# It moves the role's own output by Δy = η·action and, along its own gradient, the loss by
# <g, ΔW> = n_out·δ·Δy: at the rule both are Θ(1). The second needs the terms of the sum to add up,
# an update that is odd in g and even in θ; for others it is a sum of either sign, and not given.

RULE = "rule"
ABSENT = (TIED, "position-embedding", "head-bias")  # from the laboratory's models


def scalings(
    selection: Selection, name: str = RULE, alignment: str = FULL, form: str = FORWARD
) -> tuple[Scaling, ...]:
    """Every role that a model of the laboratory has, at the rule or a published parametrisation.

    A role whose rate is refused keeps its rate, and nothing is predicted of it. The key bias, whose
    gradient is 0, is left out. Raises :class:`Refusal` for a parametrisation that draws a matrix at
    0, or steps roles by several optimizers.
    """
    roles = {p.role: p for p in places(selection)}
    rates: Mapping[str, Monomial]
    if name == RULE:
        point = rule_point(roles, alignment, form)
        rows = table(selection, alignment=alignment, form=form).rows
        rates = {row.role: row.rate for row in rows if row.rate is not None}
    else:
        point, rates = _published(name, selection, alignment)
    moved = {m.row.role: m for m in judge(selection, point, rates, alignment).moved}
    return tuple(
        _scaling(m, rates.get(role, ONE))
        for role, m in moved.items()
        if role not in ABSENT and m.row.place.kind is not Role.KEY_BIAS
    )


def _published(
    name: str, selection: Selection, alignment: str
) -> tuple[Point, Mapping[str, Monomial]]:
    known = parametrisations()
    if name not in known:
        raise unknown("rule", name, (RULE, *known))
    given = known[name]
    point = point_of(given, selection, alignment)
    at_zero = [p.role for p in places(selection) if p.is_matrix and point.inits[p.role] is None]
    if given.hybrid or at_zero:
        why = f"it draws {at_zero[0]} at 0" if at_zero else "its roles step by several optimizers"
        raise Refusal(f"the parametrisation {name!r} is not measured: {why}")
    column, _ = column_of(given, selection.the_optimizer, alignment)
    return point, rates_of((column,), selection)


def _scaling(moved: Moved, rate: Monomial) -> Scaling:
    row, output, loss = moved.row, None, None
    if moved.output is not None and moved.logits is not None:
        output = moved.output.exponent("d")
        if row.step is not None and row.step.aligned:
            loss = moved.logits.exponent("d")
    size, multiplier = row.init or ONE, row.multiplier or ONE
    powers = [m.exponent("d") for m in (size, multiplier, rate)]
    return Scaling(row.role, powers[0], powers[1], powers[2], output, loss)
