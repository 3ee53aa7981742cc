r"""What one update moves at any sizes, multipliers and rates, in powers of the width.

It moves a role's own output by :math:`\Delta y = \eta\,\mathrm{action}` and, along its own
gradient, the loss by :math:`\langle g, \Delta W\rangle = n_{out}\,\delta\,\Delta y`: at the rule
both are Θ(1). The second needs the terms of the sum to add up, an update that is odd in g and even
in θ. For others it is a sum of either sign, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role, role_name, sublayer
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.update import FULL, HALF
from deepnet_theory.sizes.width import (
    HEAD,
    SQUARE,
    TIED,
    D,
    Place,
    Point,
    WidthRow,
    places,
    row_of,
    terms,
)


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
