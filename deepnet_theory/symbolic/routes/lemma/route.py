r"""The lemma route of a selection: the update substituted, and what it proves of each sublayer.

With :math:`D = \sqrt{\sum_j (P/\beta_j)^2}\,R` the response of the output to the branch's
parameters, :math:`\|g\| \le \|\partial L/\partial F\|\,D` and a step along the gradient of size
:math:`\|\Delta\theta\| = \eta\,\|g\|^p\,\|\theta\|^q`, one sublayer adds

.. math:: D\,\|\Delta\theta\| = \eta\,\|\partial L/\partial F\|^p\,D^{1+p}\,\|\theta\|^q, \qquad
          \|\theta\| = \sqrt{\textstyle\sum_j \beta_j^2} .

Of two parts it says what the decoder's cross-attentions make of the encoder's change,

.. math:: \|\Delta F\| \le \Bigl(\sum_{j \le M} c\Bigr)
          \sum_{i \le 2N} D_e \|\Delta\theta_{e,i}\| + \sum_{j \le 3M} D_d \|\Delta\theta_{d,j}\|,
          \qquad c = v_d w_d/\alpha_d .

The sum A = M c takes all cross-attentions to push one way; in independent directions it is
√M c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import sympy as sp

from deepnet_theory.sizes.update import Update
from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer, letters
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    S,
    alpha,
    beta,
    eta,
    gains,
    i,
    l,
    r,
    vanishes,
)
from deepnet_theory.symbolic.expectation import norm_of, output_change
from deepnet_theory.symbolic.laws.explicit import homogeneity_step
from deepnet_theory.symbolic.laws.placement import P, gains_product, placement_law
from deepnet_theory.symbolic.proof.step import (
    DERIVATIVE,
    SAMPLED,
    SQUARES_AT_MOST,
    Check,
    Point,
    Regime,
    Relation,
    Section,
    Step,
    defines,
    equal_at_sizes,
    ratio_in_branch_weight,
    written_at,
    written_out,
)
from deepnet_theory.symbolic.routes.lemma.placement import (
    Directions,
    directions,
    placement_steps,
)
from deepnet_theory.symbolic.routes.lemma.scalar import Gains, scalar_steps, telescoping_steps
from deepnet_theory.symbolic.routes.route import (
    Route,
    added_up,
    crossings,
    encoder_and_decoder,
    sublayers,
)

SOURCE = "layer cake, §4.3"
SECTION = Section("Update substituted", SOURCE)

loss_gradient = norm_of(
    "dL_dF", r"\partial L/\partial F"
)  # ‖∂L/∂F‖, the loss's gradient at the output


def responses(gains: Gains) -> sp.Expr:
    """Σ (P/β_j)², the squared norm of the branch's derivatives in its gains."""
    weight = sp.Mul(*gains)
    return sp.Add(*((weight / gain) ** 2 for gain in gains))


@dataclass(frozen=True)
class Law:
    """The response R of a placement and the degrees of an optimizer, at gains in any symbols."""

    found: Directions
    degrees: Update

    def response(self, of: Gains) -> sp.Expr:
        """D to leading order: R √Σ(P/β_j)²."""
        return sp.sqrt(responses(of)) * self.found.leading.xreplace({P: sp.Mul(*of)})

    def share(self, of: Gains) -> sp.Expr:
        """D^{1+p} ‖θ‖^q: one sublayer's increment per η, the loss's gradient dropped."""
        size = sp.sqrt(sp.Add(*(gain**2 for gain in of)))
        return self.response(of) ** (1 + self.degrees.p) * size**self.degrees.q


@dataclass(frozen=True)
class Passage:
    """What becomes of a change on its way to the output.

    ``size``: all later Jacobians in root mean square, as the step ``proved_by`` has it.
    ``telescoping``: the step that adds the sublayers' changes up.
    """

    size: sp.Expr
    proved_by: str
    telescoping: str


