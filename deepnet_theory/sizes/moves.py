r"""What one update moves at any sizes, multipliers and rates, in powers of the width.

It moves a role's own output by :math:`\Delta y = \eta\,\mathrm{action}` and, along its own
gradient, the loss by :math:`\langle g, \Delta W\rangle = n_{out}\,\delta\,\Delta y`: at the rule
both are Θ(1). The second needs the terms of the sum to add up, an update that is odd in g and even
in θ. For others it is a sum of either sign, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deepnet_theory.definitions.measurement import Scaling
from deepnet_theory.definitions.outcome import unknown
from deepnet_theory.definitions.parametrisation import SIZES, Parametrisation, parametrisations
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role, role_name, sublayer
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.monomial import ONE, Monomial, read
from deepnet_theory.sizes.update import FULL, HALF
from deepnet_theory.sizes.width import (
    FORWARD,
    HEAD,
    SQUARE,
    TIED,
    D,
    Place,
    Point,
    WidthRow,
    places,
    row_of,
    rule_point,
    terms,
    width_table,
)

RULE = "rule"
ABSENT = (TIED, "position-embedding", "head-bias")  # from the laboratory's models


@dataclass(frozen=True)
class Moved:
    """What one update does through one role, in powers of the width.

    ``output`` is how far it moves the stream (for the head and its bias, the logits), ``logits``
    how far it moves them. None where the update has no law there; ``row`` says which.
    """

    row: WidthRow
    output: Monomial | None = None
    logits: Monomial | None = None


def moves(
    selection: Selection, point: Point, rates: Mapping[str, Monomial], alignment: str = FULL
) -> tuple[Moved, ...]:
    """What one update at ``rates`` by role does at a point; a role without a rate takes 1."""
    head = Place("", "", "head", "head", Role.HEAD, HEAD)
    read_out = point.enters(head) * terms(D, alignment) / D**HALF
    moved = []
    for place in places(selection):
        if place.role == TIED:
            continue
        response = ONE
        if place.sublayer:
            branch = sublayer(place.sublayer)
            law = laws.law(selection.placed(branch), branch, selection.the_norm)
            gains = {
                m.name: point.enters(replace(place, role=role_name(m.name), shape=SQUARE))
                for m in law.sublayer.matrices
            }
            gains |= {"alpha": ONE, "stream": ONE}
            paths = [path.put(gains) for path in law.responses.get(place.parameter, (ONE,))]
            response = max(paths, key=lambda path: path.exponent("d"))
        row = row_of(place, point, selection, alignment, response)
        if row.action is None:
            moved.append(Moved(row))
            continue
        output = (response * row.action * rates.get(place.role, ONE)).without_number
        moved.append(Moved(row, output, output if place.shape[1] == ONE else output * read_out))
    return tuple(moved)


def scalings(
    selection: Selection, name: str = RULE, alignment: str = FULL, form: str = FORWARD
) -> tuple[Scaling, ...]:
    """Every role that a model of the laboratory has, at the rule or at a parametrisation.

    A role whose rate is refused keeps its rate, and nothing is predicted of it. The key bias, whose
    gradient is 0, is left out.
    """
    known, rates = parametrisations(), {}
    if name == RULE:
        point = rule_point({p.role: p for p in places(selection)}, alignment, form)
        rows = width_table(selection, alignment=alignment, form=form).rows
        rates = {row.role: row.rate for row in rows if row.rate is not None}
    elif name in known:
        point = point_of(known[name], selection, alignment)
    else:
        raise unknown("rule", name, (RULE, *known))
    return tuple(
        {
            m.row.role: _scaling(m, rates.get(m.row.role, ONE))
            for m in moves(selection, point, rates, alignment)
            if m.row.role not in ABSENT and m.row.place.kind is not Role.KEY_BIAS
        }.values()
    )


def point_of(given: Parametrisation, selection: Selection, alignment: str) -> Point:
    """σ and c of every role at a parametrisation; gains and biases start as in the rule."""
    roles = {p.role: p for p in places(selection)}
    rule = rule_point(roles, alignment, FORWARD)
    multipliers, inits = dict(rule.multipliers), dict(rule.inits)
    for role, place in roles.items():
        of = {Role.EMBEDDING: "embedding", Role.HEAD: "head"}.get(place.kind, "hidden")
        multipliers[role] = ONE
        if place.is_matrix and role != TIED:
            inits[role] = _size(given.init[of])
            multipliers[role] = _size(given.multiplier.get(of, "1"))
    return Point(multipliers, inits)


def _size(text: str) -> Monomial:
    return read(SIZES.parse(text).root, {}).without_number


def _scaling(moved: Moved, rate: Monomial) -> Scaling:
    row, output, loss = moved.row, None, None
    if moved.output is not None and moved.logits is not None:
        output = moved.output.exponent("d")
        if row.step is not None and row.step.aligned:
            loss = moved.logits.exponent("d")
    size, multiplier = row.init or ONE, row.multiplier or ONE
    powers = [m.exponent("d") for m in (size, multiplier, rate)]
    return Scaling(row.role, powers[0], powers[1], powers[2], output, loss)
