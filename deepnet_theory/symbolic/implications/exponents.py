r"""The predicted growth of ‖ΔF‖ with depth, for any rule under any optimizer.

A part of S sublayers moves the output by :math:`A\sum_l \gamma^{1+p}|\theta|^q`; the exponent of
that sum in the depth is what the laboratory's slope is held against.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import sympy as sp

from deepnet_theory.sizes.growth import growth, leading_term
from deepnet_theory.spec.errors import Refusal, shown
from deepnet_theory.spec.results.prediction import Prediction, Predictions
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.algebra.depth import depth_expression, rational
from deepnet_theory.symbolic.algebra.monomial import exponent_in, exponents
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, alpha, beta
from deepnet_theory.symbolic.laws.parameters import branch_weight, relative_update, terms
from deepnet_theory.symbolic.rule.premises import shrinkage
from deepnet_theory.symbolic.rule.setting import Setting
from deepnet_theory.symbolic.rule.solved_rule import solve_rule

RIVALS = ("sgd", "adam", "lamb")


def _at_rule(
    expression: sp.Expr, rule: Rule, part: Part, sublayer: Sublayer, variable: sp.Symbol
) -> sp.Rational:
    """The exponent in ``variable`` of a monomial in α and β at the rule."""
    entry, powers = rule.entry(part.name, sublayer.name), exponents(expression)
    return sum(
        powers.get(knob, sp.Integer(0)) * rational(growth(value, variable.name))
        for knob, value in ((alpha, entry.alpha), (beta, entry.beta))
    )


def sum_exponent(
    setting: Setting, weight: sp.Rational, part: Part, variable: sp.Symbol
) -> sp.Rational:
    r"""The exponent of :math:`\sum_{l\le S} (1 + l r^2)^{-(1+p)/2}`, S of the part.

    ``weight`` is the exponent of r. Where the stream is normalised in every sublayer, and near
    the identity, the sum is S.
    """
    count = sp.Integer(int(DEPTHS[part.depth] == variable))
    return count - shrinkage(setting, count + 2 * weight)


def share_exponent(
    setting: Setting, rule: Rule, part: Part, variable: sp.Symbol, roles: frozenset[Role]
) -> sp.Rational:
    """The exponent of the part's own share of ‖ΔF‖, at the part's output, in ``variable``."""
    candidates = []
    for sublayer in dict.fromkeys(part.layer):
        weight = _at_rule(branch_weight(sublayer, setting.law), rule, part, sublayer, variable)
        repeated = sum_exponent(setting, weight, part, variable)
        for term in terms(sublayer, setting.law, setting.selection.the_norm):
            increment = term.increment(setting.degrees)
            if term.role in roles and increment != 0:
                size = _at_rule(increment, rule, part, sublayer, variable)
                if term.role is Role.SCALED:
                    rate = rule.entry(part.name, sublayer.name).rate
                    size += rational(growth(rate, variable.name))
                candidates.append(repeated + size)
    return max(candidates) + rational(growth(rule.eta, variable.name))


def _amplification_exponent(
    setting: Setting, rule: Rule, variable: sp.Symbol, aligned: bool = False
) -> sp.Rational:
    r"""The exponent of what the later part multiplies the first part's share with.

    M cross-attentions of weight c carry a change of the encoder's output to the decoder's. Their
    value and output matrices are independent at initialisation, so that they add as
    :math:`A = \sqrt M c` (``aligned``: :math:`Mc`), once forward and p times through the
    gradient, whichever convention the rule was balanced with.

    Source: derived here.
    """
    parts = setting.selection.the_stack.parts
    later = parts[-1]
    depth = DEPTHS[later.depth]
    crossing = next((s for s in later.layer if s.reads_memory), None)
    if crossing is None:
        raise Refusal("nothing passes from the encoder to a decoder without cross-attention")
    weight = _at_rule(branch_weight(crossing, setting.law), rule, later, crossing, variable)
    layers = depth if aligned else sp.sqrt(depth)
    return (1 + setting.degrees.p) * (exponent_in(layers, variable) + weight)


def _refuse_without_stream(setting: Setting, rule: Rule) -> None:
    """A stream that no norm takes back must be multiplied by 1, or it explodes or vanishes."""
    law = setting.law
    if law.normalised or law.stream == 1:
        return
    for entry in rule.entries:
        own = [leading_term(entry.alpha, depth) for depth in setting.selection.the_stack.depths]
        one = all(term.whole and term.coefficient == 1 and not term.powers for term in own)
        if not one or law.stream.xreplace({alpha: sp.Integer(1)}) != 1:
            raise Refusal(
                f"a sublayer {setting.placed} multiplies the stream by {law.stream}, which no norm "
                f"takes back: at alpha = {shown(entry.alpha)} the stream explodes or vanishes with "
                "depth; the coefficient of x must be 1"
            )


def relative_updates(selection: Selection, rule: Rule) -> dict[str, sp.Expr]:
    """ρ = ‖ΔW‖/(η‖W‖) of the scaled matrices at a rule of one's own, by kind of sublayer.

    Of a stack of one part, where no later one multiplies the gradients.
    """
    setting, (part,) = Setting(selection), selection.the_stack.parts
    found = {}
    for sublayer in dict.fromkeys(part.layer):
        entry = rule.entry(part.name, sublayer.name)
        values = {alpha: depth_expression(entry.alpha), beta: depth_expression(entry.beta)}
        relative = relative_update(sublayer, setting.law, setting.degrees).xreplace(values)
        times = depth_expression(entry.rate) * depth_expression(rule.eta)
        found[sublayer.name] = sp.simplify(times * relative)
    return found


def unstable(selection: Selection, rule: Rule) -> str:
    """What to know before training with a rule: where its ρ grows with a depth, in one sentence.

    Empty where it does not, or where one matrix a branch does not feel it. Raises
    :class:`Refusal` where the stream explodes.
    """
    setting = Setting(selection)
    _refuse_without_stream(setting, rule)
    found = []
    for part in selection.the_stack.parts:
        for sublayer in dict.fromkeys(part.layer):
            relative = relative_update(sublayer, setting.law, setting.degrees)
            for symbol in map(DEPTHS.__getitem__, selection.the_stack.depths):
                rate = rule.entry(part.name, sublayer.name).rate
                power = _at_rule(relative, rule, part, sublayer, symbol) + sum(
                    rational(growth(text, symbol.name)) for text in (rate, rule.eta)
                )
                if power > 0 and len(sublayer.scaled) > 1:
                    found.append(f"{symbol}^({power}) in {sublayer.name} of the {part.name}")
    if not found:
        return ""
    return f"Unstable in depth: rho goes as {', '.join(found)}, and with it the higher orders."


MATRICES = frozenset({Role.SCALED, Role.UNSCALED})
VECTORS = frozenset(Role) - MATRICES


def exponents_of(
    selection: Selection, rule: Rule, step: str = "matrices", aligned: bool = False
) -> dict[tuple[str, str], Fraction]:
    """Predicted exponents by (variable, share); share is ``all`` or a part's name.

    ``step`` is ``matrices`` (what the published rules speak of) or ``all`` parameters;
    ``aligned`` takes the cross-attentions as all aligned instead of independent.
    """
    setting = Setting(selection)
    parts = selection.the_stack.parts
    roles = MATRICES if step == "matrices" else MATRICES | VECTORS
    found: dict[tuple[str, str], Fraction] = {}
    _refuse_without_stream(setting, rule)
    for variable in selection.the_stack.depths:
        symbol = DEPTHS[variable]
        values = {}
        for index, part in enumerate(parts):
            value = share_exponent(setting, rule, part, symbol, roles)
            if len(parts) > 1 and index == 0:
                value += _amplification_exponent(setting, rule, symbol, aligned)
            values[part.name] = _fraction(value)
        found[(variable, "all")] = max(values.values())
        if len(parts) > 1:
            found.update({(variable, name): value for name, value in values.items()})
    return found


def _fraction(value: sp.Rational) -> Fraction:
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
    own = exponents_of(selection, rule, step)
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
    setting = Setting(selection)
    sentences = []
    for part in selection.the_stack.parts:
        for sublayer in dict.fromkeys(part.layer):
            weight = branch_weight(sublayer, setting.law)
            # a part's constants may depend on the other part's depth: judged in every depth
            size = {
                symbol: int(symbol == DEPTHS[part.depth])
                + 2 * _at_rule(weight, rule, part, sublayer, symbol)
                for symbol in map(DEPTHS.__getitem__, selection.the_stack.depths)
            }
            powers = "*".join(f"{symbol}^({power})" for symbol, power in size.items() if power)
            grows = " and ".join(symbol.name for symbol, power in size.items() if power > 0)
            if grows:
                sentences.append(
                    f"the {part.name}'s S*r^2 grows as {powers} in {grows} ({sublayer.name}): the "
                    "near-identity assumption fails, and with it the orders that the prediction "
                    "rests on"
                )
    return sentences
