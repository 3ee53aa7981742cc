r"""The predicted growth of ‖ΔF‖ with depth, for any rule under any optimizer.

A part of S sublayers moves the output by :math:`A\sum_l \gamma^{1+p}|\theta|^q`; the exponent of
that sum in the depth is what the laboratory's slope is held against.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.prediction import Prediction, Predictions
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.monomial import exponent_in, simplified
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, alpha, beta
from deepnet_theory.symbolic.laws.parameters import branch_weight, terms
from deepnet_theory.symbolic.rule.balance import Problem
from deepnet_theory.symbolic.rule.premises import shrinkage
from deepnet_theory.symbolic.rule.solved_rule import solve_rule

RIVALS = ("sgd", "adam", "lamb")


@cache
def _values(entry: RuleEntry) -> tuple[Any, Any]:
    a, b = (depth_expression(e) for e in entry.expressions)
    return a, b


def _at_rule(expression: Any, rule: Rule, part: Part, sublayer: Sublayer) -> Any:
    a, b = _values(rule.entry(part.name, sublayer.name))
    return simplified(sp.sympify(expression).xreplace({alpha: a, beta: b}))


def sum_exponent(problem: Problem, weight: Any, part: Part, variable: sp.Symbol) -> Any:
    r"""The exponent of :math:`\sum_{l\le S} (1 + l r^2)^{-(1+p)/2}`, S of the part.

    Where the stream is normalised in every sublayer, and near the identity, the sum is S.
    """
    own = DEPTHS[part.depth]
    count = sp.Integer(1) if own == variable else sp.Integer(0)
    return count - shrinkage(problem, count + 2 * exponent_in(weight, variable))


def share_exponent(
    problem: Problem, rule: Rule, part: Part, variable: sp.Symbol, roles: frozenset[Role]
) -> Any:
    """The exponent of the part's own share of ‖ΔF‖, at the part's output, in ``variable``."""
    candidates = []
    for sublayer in dict.fromkeys(part.layer):
        weight = _at_rule(branch_weight(sublayer, problem.law), rule, part, sublayer)
        repeated = sum_exponent(problem, weight, part, variable)
        for term in terms(sublayer, problem.law, problem.selection.the_norm):
            increment = term.increment(problem.degrees)
            if term.role in roles and increment != 0:
                size = _at_rule(increment, rule, part, sublayer)
                candidates.append(repeated + exponent_in(size, variable))
    rate = exponent_in(depth_expression(rule.eta), variable)
    return max(candidates) + rate


def _amplification_exponent(
    problem: Problem, rule: Rule, variable: sp.Symbol, aligned: bool = False
) -> Any:
    r"""The exponent of what the later part multiplies the first part's share with.

    M cross-attentions of weight c carry a change of the encoder's output to the decoder's. Their
    value and output matrices are independent at initialisation, so that they add as
    :math:`A = \sqrt M c` (``aligned``: :math:`Mc`), once forward and p times through the
    gradient, whichever convention the rule was balanced with.

    Source: derived here.
    """
    parts = problem.selection.the_stack.parts
    later = parts[-1]
    depth = DEPTHS[later.depth]
    crossing = next((s for s in later.layer if s.reads_memory), None)
    if crossing is None:
        raise Refusal("nothing passes from the encoder to a decoder without cross-attention")
    weight = _at_rule(branch_weight(crossing, problem.law), rule, later, crossing)
    layers = depth if aligned else sp.sqrt(depth)
    return (1 + problem.degrees.p) * exponent_in(layers * weight, variable)


MATRICES = frozenset({Role.SCALED, Role.UNSCALED})
VECTORS = frozenset(Role) - MATRICES


def exponents_of(
    selection: Selection, rule: Rule, step: str = "matrices", aligned: bool = False
) -> dict[tuple[str, str], Fraction]:
    """Predicted exponents by (variable, share); share is ``all`` or a part's name.

    ``step`` is ``matrices`` (what the published rules speak of) or ``all`` parameters;
    ``aligned`` takes the cross-attentions as all aligned instead of independent.
    """
    problem = Problem(selection)
    parts = selection.the_stack.parts
    roles = MATRICES if step == "matrices" else MATRICES | VECTORS
    found: dict[tuple[str, str], Fraction] = {}
    for variable in selection.the_stack.depths:
        symbol = DEPTHS[variable]
        values = {}
        for index, part in enumerate(parts):
            value = share_exponent(problem, rule, part, symbol, roles)
            if len(parts) > 1 and index == 0:
                value += _amplification_exponent(problem, rule, symbol, aligned)
            values[part.name] = _fraction(value)
        found[(variable, "all")] = max(values.values())
        if len(parts) > 1:
            found.update({(variable, name): value for name, value in values.items()})
    return found


def _fraction(value: Any) -> Fraction:
    value = sp.sympify(value)
    if not value.is_Rational:
        raise ValueError(f"{value} is not a rational exponent")
    return Fraction(int(value.p), int(value.q))


def rival_rules(selection: Selection) -> dict[str, Rule]:
    """The default rules of SGD, Adam and LAMB for the same network, besides the selected one."""
    rules: dict[str, Rule] = {}
    for name in RIVALS:
        if name == selection.optimizer:
            continue
        other = replace(
            selection,
            optimizer=name,
            update=None,
            regime=(),
            closure=None,
            one_alpha=False,
            allow_ascent=False,
        )
        try:
            rules[name] = solve_rule(other)
        except Refusal:
            continue
    return rules


def predictions(selection: Selection, rule: Rule, step: str = "matrices") -> Predictions:
    """The predicted exponents of a rule, with those of its rivals, for the laboratory.

    Raises :class:`Refusal` where the update has no degrees, :class:`InputError` where a rule
    that the user typed has no growth exponent.
    """
    try:
        own = exponents_of(selection, rule, step)
    except ValueError as wrong:
        raise InputError(f"no exponent is predicted for the rule: {wrong}") from None
    others = {
        name: exponents_of(selection, other, step) for name, other in rival_rules(selection).items()
    }
    parts = selection.the_stack.parts
    # which amplification is real is a question to the laboratory
    aligned = exponents_of(selection, rule, step, aligned=True) if len(parts) > 1 else {}
    rows = []
    for key, exponent in own.items():
        rivals = [(name, other[key]) for name, other in others.items()]
        if key[1] == parts[0].name:
            rivals.append(("aligned cross-attentions", aligned[key]))
        rows.append(Prediction(*key, exponent=exponent, rivals=tuple(rivals)))
    return Predictions(tuple(rows), warnings=tuple(_warnings(selection, rule)))


def _warnings(selection: Selection, rule: Rule) -> list[str]:
    problem = Problem(selection)
    sentences = []
    for part in selection.the_stack.parts:
        for sublayer in dict.fromkeys(part.layer):
            weight = _at_rule(branch_weight(sublayer, problem.law), rule, part, sublayer)
            # a part's constants may depend on the other part's depth: judged in every depth
            growth = {
                symbol: int(symbol == DEPTHS[part.depth]) + 2 * exponent_in(weight, symbol)
                for symbol in map(DEPTHS.__getitem__, selection.the_stack.depths)
            }
            size = "*".join(f"{symbol}^({power})" for symbol, power in growth.items() if power)
            grows = " and ".join(symbol.name for symbol, power in growth.items() if power > 0)
            if grows:
                sentences.append(
                    f"the {part.name}'s S*r^2 grows as {size} in {grows} ({sublayer.name}): the "
                    "near-identity assumption fails, and with it the orders that the prediction "
                    "rests on"
                )
    return sentences
