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

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement, placements
from deepnet_theory.spec.rule import ParameterRule, Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import MATRICES, Sublayer, sublayer


def powers(optimizer: Optimizer, starts_at_zero: bool = False) -> dict[str, Fraction]:
    """What W = cW' multiplies each argument of an update by, as powers of c.

    A parameter that starts at 0 steps, at first, by an update of degree 0 in it.
    """
    of = update.law(optimizer)
    q = Fraction(0) if starts_at_zero else of.q
    return {
        "eta": q - of.p - 1,
        "g": Fraction(1),
        "theta": Fraction(-1),
        "m": Fraction(1),
        "v": Fraction(2),
        **{
            name: degree.exponent("g") - degree.exponent("theta")
            for name, degree in update.practised(optimizer).constants.items()
        },
    }


def carries_alpha(placement: Placement) -> bool:
    """Whether α can go into the branch's last matrix: whether P·B at α is (P/α)·B at 1."""
    law = _law(placement)
    last = law.sublayer.last_map[0]
    at_one = {"alpha": ONE, last: Monomial.of(last) / Monomial.of("alpha")}
    stays = law.keeps_stream and not placement.scales_inside and not placement.learnt
    return law.has_alpha and stays and law.weight == law.weight.put(at_one)


def without_alpha(placement: Placement) -> str:
    """The name of the placement that the equation is at α = 1: its own, if there is no other."""
    own = _law(placement)
    if not carries_alpha(placement):
        return placement.name
    for name, plain in placements().items():
        other = _law(plain)
        if (
            not other.has_alpha
            and plain.final_norm == placement.final_norm
            and other.normalised == own.normalised
            and plain.norms == placement.norms
            and other.weight == own.weight.put({"alpha": ONE})
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
    moved_by = {matrix: powers(selection.the_optimizer, not matrix) for matrix in (True, False)}
    every = [p for p in selection.placements if _law(p).has_alpha]
    if not every:
        return selection, rule, tuple(parameters)
    placement = next((p for p in every if not carries_alpha(p)), every[0])
    if placement.learnt:
        raise Refusal(
            f"the form 'weights' of {placement.equation} is its form 'forward': alpha is in what "
            "the learnt multipliers start at, and in no code"
        )
    if not carries_alpha(placement):
        valid = [n for n, p in placements().items() if not _law(p).has_alpha or carries_alpha(p)]
        raise Refusal(
            f"the form 'weights' puts alpha into the last matrix of a branch, which a norm behind "
            f"the branch would take out again: {placement.equation}; it is for {', '.join(valid)}"
        )
    found: list[ParameterRule] = []
    entries: dict[RuleEntry, RuleEntry] = {}
    for part in selection.the_stack.parts:
        for of in {s.name: s for s in part.layer}.values():
            entry = rule.entry(part.name, of.name)
            own = [p for p in parameters if (p.part, p.sublayer) == (part.name, of.name)]
            last, *_ = of.last_map
            gains = dict(entries.get(entry, entry).gains)
            scaled = last in {m.name for m in of.scaled}
            gain = dict(entry.gains).get(last, entry.beta if scaled else "1")
            gains[last] = _times(gain, entry.alpha, Fraction(-1))
            entries[entry] = replace(entry, alpha="1", gains=tuple(gains.items()))
            for p in own or _plain(part.name, of):
                if p.name in of.last_map:
                    of_matrix = p.role in MATRICES
                    by = moved_by[of_matrix]
                    p = replace(
                        p,
                        gain=gains[last] if of_matrix else p.gain,
                        rate=_times(p.rate, entry.alpha, by["eta"]),
                        epsilon=_times(p.epsilon, entry.alpha, by.get("epsilon", Fraction(0))),
                        weight_decay=_times(
                            p.weight_decay, entry.alpha, by.get("decay", Fraction(0))
                        ),
                    )
                found.append(p)
    moved = tuple(entries.get(entry, entry) for entry in rule.entries)
    name = without_alpha(placement)
    if name != placement.name and len(selection.placements) > 1:
        raise Refusal(
            f"the form 'weights' turns {placement.name} into {name}, which the layer "
            f"{selection.layer!r} names for single sublayers; write {name} there"
        )
    return (
        replace(
            selection,
            placement=name if placement.name == selection.placement else selection.placement,
        ),
        Rule(rule.name, moved, rule.eta, f"{rule.meaning}; alpha is in the last matrices"),
        tuple(found),
    )


def _plain(part: str, of: Sublayer) -> list[ParameterRule]:
    """The last map of a rule that no multipliers were derived for."""
    roles = {p.name: p.role for p in of.parameters}
    return [
        ParameterRule(
            part, of.name, name, roles[name], "0", "1", "1", "1" if roles[name] in MATRICES else "0"
        )
        for name in of.last_map
    ]


def _times(value: str, alpha_text: str, power: Fraction) -> str:
    """value·α^power as a text of the grammar of depths."""
    if power == 0 or value == "0":
        return value
    try:
        return str(parse(value) * parse(alpha_text) ** power)
    except ValueError:  # not a monomial: a rule of one's own
        return f"({value})*({alpha_text})**({power})"
