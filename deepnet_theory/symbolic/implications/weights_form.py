r"""α in initial sizes and learning rates alone, for a forward pass that cannot be changed.

.. math:: \mathrm{norm}(\alpha x + W h) = \mathrm{norm}(x + W' h), \qquad W = \alpha W'

up to the norm's epsilon, and x + Wh/α likewise: the last matrix of the branch, and the bias behind
it, are W = cW' with c = α, and their learning rate, epsilon and weight decay take the powers of c
of :mod:`~deepnet_theory.symbolic.implications.equivalence`.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.parameter import ParameterRule
from deepnet_theory.spec.placement import Placement, placements
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import MATRICES, Sublayer, sublayer
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.monomial import simplified, text
from deepnet_theory.symbolic.algebra.nodes import Branch
from deepnet_theory.symbolic.algebra.symbols import alpha
from deepnet_theory.symbolic.laws.branch import x
from deepnet_theory.symbolic.laws.explicit_matrices import TOLERANCE, Witness, distance
from deepnet_theory.symbolic.laws.placement import P, placement_law, residual
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Step

SECTION = "Equivalent rules"
Powers = Mapping[str, sp.Rational]  # of c, by what an update is a function of


def carries_alpha(placement: Placement) -> bool:
    """Whether α can go into the branch's last matrix: whether P·B at α is (P/α)·B at 1."""
    return placement_law(placement).has_alpha and _is_at_one(placement, placement)


def without_alpha(placement: Placement) -> str:
    """The name of the placement that the equation is at α = 1: its own, if there is no other."""
    found = (
        name
        for name, plain in placements().items()
        if not placement_law(plain).has_alpha
        and plain.final_norm == placement.final_norm
        and _is_at_one(placement, plain)
    )
    return next(found, placement.name)


def _is_at_one(placement: Placement, plain: Placement) -> bool:
    return bool(residual(placement, lambda y: P * Branch(y)) == _at_one(plain))


def _at_one(placement: Placement, rescale: bool = True) -> sp.Expr:
    """The residual equation at α = 1 with a branch that is divided by α."""
    divided = sp.Symbol("divided", positive=True)
    moved = residual(placement, lambda y: P / divided * Branch(y), rescale=rescale)
    return moved.xreplace({alpha: sp.Integer(1)}).xreplace({divided: alpha})


def weights_step(selection: Selection, power: sp.Rational) -> Step:
    """Both forms of the residual equation, on explicit matrices."""
    placement = selection.the_placement
    lasts = dict.fromkeys(s.last_map[0] for s in selection.the_stack.sublayers)

    def alike(step: Step) -> bool:
        witness = Witness(sublayer("ffn"), placement)
        witness.values[P] = 0.7
        sides = [witness.evaluate(side, alpha) for side in (step.lhs, step.rhs)]
        return distance(*sides) < TOLERANCE

    return Step(
        name="weights-form",
        section=SECTION,
        lhs=residual(placement, lambda y: P * Branch(y), rescale=False),
        rhs=_at_one(placement, rescale=False),
        relation=Relation.EQUAL,
        because=(
            f"alpha can go into the last matrix of a branch ({', '.join(lasts)}), which starts at "
            f"beta/alpha and learns at alpha^({power}) times its rate: no forward pass is "
            "touched (a norm's epsilon stands beside a variance that is alpha^2 times smaller)"
        ),
        uses=("moved-update",),
        establishes=(P, alpha, x),
        checks=(Check("explicit matrices", alike),),
    )


def in_weights(
    selection: Selection,
    rule: Rule,
    parameters: Sequence[ParameterRule],
    powers: Powers,
    at_zero: Powers,
) -> tuple[Selection, Rule, tuple[ParameterRule, ...]]:
    """The same model with α = 1: its placement, its rule, and what its parameters step with.

    ``powers`` are those of c for W = cW', ``at_zero`` those of a parameter that starts at 0.
    Raises :class:`Refusal` where no matrix can carry α.
    """
    placement = selection.the_placement
    if not placement_law(placement).has_alpha:
        return selection, rule, tuple(parameters)
    if not carries_alpha(placement):
        valid = [
            n for n, p in placements().items() if not placement_law(p).has_alpha or carries_alpha(p)
        ]
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
            gains[last] = _times(_gain(entry, of, last), entry.alpha, sp.Integer(-1))
            entries[entry] = replace(entry, alpha="1", gains=tuple(gains.items()), norm_epsilon=())
            found += _moved(
                own or _plain(part.name, of), of, entry.alpha, gains[last], powers, at_zero
            )
    moved = tuple(entries.get(entry, entry) for entry in rule.entries)
    name = without_alpha(placement)
    return (
        replace(selection, placement=name),
        Rule(rule.name, moved, rule.eta, f"{rule.meaning}; alpha is in the last matrices"),
        tuple(found),
    )


def _gain(entry: RuleEntry, of: Sublayer, matrix: str) -> str:
    scaled = [m.name for m in of.scaled]
    return dict(entry.gains).get(matrix, entry.beta if matrix in scaled else "1")


def _plain(part: str, of: Sublayer) -> list[ParameterRule]:
    """The last map of a rule that no multipliers were derived for."""
    roles = {p.name: p.role for p in of.parameters}
    return [
        ParameterRule(
            part, of.name, name, roles[name], "0", "1", "1", "1" if roles[name] in MATRICES else "0"
        )
        for name in of.last_map
    ]


def _moved(
    parameters: Sequence[ParameterRule],
    of: Sublayer,
    alpha_text: str,
    gain: str,
    powers: Powers,
    at_zero: Powers,
) -> list[ParameterRule]:
    found = []
    for p in parameters:
        if p.name not in of.last_map:
            found.append(p)
            continue
        matrix = p.role in MATRICES
        own = powers if matrix else at_zero
        zero = sp.Integer(0)
        found.append(
            replace(
                p,
                gain=gain if matrix else p.gain,
                rate=_times(p.rate, alpha_text, own["eta"]),
                epsilon=_times(p.epsilon, alpha_text, own.get("epsilon", zero)),
                weight_decay=_times(p.weight_decay, alpha_text, own.get("decay", zero)),
            )
        )
    return found


def _times(value: str, alpha_text: str, power: sp.Rational) -> str:
    """value·α^power as a text of the grammar of depths."""
    if power == 0 or value == "0":
        return value
    try:
        return text(simplified(depth_expression(value) * depth_expression(alpha_text) ** power))
    except ValueError:  # not a monomial: a rule of one's own
        return f"({value})*({alpha_text})**({power})"
