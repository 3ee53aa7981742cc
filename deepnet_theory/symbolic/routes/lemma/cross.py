r"""Encoder and decoder together: what the decoder's cross-attentions make of the encoder's change.

.. math:: \|\Delta F\| \le \Bigl(\sum_{j \le M} c\Bigr)
          \sum_{i \le 2N} D_e \|\Delta\theta_{e,i}\| + \sum_{j \le 3M} D_d \|\Delta\theta_{d,j}\|,
          \qquad c = v_d w_d/\alpha_d .

The sum A = M c takes all cross-attentions to push one way; in independent directions it is
√M c. The encoder's gradient passes the cross-attentions as well, so that A enters 1 + p times
if one differentiates consistently; DeepNet counts it once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part, Stack
from deepnet_theory.symbolic.algebra.rational import vanishes
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.routes.lemma.checks import (
    DERIVATIVE,
    SQUARES_AT_MOST,
    equal_at_sizes,
    written_out,
)
from deepnet_theory.symbolic.routes.lemma.increment import Kind, Law, increment_step
from deepnet_theory.symbolic.routes.lemma.placement import P
from deepnet_theory.symbolic.routes.lemma.symbols import DEPTHS, alpha, i, l

SECTION = "Encoder and decoder"
SOURCE = "DeepNet, arXiv 2203.00555, §4.2"

_y, _m = sp.symbols("y m", positive=True)
_X = sp.Symbol("X_e", positive=True)  # ‖Δ of the encoder's output‖
_F = sp.Function("F", nonnegative=True)  # ‖Δ of the decoder's stream‖
_D = sp.Function("D_d", positive=True)
_T = sp.Function("T_d", positive=True)
_c = sp.Symbol("c_d", positive=True)  # ‖∂/∂memory‖ of one cross-attention


def sublayer_count_steps(stack: Stack) -> tuple[Step, ...]:
    """How many sublayers so many layers are; 1,000 layers of DeepNet's kind are 2,500."""
    total = sp.Add(*(p.sublayers_per_layer * DEPTHS[p.depth] for p in stack.parts))
    listed = sp.Add(*(sp.Sum(p.sublayers_per_layer, (i, 1, DEPTHS[p.depth])) for p in stack.parts))
    half = {DEPTHS[p.depth]: 500 for p in stack.parts}
    return (
        Step(
            name="sublayer-count",
            section=SECTION,
            lhs=listed,
            rhs=total,
            relation=Relation.EQUAL,
            because="residual sublayers of all layers of both parts",
            source=SOURCE,
            checks=(Check("the sublayers listed one by one", _listed(stack)),),
        ),
        Step(
            name="sublayer-count-500-500",
            section=SECTION,
            lhs=listed.subs(half),
            rhs=total.subs(half),
            relation=Relation.EQUAL,
            because="500 encoder and 500 decoder layers, the paper's 1,000 layers",
            source="DeepNet, arXiv 2203.00555, §1",
            uses=("sublayer-count",),
            checks=(Check("the sublayers listed one by one", _listed_500(stack)),),
        ),
    )


def _listed(stack: Stack) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        for sizes in ((1, 1), (2, 1), (1, 3)):
            at = {DEPTHS[p.depth]: size for p, size in zip(stack.parts, sizes, strict=True)}
            names = [s for p, n in zip(stack.parts, sizes, strict=True) for s in p.layer * n]
            if not len(names) == step.rhs.subs(at) == written_out(step.lhs.subs(at)):
                return False
        return True

    return holds


def _listed_500(stack: Stack) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        names = [s for part in stack.parts for s in part.layer * 500]
        return bool(len(names) == step.rhs == step.lhs.doit())

    return holds


def cross_steps(selection: Selection, decoder: tuple[Kind, ...], law: Law) -> tuple[Step, ...]:
    """The cross-attention's response to the encoder, the two-part bound, and A.

    Raises :class:`Refusal` where the decoder never attends to the encoder.
    """
    part = selection.the_stack.parts[1]
    if part.crossings == 0:
        raise Refusal(
            "the decoder's layer has no cross-attention, so the encoder does not reach the "
            "output and no rule follows for it; use --stack decoder"
        )
    kind = cross_kind(part, decoder)
    response = memory_response(law, kind)
    return (*_memory(law, kind, response), _two_parts(part), *_amplification(part, response))


def cross_kind(part: Part, decoder: tuple[Kind, ...]) -> Kind:
    """The kind that the cross-attentions belong to."""
    name = next(s.name for s in part.layer if s.reads_memory)
    return next(k for k in decoder if k.name in ("*", name))


def memory_response(law: Law, kind: Kind) -> Any:
    """c: a change of the encoder's output as the decoder's stream shows it, leading order."""
    return law.found.weight.subs({P: sp.Mul(*kind.gains), alpha: kind.alpha})


