r"""How far one update through each role moves what it should move, at any sizes and rates.

At a point, that is at some σ, c and η of every role, one update moves the role's own output and,
along its own gradient, the loss by

.. math:: \Delta y = \eta\,\mathrm{action}, \qquad
          \langle g, \Delta W\rangle = n_{out}\,\delta\,\Delta y .

At the rule both are Θ(1). The second needs the terms of the sum to add up, an update that is odd in
g and even in θ; for others it is a sum of either sign, and none is given.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Mapping

from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.parametrisations import column_of, point_of, rates_of
from deepnet_theory.sizes.update import FULL
from deepnet_theory.sizes.width import FORWARD, TIED, Moved, Point, judge, places, rule_point
from deepnet_theory.sizes.width import width_table as table
from deepnet_theory.spec.errors import Refusal, unknown
from deepnet_theory.spec.parametrisation import parametrisations
from deepnet_theory.spec.results.measurement import Scaling
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role

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
