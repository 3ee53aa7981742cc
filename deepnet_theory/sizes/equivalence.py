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

from deepnet_theory.definitions.constants import (
    WEIGHTS,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement, placements
from deepnet_theory.definitions.rule import ParameterConstants
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, sublayer
from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.monomial import ONE


def without_alpha(placement: Placement) -> str:
    """The name of the placement that the equation is at α = 1: its own, if there is no other."""
    law = _law(placement)
    if not laws.carries_alpha(placement):
        return placement.name
    at_one = placement.final_norm, law.normalised, placement.norms, law.weight.put({"alpha": ONE})
    for name, plain in placements().items():
        other = _law(plain)
        same = (plain.final_norm, other.normalised, plain.norms, other.weight) == at_one
        if same and not other.has_alpha:
            return name
    return placement.name


def _law(placement: Placement) -> laws.Law:
    return laws.law(placement, sublayer("ffn"))


def in_weights(selection: Selection) -> dict[tuple[str, str], dict[str, Fraction]]:
    """The powers of α that each knob of a parameter takes where the model has α = 1.

    By sublayer and parameter; empty where there is no α. Raises :class:`Refusal` where no matrix
    can carry α, or the update has no degrees.
    """
    placement = selection.the_placement
    if not _law(placement).has_alpha:
        return {}
    if placement.learnt:
        raise Refusal(
            f"the form 'weights' of {placement.equation} is its form 'forward': alpha is in what "
            "the learnt multipliers start at, and in no code"
        )
    if not laws.carries_alpha(placement):
        valid = [
            n for n, p in placements().items() if not _law(p).has_alpha or laws.carries_alpha(p)
        ]
        raise Refusal(
            f"the form 'weights' puts alpha into the last matrix of a branch, which a norm behind "
            f"the branch would take out again: {placement.equation}; it is for {', '.join(valid)}"
        )
    found = {}
    for branch in selection.the_stack.sublayers:
        for parameter in (p for p in branch.parameters if p.name in branch.last_map):
            is_matrix = parameter.role in MATRICES
            powers = update.powers(selection.the_optimizer, not is_matrix)
            found[branch.name, parameter.name] = {
                "gain": Fraction(-int(is_matrix)),
                "rate": powers["eta"],
                "epsilon": powers.get("epsilon", Fraction(0)),
                "weight_decay": powers.get("decay", Fraction(0)),
            }
    return found


def with_alpha_in_weights(selection: Selection, c: Constants) -> Constants:
    """The constants of the same model with α = 1, of the form 'weights'."""
    moved = in_weights(selection)

    def carrying(part: PartConstants, index: int) -> SublayerConstants:
        s, alpha = part.sublayers[index], part.sublayers[index].alpha
        gains, parameters = dict(s.gains), dict(s.parameters)
        for p in sublayer(s.kind).parameters:
            if powers := moved.get((s.kind, p.name)):
                own = vars(c.parameter(part.name, index, p.name, p.role))
                knobs = {knob: own[knob] * alpha ** float(by) for knob, by in powers.items()}
                parameters[p.name] = ParameterConstants(**knobs)
                if p.role in MATRICES:
                    gains[p.name] = knobs["gain"]
        return replace(s, alpha=1.0, gains=gains, parameters=parameters)

    parts = (
        replace(p, sublayers=tuple(carrying(p, i) for i in range(len(p.sublayers))))
        for p in c.parts
    )
    where = without_alpha(selection.the_placement)
    return replace(c, placement=where, form=WEIGHTS, parts=tuple(parts))