def _memory(law: Law, kind: Kind, response: Any) -> tuple[Step, ...]:
    weight = sp.Mul(*kind.gains)
    if not vanishes(response - weight / kind.alpha):
        # the placement's own law: the branch at unit size against the path at unit size
        return (
            Step(
                name="cross-attention-response",
                section=SECTION,
                lhs=(law.found.output.branch / law.found.output.path)
                .subs({P: weight, alpha: kind.alpha, sp.Symbol("s", positive=True): 1})
                .subs(sp.Symbol("epsilon", positive=True), 0),
                rhs=response,
                relation=Relation.EQUAL,
                because="the memory is normalised, so the branch carries its change at its weight",
                uses=("branch-weight-of-placement",),
                assumptions=("attention-keeps-magnitude",),
            ),
        )
    output = (kind.alpha * _y + weight * _m) / sp.sqrt(kind.alpha**2 + weight**2)
    exact = Step(
        name="cross-attention-derivative",
        section=SECTION,
        lhs=sp.Derivative(output, _m),
        rhs=sp.diff(output, _m),
        relation=Relation.EQUAL,
        because="the decoder's stream y and the memory m are independent and of variance 1",
        source=SOURCE,
        assumptions=("attention-keeps-magnitude", "unit-activations"),
        checks=DERIVATIVE,
        establishes=(_y, _m),
    )
    bound = Step(
        name="cross-attention-response",
        section=SECTION,
        lhs=exact.rhs,
        rhs=response,
        relation=Relation.AT_MOST,
        because="at most its leading order, the branch weight",
        source=SOURCE,
        uses=("cross-attention-derivative",),
        checks=(SQUARES_AT_MOST,),
    )
    return exact, bound


def _two_parts(part: Part) -> Step:
    m = DEPTHS[part.depth]
    per_layer, crosses = part.sublayers_per_layer, part.crossings
    return Step(
        name="two-part-bound",
        section=SECTION,
        lhs=_F(per_layer * m + 1),
        rhs=crosses * m * _c * _X + sp.Sum(_D(l) * _T(l), (l, 1, per_layer * m)),
        relation=Relation.AT_MOST,
        because=(
            "the decoder's recursion with unit Jacobians: every sublayer adds its own update, "
            "every cross-attention c times the change of the encoder's output"
        ),
        source=SOURCE,
        uses=("telescoping", "cross-attention-response"),
        assumptions=("linear-step", "independent-signs"),
        checks=(
            Check("the layer's sublayers unrolled at 1, 2, 3 layers", _decoder_unrolled(part)),
        ),
        establishes=(_c, _X),
    )


def _decoder_unrolled(part: Part) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        depth = DEPTHS[part.depth]
        for layers in (1, 2, 3):
            change: Any = sp.S.Zero
            sublayers = part.layer * layers
            for index, sublayer in enumerate(sublayers, start=1):
                change += _D(index) * _T(index)
                if sublayer.reads_memory:
                    change += _c * _X
            if step.lhs.subs(depth, layers) != _F(len(sublayers) + 1):
                return False
            if not vanishes(written_out(step.rhs.subs(depth, layers)) - change):
                return False
        return True

    return holds


def _amplification(part: Part, response: Any) -> tuple[Step, ...]:
    m = DEPTHS[part.depth]
    count = sp.Symbol("l", integer=True, positive=True)
    crosses = part.crossings
    together = Step(
        name="amplification-aligned",
        section=SECTION,
        lhs=sp.Sum(crosses * response, (count, 1, m)),
        rhs=crosses * m * response,
        relation=Relation.EQUAL,
        because="A where all cross-attentions push one way: the triangle inequality's sum",
        source=SOURCE,
        uses=("two-part-bound",),
        assumptions=("aligned-updates",),
        checks=(equal_at_sizes(m),),
    )
    apart = Step(
        name="amplification-independent",
        section=SECTION,
        lhs=sp.sqrt(sp.Sum(crosses * response**2, (count, 1, m))),
        rhs=sp.sqrt(crosses * m) * response,
        relation=Relation.EQUAL,
        because="A where the cross-attentions push in independent directions",
        uses=("two-part-bound",),
        assumptions=("independent-signs",),
        checks=(equal_at_sizes(m),),
    )
    return together, apart


def encoder_increments(
    selection: Selection,
    encoder: tuple[Kind, ...],
    decoder: tuple[Kind, ...],
    law: Law,
) -> tuple[Step, ...]:
    """The encoder's increment at its own output, and at the stack's output.

    ``increment-encoder-own`` has factor 1; ``increment-encoder`` A once as published, A^{1+p}
    in the worst case (aligned) or for independent directions.
    """
    first, second = selection.the_stack.parts
    kind = cross_kind(second, decoder)
    response = memory_response(law, kind).subs(kind.equal_gains)
    crosses, m = second.crossings, DEPTHS[second.depth]
    aligned, independent = crosses * m * response, sp.sqrt(crosses * m) * response
    backward = 1 + law.degrees.p
    factor, uses, because = {
        "published": (
            aligned,
            "amplification-aligned",
            "A once, for the way forward, as published",
        ),
        "worst-case": (
            aligned**backward,
            "amplification-aligned",
            "A forward once and p times backward through the cross-attentions, all aligned",
        ),
        "independent": (
            independent**backward,
            "amplification-independent",
            "A forward once and p times backward, the cross-attentions in independent directions",
        ),
    }[selection.amplification]
    own = increment_step(
        first,
        encoder,
        law,
        name="increment-encoder-own",
        section=SECTION,
        source="derived here",
        because="the encoder's increment at its own output, before the decoder",
        uses=("increment-of-equal-sublayers",),
    )
    whole = increment_step(
        first,
        encoder,
        law,
        amplification=factor,
        section=SECTION,
        source=SOURCE if selection.amplification == "published" else "derived here",
        because=f"the encoder's increment at the stack's output: {because}",
        uses=("increment-encoder-own", uses),
    )
    return own, whole