def update_steps(law: Law, of: Gains, passage: Passage, suffix: str) -> tuple[Step, ...]:
    """Gradient, update and increment of one sublayer, and the sum over S equal ones."""
    p, q = law.degrees.p, law.degrees.q
    gradient = _gradient_size(law, of, passage, suffix)
    per_gains = law.found.leading.xreplace({P: sp.Mul(*of)})
    responding = [per_gains * sp.Mul(*of) / gain for gain in of]
    size = sp.sqrt(sp.Add(*(gain**2 for gain in of)))
    length = gradient.rhs
    moves = [
        eta * length**p * size**q * (loss_gradient * response / length) for response in responding
    ]
    update = SECTION.equal(
        f"update-size{suffix}",
        sp.sqrt(sp.Add(*(move**2 for move in moves))),
        eta * length**p * size**q,
        f"a step along the gradient, of the optimizer's degrees p = {p}, q = {q}: "
        "‖Δθ‖ = η‖g‖^p‖θ‖^q. At equal gains the entries of g are equal, so that an update "
        "entry by entry runs along it as well",
        source="layer cake, §4.3, last supplement",
        uses=(gradient.name, "degrees"),
        assumptions=("equal-gains",),
        checks=(SAMPLED,),
    )
    moved = SECTION.equal(
        f"sublayer-increment{suffix}",
        sp.Add(*(response * move for response, move in zip(responding, moves, strict=True))),
        eta * loss_gradient**p * law.share(of),
        "the output moves by ⟨∂F/∂θ, Δθ⟩, which along the gradient is D‖Δθ‖",
        uses=(update.name,),
        assumptions=("linear-step",),
        checks=(SAMPLED,),
    )
    total = SECTION.equal(
        f"sum-over-sublayers{suffix}",
        sp.Sum(moved.rhs, (i, 1, S)),
        S * moved.rhs,
        "S equal terms added by the triangle inequality: what updates that push the output "
        "one way make; independent directions would make √S of it",
        uses=(passage.telescoping, moved.name),
        assumptions=("aligned-updates",),
        checks=(equal_at_sizes(S),),
    )
    return gradient, update, moved, total


def _gradient_size(law: Law, of: Gains, passage: Passage, suffix: str) -> Step:
    """‖g‖: a bound, or its leading order where the update falls with the gradient (p < 0)."""
    weight = law.found.weight.xreplace({P: sp.Mul(*of)})
    last = alpha if law.found.vanishing == alpha else of[0]
    exact = sp.sqrt(responses(of)) * law.found.response.xreplace({P: sp.Mul(*of)})
    approached = ratio_in_branch_weight(last, weight)
    step = SECTION.at_most(
        f"gradient-size{suffix}",
        loss_gradient * exact * passage.size,
        loss_gradient * law.response(of),
        "‖∂L/∂θ_i‖ ≤ ‖∂L/∂F‖ ‖∂F/∂θ_i‖, and ‖∂F/∂θ_i‖ is at most the last sublayer's: in "
        "mean square the Jacobians in between are at most 1",
        uses=(passage.proved_by, "branch-response"),
        assumptions=("independent-signs", "unit-activations", "small-branch-weight"),
        checks=(SQUARES_AT_MOST, approached),
        establishes=(loss_gradient,),
    )
    if law.degrees.p >= 0:
        return step
    return replace(
        step,
        relation=Relation.ASYMPTOTIC,
        because=(
            "the update falls with the gradient, so an upper bound would not do: the gradient's "
            "size itself, to leading order where S·r² is small"
        ),
        source="derived here",
        assumptions=(*step.assumptions, "near-identity"),
        regime=Regime(r, sp.S.Zero, "S*r**2 -> 0"),
        checks=(approached,),
    )


def premises(sublayer: Sublayer) -> tuple[str, ...]:
    """What makes a branch its gains' product times a map of order one."""
    named = {"softmax": "attention-keeps-magnitude", "phi": "homogeneous-activation"}
    return tuple(name for function, name in named.items() if function in sublayer.branch)


def weight_of(sublayer: Sublayer, law: Law) -> Step:
    """r of a sublayer, all its gains β."""

    return SECTION.equal(
        f"branch-weight-{sublayer.name}",
        r,
        law.found.weight.xreplace({P: beta ** len(sublayer.scaled)}),
        f"the {len(sublayer.scaled)} scaled matrices of {sublayer.name}, all gains β",
        uses=("branch-weight-of-placement",),
        assumptions=("equal-gains", *premises(sublayer)),
        checks=(
            defines(
                "the gains multiplied along the branch's own formula",
                lambda: placement_law(law.found.placement).weight.xreplace(
                    {P: gains_product(sublayer)}
                ),
            ),
        ),
        establishes=(r,),
        source="derived here",
    )


