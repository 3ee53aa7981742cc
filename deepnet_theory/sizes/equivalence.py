r"""Equivalent rules: what a change of a matrix's scale asks of its optimizer.

With :math:`W = cW'` and the factor c moved into the forward pass the function is the same. For an
update of degrees (p, q) the whole trajectory is the same too where

.. math:: \eta' = c^{\,q-p-1}\,\eta, \qquad \varepsilon' = c^{\,a-b}\,\varepsilon, \qquad
          \omega' = c^{\,a-b}\,\omega,

(a, b) the degrees in g and θ that ε, or ω, has for its sum to be homogeneous: 1 for an ε beside
|g|; 2 for a weight decay in the gradient, 1 + p − q for a decoupled one. Any rule whose α divides
the branch alone has a form without it: the branch's last matrix is W = αW'.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

from deepnet_theory.definitions.constants import WEIGHTS, Address, Constants
from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import PLACEMENTS, Placement
from deepnet_theory.definitions.rule import KNOBS, ParameterConstants
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, sublayer
from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.monomial import ONE, Monomial


def without_alpha(placement: Placement) -> str:
    """The name of the placement that the equation is at α = 1: its own, if there is no other."""

    def at_one(where: Placement) -> tuple[object, ...]:
        law = _law(where)
        return where.final_norm, law.normalised, where.norms, law.weight.put({"alpha": ONE})

    plain = (n for n, p in PLACEMENTS.items() if not _law(p).has_alpha)
    alike = (name for name in plain if at_one(PLACEMENTS[name]) == at_one(placement))
    return next(alike, placement.name) if _carries_alpha(placement) else placement.name


def _law(placement: Placement) -> laws.Law:
    return laws.law(placement, sublayer("ffn"))


def _carries_alpha(placement: Placement) -> bool:
    """Whether α can go into the branch's last matrix: whether P·B at α is (P/α)·B at 1."""
    law = _law(placement)
    last = law.sublayer.last_map[0]
    at_one = {"alpha": ONE, last: Monomial.of(last) / laws.ALPHA}
    stays = law.keeps_stream and not placement.scales_inside
    return law.has_alpha and stays and law.weight == law.weight.put(at_one)


def in_weights(selection: Selection) -> dict[tuple[str, str], dict[str, Fraction]]:
    """The powers of α that each knob of a parameter takes where the model has α = 1.

    By sublayer and parameter; empty where there is no α. Raises :class:`Refusal` where no matrix
    can carry α, or the update has no degrees.
    """
    placement = selection.the_placement
    if not _law(placement).has_alpha:
        return {}
    if not _carries_alpha(placement):
        each = PLACEMENTS.items()
        valid = [name for name, p in each if not _law(p).has_alpha or _carries_alpha(p)]
        raise Refusal(
            f"the form 'weights' puts alpha into the last matrix of a branch, which a norm behind "
            f"the branch would take out again: {placement.equation}; it is for {', '.join(valid)}"
        )
    found = {}
    for branch in selection.the_stack.sublayers:
        for parameter in (p for p in branch.parameters if p.name in branch.last_map):
            is_matrix = parameter.role in MATRICES
            steps = stepping(selection.the_optimizer, not is_matrix)
            found[branch.name, parameter.name] = {"gain": Fraction(-int(is_matrix)), **steps}
    return found


@cache
def stepping(optimizer: Optimizer, starts_at_zero: bool = False) -> dict[str, Fraction]:
    """The powers of c that each knob of the steps takes with W = cW'."""
    powers = update.powers(optimizer, starts_at_zero)
    arguments = zip(KNOBS[1:], ("eta", "epsilon", "decay"), strict=True)
    return {knob: powers.get(argument, Fraction(0)) for knob, argument in arguments}


def with_alpha_in_weights(selection: Selection, c: Constants) -> Constants:
    """The constants of the same model with α = 1, of the form 'weights'."""
    moved, rows = in_weights(selection), dict[Address, ParameterConstants]()
    for part in c.parts:
        for index, s in enumerate(part.sublayers):
            for p in sublayer(s.kind).parameters:
                if powers := moved.get((s.kind, p.name)):
                    own = c.parameter(part.name, index, p.name, p.role)
                    knobs = {k: getattr(own, k) * s.alpha ** float(by) for k, by in powers.items()}
                    rows[part.name, index, p.name] = replace(own, **knobs)
    where = without_alpha(selection.the_placement)
    at_one = c.with_rows(rows)
    return at_one.mapped(lambda *at: replace(at[-1], alpha=1.0), placement=where, form=WEIGHTS)
