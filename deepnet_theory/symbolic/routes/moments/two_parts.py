r"""Encoder and decoder: what the decoder's cross-attentions make of the encoder's change.

K cross-attentions of weight b make at most K·b of a change of the memory; in mean square

.. math:: A^2 = 1 - \prod_j \frac{T_j}{T_j + b^2} \le K b^2 ,

T_j the stream's square before the j-th of them, 1 throughout where every sum is normalised: A
stays below 1 whatever the depth, where the triangle inequality's K·b may grow.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.rational import vanishes
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, alpha, eta, part_symbol
from deepnet_theory.symbolic.expectation.model import NamedQuantity, norm_of
from deepnet_theory.symbolic.laws.optimizer import degrees
from deepnet_theory.symbolic.laws.placement import P, PlacementLaw, placement_law
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.routes.moments.increment import INCREMENT, Passage, increment_step
from deepnet_theory.symbolic.routes.moments.recursion import change, index

SECTION = "Encoder and decoder"
SOURCE = "DeepNet, arXiv 2203.00555, §4.2"

norm_df_d = norm_of("dF_d", r"\Delta F_d")
mean_square = NamedQuantity("A_rms", r"A_{\mathrm{rms}}")
aligned = NamedQuantity("A_sum", r"A_{\Sigma}")


class encoder_change(change):  # noqa: N801  as SymPy names functions
    """‖Δθ_{e,i}‖ of sublayer i of the encoder."""

    part = "e"


class decoder_change(change):  # noqa: N801
    """‖Δθ_{d,i}‖ of sublayer i of the decoder."""

    part = "d"


CHANGES = {"encoder": encoder_change, "decoder": decoder_change}


@dataclass(frozen=True)
class Half:
    """One part in its own symbols."""

    part: Part
    law: PlacementLaw

    def symbol(self, name: str) -> Any:
        """α, β, v or w of the part."""
        return part_symbol(name, self.part.name, 2)

    @property
    def depth(self) -> Any:
        """N or M."""
        return DEPTHS[self.part.depth]

    @property
    def sublayers(self) -> Any:
        """S."""
        return self.part.sublayers_per_layer * self.depth

    @property
    def crossings(self) -> Any:
        """K, the cross-attentions of the part."""
        return self.part.crossings * self.depth

    def weight(self, product: Any) -> Any:
        """b at a product of gains."""
        return self.law.weight.xreplace({P: product, alpha: self.symbol("alpha")})

    @property
    def coefficient(self) -> Any:
        """What a sublayer adds per ‖Δθ‖."""
        v, w = self.symbol("v"), self.symbol("w")
        kappa = self.law.response.xreplace({P: v * w, alpha: self.symbol("alpha")})
        return sp.sqrt(v**2 + w**2) * kappa

    @property
    def knobs(self) -> tuple[Any, Any]:
        """α and β."""
        return self.symbol("alpha"), self.symbol("beta")

    @property
    def symbols(self) -> tuple[Any, ...]:
        """All of them."""
        return tuple(self.symbol(name) for name in ("alpha", "beta", "v", "w"))


def halves(selection: Selection) -> tuple[Half, Half]:
    """Encoder and decoder; raises :class:`Refusal` where the decoder has no cross-attention."""
    law = placement_law(selection.the_placement)
    encoder, decoder = (Half(part, law) for part in selection.the_stack.parts)
    if decoder.part.crossings == 0:
        raise Refusal(
            "the decoder's layer has no cross-attention, so the encoder does not reach the "
            "output and no rule follows for it; use --stack decoder"
        )
    return encoder, decoder


def two_part_steps(selection: Selection, normalised: bool) -> tuple[Step, ...]:
    """A both ways, the bound of both parts, and each part's increment."""
    encoder, decoder = halves(selection)
    return (
        *_amplification(decoder, normalised),
        _bound(encoder, decoder),
        *_increments(selection, encoder, decoder),
    )


# ---- the amplification ---------------------------------------------------------------------


def _amplification(decoder: Half, normalised: bool) -> tuple[Step, ...]:
    b = decoder.weight(decoder.symbol("v") * decoder.symbol("w"))
    number = decoder.crossings
    run = _run_through(decoder, normalised)
    return (
        Step(
            name="amplification-mean-square",
            section=SECTION,
            lhs=mean_square**2,
            rhs=1 - _kept(decoder, b, normalised),
            relation=Relation.EQUAL,
            because=(
                "cross-growth run through the decoder from Δs = 0 with one Δa of unit size at "
                "every cross-attention; the sublayers in between carry change and stream alike. A "
                "stays below 1 at any depth"
            ),
            source="derived here",
            uses=("cross-growth", "telescoping"),
            assumptions=("fresh-weights", "independent-update", "linear-step"),
            establishes=(mean_square,),
            checks=(Check("the mean squares run at 1, 2, 3 layers", run),),
        ),
        Step(
            name="amplification-independent",
            section=SECTION,
            lhs=mean_square,
            rhs=sp.sqrt(number) * b,
            relation=Relation.AT_MOST,
            because=(
                f"every one of the {number} cross-attentions adds at most b² to the square: what "
                "fresh weights make, in independent directions"
            ),
            source="derived here",
            uses=("amplification-mean-square",),
            checks=(
                Check("the mean squares run, reached as b -> 0", _bounded(decoder, normalised)),
            ),
        ),
        Step(
            name="amplification-aligned",
            section=SECTION,
            lhs=aligned,
            rhs=number * b,
            relation=Relation.EQUAL,
            because=(
                f"the triangle inequality instead, cross-response {number} times: what "
                "cross-attentions make that push one way, forward and, transposed, backward"
            ),
            source=SOURCE,
            uses=("cross-response", "memory-average"),
            assumptions=("aligned-updates",),
            establishes=(aligned,),
            checks=(Check("the bound's recursion run at 1, 2, 3 layers", _summed(decoder)),),
        ),
    )