def increment_of(sublayer: Sublayer, law: Law, of: Gains, moved: Step) -> Step:
    """What one step makes a sublayer add, all its gains β: ``moved`` without the gradient."""
    equal = dict.fromkeys(of, beta)
    share = law.share(of).xreplace(equal)
    return SECTION.bound(
        f"increment-{sublayer.name}",
        moved.rhs.xreplace(equal),
        eta * sp.powdenest(sp.powsimp(share), force=True),
        f"all gains of {sublayer.name} are β, and the loss's gradient at the output is of "
        "order one",
        uses=(moved.name,),
        assumptions=("equal-gains", "bounded-loss-gradient", *premises(sublayer)),
        bounded=(loss_gradient,),
        left=output_change(letters(sublayer.name)),
    )


# ---- all sections in order ----


def lemma_route(selection: Selection) -> Route:
    """DeepNet's route as the layer cake completes it.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where a law is missing.
    """
    distinct = {s.name: s for part in selection.the_stack.parts for s in part.layer}
    counts = gain_counts(selection)
    found = directions(selection.the_placement)
    law = Law(found, degrees(selection.the_optimizer))
    steps, passage = _sublayers(found, counts[0])
    steps.append(homogeneity_step(selection.the_optimizer, law.degrees))
    moved: dict[int, Step] = {}
    sums: list[str] = []
    for count in counts:
        suffix = "" if count == counts[0] else f"-{count}"
        *updates, total = update_steps(law, gains(count), passage, suffix)
        moved[count] = updates[-1]
        steps += [*updates, total]
        sums.append(total.name)
    if len(selection.the_stack.parts) == 2:
        _, decoder = encoder_and_decoder(selection.the_stack)
        aligned = selection.amplification != "independent"
        steps += cross_steps(found, decoder, passage.telescoping)
        steps.append(amplification_step(found, decoder, aligned=aligned))
        sums.append(steps[-1].name)
    weights = {name: weight_of(s, law) for name, s in distinct.items()}
    increments = {
        name: increment_of(s, law, gains(len(s.scaled)), moved[len(s.scaled)])
        for name, s in distinct.items()
    }
    steps += [*weights.values(), *increments.values()]
    depths = (DEPTHS[depth] for depth in selection.the_stack.depths)
    magnitudes = (gain for count in counts for gain in gains(count))
    given = tuple(dict.fromkeys((alpha, beta, eta, P, *depths, *magnitudes)))
    return Route(tuple(steps), given, increments, weights, tuple(sums))


def gain_counts(selection: Selection) -> list[int]:
    """The numbers of scaled matrices that a branch of the stack has, two of them first."""
    counts = {len(s.scaled) for part in selection.the_stack.parts for s in part.layer}
    return sorted(counts, key=lambda count: (count != 2, count))


def _sublayers(found: Directions, count: int) -> tuple[list[Step], Passage]:
    """One sublayer and all of them, and what they say of a change on its way to the output."""
    of_placement = placement_steps(found)
    normalised = found.placement.normalises_sum
    telescoping = [*telescoping_steps(normalised=normalised)]
    if not normalised:
        later = next(s for s in of_placement if s.name == "stream-jacobians")
        through = Passage(sp.sqrt(later.rhs), later.name, "telescoping-through-the-stream")
        return [*telescoping, *of_placement], through
    if not vanishes(found.weight - P / alpha):
        raise Refusal(
            f"the lemma route has no law for the placement {found.placement.name!r}: the products "
            "of Jacobians are known of norm(alpha*x + branch(x)) alone"
        )
    scalar = scalar_steps(gains(count))
    through = Passage(scalar[-1].rhs, scalar[-1].name, telescoping[-1].name)
    return [*scalar, *telescoping, *of_placement], through


# ---- encoder and decoder ----

TWO_PARTS = Section("Encoder and decoder", "DeepNet, arXiv 2203.00555, §4.2")

_y, _m = sp.symbols("x y", positive=True)
_X = sp.Symbol("X_e", positive=True)  # ‖Δ of the encoder's output‖
_F = sp.Function("X_d", nonnegative=True)  # ‖Δ of the decoder's stream‖
_D = sp.Function("D_d", positive=True)
_T = sp.Function("T_d", positive=True)
_c = sp.Symbol("q_d", positive=True)  # ‖∂/∂memory‖ of one cross-attention


