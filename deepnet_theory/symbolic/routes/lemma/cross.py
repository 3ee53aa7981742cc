r"""Encoder and decoder together: what the decoder's cross-attentions make of the encoder's change.

.. math:: \|\Delta F\| \le \Bigl(\sum_{j \le M} c\Bigr)
          \sum_{i \le 2N} D_e \|\Delta\theta_{e,i}\| + \sum_{j \le 3M} D_d \|\Delta\theta_{d,j}\|,
          \qquad c = v_d w_d/\alpha_d .

The sum A = M c takes all cross-attentions to push one way; in independent directions it is
√M c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy as sp

from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, l, vanishes
from deepnet_theory.symbolic.laws.placement import P, placement_law
from deepnet_theory.symbolic.proof.checks import (
    DERIVATIVE,
    SQUARES_AT_MOST,
    Point,
    defines,
    ratio_in_branch_weight,
    written_at,
    written_out,
)
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.routes.lemma.placement import Directions, epsilon
from deepnet_theory.symbolic.routes.route import added_up, crossings, sublayers

SOURCE = "DeepNet, arXiv 2203.00555, §4.2"
SECTION = Section("Encoder and decoder", SOURCE)

_y, _m = sp.symbols("x y", positive=True)
_X = sp.Symbol("X_e", positive=True)  # ‖Δ of the encoder's output‖
_F = sp.Function("X_d", nonnegative=True)  # ‖Δ of the decoder's stream‖
_D = sp.Function("D_d", positive=True)
_T = sp.Function("T_d", positive=True)
_c = sp.Symbol("q_d", positive=True)  # ‖∂/∂memory‖ of one cross-attention


def cross_steps(found: Directions, decoder: Part, telescoping: str) -> tuple[Step, ...]:
    """The cross-attention's response to the encoder, and the bound of both parts."""
    response = (_normalised if found.placement.normalises_sum else _streaming)(found)
    return (*response, _two_parts(decoder, telescoping))


def _streaming(found: Directions) -> tuple[Step, ...]:
    """The stream is not normalised: the branch carries the memory's change at its weight."""
    weight = placement_law(found.placement).weight
    return (
        SECTION.equal(
            "cross-attention-response",
            _c,
            found.weight,
            "the memory is normalised, so the branch carries its change at its weight",
            uses=("branch-weight-of-placement",),
            assumptions=("attention-keeps-magnitude",),
            checks=(defines("the matrix law of the placement", lambda: weight),),
            establishes=(_c,),
            source="derived here",
        ),
    )


def _normalised(found: Directions) -> tuple[Step, ...]:
    still = {epsilon: sp.S.Zero}
    output = found.output.path.xreplace(still) * _y + found.output.branch.xreplace(still) * _m
    exact = SECTION.equal(
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
    bound = SECTION.at_most(
        "cross-attention-response",
        exact.rhs,
        found.weight,
        "at most its leading order, the branch weight",
        uses=("cross-attention-derivative", "branch-weight-of-placement"),
        checks=(SQUARES_AT_MOST, ratio_in_branch_weight(P, found.weight)),
    )
    return exact, bound


def _two_parts(decoder: Part, telescoping: str) -> Step:
    return SECTION.at_most(
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
    return SECTION.equal(
        "amplification-" + ("aligned" if aligned else "independent"),
        summed ** sp.Rational(1, power),
        crossings(decoder) ** sp.Rational(1, power) * found.weight,
        (
            "A where all cross-attentions push one way: the triangle inequality's sum"
            if aligned
            else "A where the cross-attentions push in independent directions"
        ),
        source=SOURCE if aligned else "derived here",
        uses=("two-part-bound",),
        assumptions=("aligned-updates" if aligned else "independent-signs",),
        checks=(Check("the cross-attentions listed", _listed(found, decoder, aligned)),),
    )


def _listed(found: Directions, decoder: Part, aligned: bool) -> Callable[[Step], bool]:
    """Both sides squared, against as many weights of the matrix law as there are crossings."""
    weight = placement_law(found.placement).weight

    def holds(step: Step) -> bool:
        for layers in (1, 2, 3):
            at = {DEPTHS[decoder.depth]: sp.Integer(layers)}
            if aligned:
                square = added_up(decoder, layers, lambda _: sp.S.Zero, weight) ** 2
            else:
                square = added_up(decoder, layers, lambda _: sp.S.Zero, weight**2)
            for side in (step.lhs, step.rhs):
                size = written_out(side.xreplace(at))
                if not size.is_positive or not vanishes(size**2 - square):
                    return False
        return True

    return holds