def _kept(decoder: Half, b: Any, normalised: bool) -> Any:
    """Π_j T_j/(T_j + b²), T_j = 1 + b²·(sublayers before the j-th) where the stream grows."""
    if normalised:
        return (1 + b**2) ** (-decoder.crossings)
    factors = sp.S.One
    for place, sublayer in enumerate(decoder.part.layer):
        if sublayer.reads_memory:
            before = 1 + (decoder.part.sublayers_per_layer * (index - 1) + place) * b**2
            factors = factors * before / (before + b**2)
    return sp.Product(factors, (index, 1, decoder.depth))


def run_through(decoder: Half, layers: int, weight: Any, normalised: bool) -> Any:
    """The square of a unit change of the memory at the decoder's output, sublayer by sublayer."""
    size, moved = sp.S.One, sp.S.Zero
    for sublayer in decoder.part.layer * layers:
        # a branch of the stream itself carries its change in the stream's own proportion
        moved += weight**2 * (1 if sublayer.reads_memory else moved / size)
        size += weight**2
        if normalised:
            size, moved = sp.S.One, moved / size
    return moved / size


def _points(decoder: Half) -> list[dict[Any, Any]]:
    """Rational values of α, β, v and w, from a strong branch to a weak one."""
    names = decoder.symbols
    return [
        dict(zip(names, map(sp.Rational, values), strict=True))
        for values in (
            ("7/3", "4/5", "5/2", "3/2"), ("5/4", "1/3", "2/5", "3/4"), ("9", "1/7", "1/3", "2/7"),
        )
    ]  # fmt: skip


def _b(decoder: Half, at: dict[Any, Any]) -> Any:
    weight = decoder.weight(decoder.symbol("v") * decoder.symbol("w"))
    return sp.sympify(weight).xreplace(at)


def _run_through(decoder: Half, normalised: bool) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        for at in _points(decoder):
            for layers in (1, 2, 3):
                value = step.rhs.xreplace({**at, decoder.depth: sp.Integer(layers)}).doit()
                if value != run_through(decoder, layers, _b(decoder, at), normalised):
                    return False
        return bool(step.lhs == mean_square**2)

    return holds


def _bounded(decoder: Half, normalised: bool) -> Callable[[Step], bool]:
    tiny = sp.Rational(1, 10**12)

    def holds(step: Step) -> bool:
        for at in _points(decoder):
            weak = {**at, decoder.symbol("v"): tiny, decoder.symbol("alpha"): 1 / tiny}
            for layers in (1, 2, 3, 7):
                depth = {decoder.depth: sp.Integer(layers)}
                run = run_through(decoder, layers, _b(decoder, at), normalised)
                if step.rhs.xreplace({**at, **depth}) ** 2 < run:
                    return False
                run = run_through(decoder, layers, _b(decoder, weak), normalised)
                ratio = step.rhs.xreplace({**weak, **depth}) ** 2 / run
                # pre-LN's weight has no α: its smallness is v's alone
                if not 0 <= ratio - 1 < layers**2 * 100 * tiny:
                    return False
        return bool(step.lhs == mean_square and step.rhs.is_positive)

    return holds


def _summed(decoder: Half) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        for at in _points(decoder):
            for layers in (1, 2, 3):
                reached = sp.S.Zero
                for sublayer in decoder.part.layer * layers:
                    if sublayer.reads_memory:
                        reached += _b(decoder, at)
                if step.rhs.xreplace({**at, decoder.depth: sp.Integer(layers)}) != reached:
                    return False
        return bool(step.lhs == aligned)

    return holds


# ---- both parts ----------------------------------------------------------------------------