def cross_steps(found: Directions, decoder: Part, telescoping: str) -> tuple[Step, ...]:
    """The cross-attention's response to the encoder, and the bound of both parts."""
    normalised = found.placement.normalises_sum
    response = _normalised(found) if normalised else (_streaming(found),)
    bound = TWO_PARTS.at_most(
        "two-part-bound",
        _F(sublayers(decoder) + 1),
        crossings(decoder) * _c * _X + sp.Sum(_D(l) * _T(l), (l, 1, sublayers(decoder))),
        "the decoder's recursion with unit Jacobians: every sublayer adds its own update, "
        "every cross-attention c times the change of the encoder's output",
        uses=(telescoping, "cross-attention-response"),
        assumptions=("linear-step", "independent-signs"),
        checks=(_unrolled(decoder),),
        establishes=(_X,),
    )
    return (*response, bound)


def _streaming(found: Directions) -> Step:
    """The stream is not normalised: the branch carries the memory's change at its weight."""
    weight = placement_law(found.placement).weight
    return TWO_PARTS.equal(
        "cross-attention-response",
        _c,
        found.weight,
        "the memory is normalised, so the branch carries its change at its weight",
        uses=("branch-weight-of-placement",),
        assumptions=("attention-keeps-magnitude",),
        checks=(defines("the matrix law of the placement", lambda: weight),),
        establishes=(_c,),
        source="derived here",
    )


def _normalised(found: Directions) -> tuple[Step, Step]:
    path, branch = found.at_rest
    output = path * _y + branch * _m
    exact = TWO_PARTS.equal(
        "cross-attention-derivative",
        sp.Derivative(output, _m),
        sp.diff(output, _m),
        "the decoder's stream y and the memory m are independent and of variance 1, as "
        "the path and the branch of a sublayer are",
        uses=("stream-growth",),
        assumptions=("attention-keeps-magnitude", "unit-activations"),
        checks=DERIVATIVE,
        establishes=(_y, _m, _c),
    )
    bound = TWO_PARTS.at_most(
        "cross-attention-response",
        exact.rhs,
        found.weight,
        "at most its leading order, the branch weight",
        uses=("cross-attention-derivative", "branch-weight-of-placement"),
        checks=(SQUARES_AT_MOST, ratio_in_branch_weight(P, found.weight)),
    )
    return exact, bound


def _unrolled(decoder: Part) -> Check:
    def points() -> Iterator[Point]:
        for layers in (1, 2, 3):
            change = added_up(decoder, layers, lambda at: _D(at) * _T(at), _c * _X)
            yield {DEPTHS[decoder.depth]: layers}, (_F(len(decoder.layer) * layers + 1), change)

    return written_at("the layer's sublayers unrolled at 1, 2, 3 layers", points)


def amplification_step(found: Directions, decoder: Part, *, aligned: bool) -> Step:
    """A: all cross-attentions added up, or in independent directions the root of their squares."""
    power = 1 if aligned else 2
    summed = sp.Sum(decoder.crossings * found.weight**power, (l, 1, DEPTHS[decoder.depth]))
    return TWO_PARTS.equal(
        "amplification-" + ("aligned" if aligned else "independent"),
        summed ** sp.Rational(1, power),
        crossings(decoder) ** sp.Rational(1, power) * found.weight,
        (
            "A where all cross-attentions push one way: the triangle inequality's sum"
            if aligned
            else "A where the cross-attentions push in independent directions"
        ),
        source=TWO_PARTS.source if aligned else "derived here",
        uses=("two-part-bound",),
        assumptions=("aligned-updates" if aligned else "independent-signs",),
        checks=(_listed(found, decoder, power),),
    )


def _listed(found: Directions, decoder: Part, power: int) -> Check:
    """Both sides squared, against as many weights of the matrix law as there are crossings."""
    weight = placement_law(found.placement).weight

    def holds(step: Step) -> bool:
        for layers in (1, 2, 3):
            at = {DEPTHS[decoder.depth]: sp.Integer(layers)}
            summed = added_up(decoder, layers, lambda _: sp.S.Zero, weight**power)
            for side in (step.lhs, step.rhs):
                size = written_out(side.xreplace(at))
                if not size.is_positive or not vanishes(size**2 - summed ** (2 // power)):
                    return False
        return True

    return Check("the cross-attentions listed", holds)
