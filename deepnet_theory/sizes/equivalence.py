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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement, placements
from deepnet_theory.definitions.rule import ParameterRule, Rule, RuleEntry
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, Sublayer, sublayer
from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.monomial import ONE, product


def without_alpha(placement: Placement) -> str:
    """The name of the placement that the equation is at α = 1: its own, if there is no other."""
    law = _law(placement)
    if not laws.carries_alpha(placement):
        return placement.name
    for name, plain in placements().items():
        other = _law(plain)
        if (
            not other.has_alpha
            and plain.final_norm == placement.final_norm
            and other.normalised == law.normalised
            and plain.norms == placement.norms
            and other.weight == law.weight.put({"alpha": ONE})
        ):
            return name
    return placement.name


def _law(placement: Placement) -> laws.Law:
    return laws.law(placement, sublayer("ffn"))


def in_weights(
    selection: Selection, rule: Rule, parameters: Sequence[ParameterRule]
) -> tuple[Selection, Rule, tuple[ParameterRule, ...]]:
    """The same model with α = 1: its placement, its rule, and what its parameters step with.

    Raises :class:`Refusal` where no matrix can carry α, or the update has no degrees.
    """
    placement = selection.the_placement
    if not _law(placement).has_alpha:
        return selection, rule, tuple(parameters)
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
    times = {matrix: update.powers(selection.the_optimizer, not matrix) for matrix in (True, False)}
    moved: list[ParameterRule] = []
    entries: dict[RuleEntry, RuleEntry] = {}
    for part in selection.the_stack.parts:
        for branch in {s.name: s for s in part.layer}.values():
            entry, (last, *_) = rule.entry(part.name, branch.name), branch.last_map
            scaled = last in {m.name for m in branch.scaled}
            gain = dict(entry.gains).get(last, entry.beta if scaled else "1")
            gain = product((gain, 1), (entry.alpha, -1))
            gains = {**dict(entries.get(entry, entry).gains), last: gain}
            entries[entry] = replace(entry, alpha="1", gains=tuple(gains.items()))
            rows = [p for p in parameters if (p.part, p.sublayer) == (part.name, branch.name)]
            for row in rows or _plain(part.name, branch):
                if row.name in branch.last_map:
                    row = _rescaled(row, entry.alpha, times[row.role in MATRICES])
                    row = replace(row, gain=gain) if row.role in MATRICES else row
                moved.append(row)
    return (
        replace(selection, placement=without_alpha(placement)),
        Rule(
            rule.name,
            tuple(entries.get(entry, entry) for entry in rule.entries),
            rule.eta,
            f"{rule.meaning}; alpha is in the last matrices",
        ),
        tuple(moved),
    )


def _plain(part: str, sublayer: Sublayer) -> list[ParameterRule]:
    """The last map of a rule that no multipliers were derived for."""
    roles = {p.name: p.role for p in sublayer.parameters if p.name in sublayer.last_map}
    return [
        ParameterRule(part, sublayer.name, name, role, "0", "1", "1", str(int(role in MATRICES)))
        for name, role in roles.items()
    ]


def _rescaled(row: ParameterRule, alpha: str, times: Mapping[str, Fraction]) -> ParameterRule:
    """What a parameter steps with where α goes into it."""
    return replace(
        row,
        rate=product((row.rate, 1), (alpha, times["eta"])),
        epsilon=product((row.epsilon, 1), (alpha, times.get("epsilon", 0))),
        weight_decay=product((row.weight_decay, 1), (alpha, times.get("decay", 0))),
    )