def _bound(encoder: Half, decoder: Half) -> Step:
    b = decoder.weight(decoder.symbol("v") * decoder.symbol("w"))
    sums = {
        half: sp.Sum(half.coefficient * CHANGES[half.part.name](index), (index, 1, half.sublayers))
        for half in (encoder, decoder)
    }
    return Step(
        name="two-part-bound",
        section=SECTION,
        lhs=norm_df_d,
        rhs=decoder.crossings * b * sums[encoder] + sums[decoder],
        relation=Relation.AT_MOST,
        because=(
            "the decoder's recursion: every sublayer adds its own term, every cross-attention b "
            "times the change of the memory, which is the encoder's telescoping sum"
        ),
        source=SOURCE,
        uses=("telescoping", "amplification-aligned", "cross-parameter-bound"),
        assumptions=("linear-step",),
        establishes=(norm_df_d,),
        checks=(Check("both parts run sublayer by sublayer", _run(encoder, decoder)),),
    )


def _run(encoder: Half, decoder: Half) -> Callable[[Step], bool]:
    """The bound's recursion through explicit stacks, at different depths of the two."""

    def holds(step: Step) -> bool:
        generator = random.Random(step.name)
        for depths in ((1, 2), (3, 1)):
            at: dict[Any, Any] = {}
            sizes: dict[Any, Any] = {}
            reached: dict[str, Any] = {}
            for half, layers in zip((encoder, decoder), depths, strict=True):
                # Pythagorean v and w: √(v² + w²) is rational
                values = map(sp.Rational, ("7/3", "1/2", "3/5", "4/5"))
                at.update(zip(half.symbols, values, strict=True))
                at[half.depth] = sp.Integer(layers)
                moved = sp.S.Zero
                for place, sublayer in enumerate(half.part.layer * layers, 1):
                    size = sp.Rational(generator.randint(1, 9), 4)
                    sizes[CHANGES[half.part.name](sp.Integer(place))] = size
                    moved += half.coefficient.xreplace(at) * size
                    if sublayer.reads_memory:
                        moved += _b(decoder, at) * reached["encoder"]
                reached[half.part.name] = moved
            written = step.rhs.xreplace(at).doit().xreplace(sizes)
            if not vanishes(written - reached["decoder"]):
                return False
        return bool(step.lhs == norm_df_d)

    return holds


# ---- the increments ------------------------------------------------------------------------


def _increments(selection: Selection, encoder: Half, decoder: Half) -> tuple[Step, ...]:
    """The decoder's share, the encoder's at its own output, and the encoder's at the stack's."""
    b, number = decoder.weight(decoder.symbol("beta") ** 2), decoder.crossings
    forward, backward, why, uses = {
        "published": (
            number * b, sp.S.One,
            "A = K·b once, for the way forward, as published: the gradient at the memory is "
            "taken to be of order one",
            ("amplification-aligned",),
        ),
        "worst-case": (
            number * b, number * b,
            "A = K·b forward once and p times backward, all cross-attentions aligned",
            ("amplification-aligned", "cross-gradient-response"),
        ),
        "independent": (
            sp.sqrt(number) * b, sp.sqrt(number) * b,
            "A = √K·b forward once and p times backward, as fresh weights make it",
            ("amplification-independent", "cross-gradient-response"),
        ),
    }[selection.amplification]  # fmt: skip
    passage = Passage(
        forward,
        backward,
        f"; at the stack's output, {why}",
        ("two-part-bound", *uses),
        (
            Check(
                "added up cross-attention by cross-attention",
                _amplified(selection, encoder, decoder),
            ),
        ),
    )
    own = Passage(because="; at the encoder's own output, before the decoder")
    return (
        increment_step(
            selection, f"{INCREMENT}-decoder", decoder.knobs, Passage(uses=("two-part-bound",))
        ),
        increment_step(selection, f"{INCREMENT}-encoder-own", encoder.knobs, own),
        increment_step(selection, f"{INCREMENT}-encoder", encoder.knobs, passage),
    )


def _amplified(selection: Selection, encoder: Half, decoder: Half) -> Callable[[Step], bool]:
    found, form = degrees(selection.the_optimizer), selection.amplification

    def holds(step: Step) -> bool:
        knobs = (*encoder.knobs, *decoder.knobs, eta)
        values = map(sp.Rational, ("7/3", "2/5", "9/4", "3/7", "1/2"))
        at = dict(zip(knobs, values, strict=True))
        residual, gain = (at[knob] for knob in encoder.knobs)
        kappa = sp.sympify(encoder.law.response).xreplace({P: gain**2, alpha: residual})
        response = sp.sqrt(2) * gain * kappa
        weight = sp.sympify(decoder.weight(decoder.symbol("beta") ** 2)).xreplace(at)
        for layers in (1, 2, 3):
            passed = [weight for s in decoder.part.layer * layers if s.reads_memory]
            total = sum(passed)
            if form == "independent":
                total = sp.sqrt(sum(one**2 for one in passed))
            back = 1 if form == "published" else total
            update = at[eta] * (back * response) ** found.p * (sp.sqrt(2) * gain) ** found.q
            value = step.rhs.xreplace({**at, decoder.depth: sp.Integer(layers)})
            if abs(sp.N(value - total * response * update, 40)) > sp.Float("1e-30"):
                return False
        return True

    return holds
