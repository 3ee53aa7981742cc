r"""How far one update through each role moves what it should move, at any sizes and rates.

At a point, that is at some σ, c and η of every role, one update moves the role's own output and,
along its own gradient, the loss by

.. math:: \Delta y = \eta\,\mathrm{action}, \qquad
          \langle g, \Delta W\rangle = n_{out}\,\delta\,\Delta y .

At the rule both are Θ(1). The second needs the terms of the sum to add up, an update that is odd in
g and even in θ; for others it is a sum of either sign, and none is given.

Source: derived here; standard and neural tangent parametrisation as in Yang et al., arXiv
2203.03466, and Jacot et al., arXiv 1806.07572.
"""

from __future__ import annotations

from deepnet_theory.sizes.entries import FULL, GRADIENT, HALF, INPUTS, OUTPUTS, PARAMETER, step
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.width import FORWARD, TIED, Moved, Place, Point, judge, places, rule_point
from deepnet_theory.sizes.width import width_table as table
from deepnet_theory.spec.errors import unknown
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.results.prediction import Scaling
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role

RULE, STANDARD, TANGENT = POINTS = ("rule", "sp", "ntp")
ABSENT = (TIED, "position-embedding", "head-bias")  # from the laboratory's models


def point(name: str, roles: dict[str, Place], alignment: str = FULL, form: str = FORWARD) -> Point:
    r"""The rule's sizes, or a parametrisation by its name.

    Standard (``sp``): c = 1 and :math:`\sigma = 1/\sqrt{n_{in}}`, the head too; neural tangent
    (``ntp``): σ = 1 and :math:`c = 1/\sqrt{n_{in}}`. Both at one learning rate for all.
    """
    if name == RULE:
        return rule_point(roles, alignment, form)
    if name not in POINTS:
        raise unknown("rule", name, POINTS)
    fans = {role: place.shape[0] ** -HALF for role, place in roles.items()}
    ones = dict.fromkeys(roles, ONE)
    multipliers, inits = (ones, fans) if name == STANDARD else (fans, ones)
    return Point(multipliers, {r: None if p.starts_at_zero else inits[r] for r, p in roles.items()})


def scalings(
    selection: Selection, name: str = RULE, alignment: str = FULL, form: str = FORWARD
) -> tuple[Scaling, ...]:
    """Every role that a model of the laboratory has, at the rule or at a parametrisation.

    A role whose rate is refused keeps its rate, and nothing is predicted of it. The key bias, whose
    gradient is 0, is left out.
    """
    roles = {place.role: place for place in places(selection) if place.role != TIED}
    rates = dict.fromkeys(roles, ONE)
    if name == RULE:
        rows = table(selection, alignment=alignment, form=form).rows
        rates |= {row.role: row.rate for row in rows if row.rate is not None}
    moved = judge(selection, point(name, roles, alignment, form), rates, alignment).moved
    return tuple(
        _scaling(m, rates[m.row.role], selection.the_optimizer, alignment)
        for m in {m.row.role: m for m in moved}.values()
        if m.row.role not in ABSENT and m.row.place.kind is not Role.KEY_BIAS
    )


def _scaling(moved: Moved, rate: Monomial, optimizer: Optimizer, alignment: str) -> Scaling:
    row, output, loss = moved.row, None, None
    if moved.output is not None and moved.logits is not None and row.gradient is not None:
        output = moved.output.exponent("d")
        values = {GRADIENT: row.gradient}
        values |= dict(zip((INPUTS, OUTPUTS), row.place.shape, strict=True))
        values |= {} if row.init is None else {PARAMETER: row.init}
        if step(optimizer, values, alignment).aligned:
            loss = moved.logits.exponent("d")
    size, multiplier = row.init or ONE, row.multiplier or ONE
    powers = [m.exponent("d") for m in (size, multiplier, rate)]
    return Scaling(row.role, powers[0], powers[1], powers[2], output, loss)
