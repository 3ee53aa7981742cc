r"""Encoder and decoder: what the decoder's cross-attentions make of the encoder's change.

K cross-attentions of weight b make at most K·b of a change of the memory; in mean square

.. math:: A^2 = 1 - \prod_j \frac{T_j}{T_j + b^2} \le K b^2 ,

T_j the stream's square before the j-th of them, 1 throughout where every sum is normalised: A
stays below 1 whatever the depth, where the triangle inequality's K·b may grow.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, part_symbol, vanishes
from deepnet_theory.symbolic.expectation.model import NamedQuantity, norm_of
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.routes.moments.recursion import change, index
from deepnet_theory.symbolic.routes.route import added_up, crossings, sublayers

SOURCE = "DeepNet, arXiv 2203.00555, §4.2"
SECTION = Section("Encoder and decoder", SOURCE)

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


OWN = ("alpha", "beta", "v", "w")  # the symbols of one sublayer that each part has for itself


@dataclass(frozen=True)
class Half:
    """Encoder or decoder in its own symbols: α_e, α_d and so on."""

    part: Part

    @property
    def depth(self) -> sp.Symbol:
        """N or M."""
        return DEPTHS[self.part.depth]

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """α, β, v and w of the part."""
        return tuple(part_symbol(name, self.part.name, 2) for name in OWN)

    def own(self, expression: sp.Expr) -> sp.Expr:
        """An expression of one sublayer in the part's symbols."""
        own = dict(zip(OWN, self.symbols, strict=True))
        return expression.xreplace(
            {s: own[s.name] for s in expression.free_symbols if s.name in own}
        )


@dataclass(frozen=True)
class Parts:
    """Both parts, with what one sublayer of them was found to do."""

    encoder: Half
    decoder: Half
    weight: sp.Expr  # b of a cross-attention
    normalised: bool  # whether every sum is normalised, so that the stream keeps its size
    coefficients: Mapping[str, Step]  # of ‖Δθ‖, by the sublayer's name

    def steps(self) -> tuple[Step, ...]:
        """A by three ways, and the bound of both parts."""
        return (*self._amplification(), self._bound())

    @property
    def passed(self) -> sp.Expr:
        """b in the decoder's symbols."""
        return self.decoder.own(self.weight)

    def _coefficient(self, half: Half, sublayer: Sublayer) -> sp.Expr:
        return half.own(self.coefficients[sublayer.name].rhs)

    # ---- the amplification -----------------------------------------------------------------

    def _amplification(self) -> tuple[Step, Step, Step]:
        b, number = self.passed, crossings(self.decoder.part)
        return (
            SECTION.equal(
                "amplification-mean-square",
                mean_square**2,
                1 - self._kept(),
                (
                    "cross-growth run through the decoder from Δs = 0 with one Δa of unit size at "
                    "every cross-attention; the sublayers in between carry change and stream "
                    "alike. A stays below 1 at any depth"
                ),
                uses=("cross-growth", "telescoping"),
                assumptions=("fresh-weights", "independent-update", "linear-step"),
                establishes=(mean_square,),
                checks=(Check("the mean squares run at 1, 2, 3 layers", self._is_run),),
                source="derived here",
            ),
            SECTION.at_most(
                "amplification-independent",
                mean_square,
                sp.sqrt(number) * b,
                (
                    f"every one of the {number} cross-attentions adds at most b² to the square: "
                    "what fresh weights make, in independent directions"
                ),
                uses=("amplification-mean-square",),
                checks=(Check("the mean squares run, reached as b -> 0", self._is_bound),),
                source="derived here",
            ),
            SECTION.equal(
                "amplification-aligned",
                aligned,
                number * b,
                (
                    f"the triangle inequality instead, cross-response {number} times: what "
                    "cross-attentions make that push one way, forward and, transposed, backward"
                ),
                uses=("cross-response", "memory-average"),
                assumptions=("aligned-updates",),
                establishes=(aligned,),
                checks=(Check("the bound's recursion run at 1, 2, 3 layers", self._is_sum),),
            ),
        )

    def _kept(self) -> sp.Expr:
        """Π_j T_j/(T_j + b²), T_j = 1 + b²·(sublayers before the j-th) where the stream grows."""
        b, decoder = self.passed, self.decoder
        if self.normalised:
            return (1 + b**2) ** (-crossings(decoder.part))
        factors = sp.S.One
        for place, sublayer in enumerate(decoder.part.layer):
            if sublayer.reads_memory:
                before = 1 + (decoder.part.sublayers_per_layer * (index - 1) + place) * b**2
                factors = factors * before / (before + b**2)
        return sp.Product(factors, (index, 1, decoder.depth))

    def run_through(self, layers: int, weight: sp.Expr) -> sp.Expr:
        """A², the square of a unit change of the memory at the decoder's output."""
        size, moved = sp.S.One, sp.S.Zero
        for sublayer in self.decoder.part.layer * layers:
            # a branch of the stream itself carries its change in the stream's own proportion
            moved += weight**2 * (1 if sublayer.reads_memory else moved / size)
            size += weight**2
            if self.normalised:
                size, moved = sp.S.One, moved / size
        return moved / size

    def _points(self) -> Iterator[dict[sp.Symbol, sp.Rational]]:
        """Rational values of α, β, v and w, from a strong branch to a weak one."""
        for values in (
            ("7/3", "4/5", "5/2", "3/2"), ("5/4", "1/3", "2/5", "3/4"), ("9", "1/7", "1/3", "2/7"),
        ):  # fmt: skip
            yield dict(zip(self.decoder.symbols, map(sp.Rational, values), strict=True))

    def _is_run(self, step: Step) -> bool:
        return step.lhs == mean_square**2 and all(
            step.rhs.xreplace({**at, self.decoder.depth: sp.Integer(layers)}).doit()
            == self.run_through(layers, self.passed.xreplace(at))
            for at in self._points()
            for layers in (1, 2, 3)
        )

    def _is_bound(self, step: Step) -> bool:
        tiny = sp.Rational(1, 10**12)
        alpha_d, _, v_d, _ = self.decoder.symbols
        for at in self._points():
            weak = {**at, v_d: tiny, alpha_d: 1 / tiny}
            for layers in (1, 2, 3, 7):
                depth = {self.decoder.depth: sp.Integer(layers)}
                run = self.run_through(layers, self.passed.xreplace(at))
                if step.rhs.xreplace({**at, **depth}) ** 2 < run:
                    return False
                run = self.run_through(layers, self.passed.xreplace(weak))
                ratio = step.rhs.xreplace({**weak, **depth}) ** 2 / run
                # pre-LN's weight has no α: its smallness is v's alone
                if not 0 <= ratio - 1 < layers**2 * 100 * tiny:
                    return False
        return bool(step.lhs == mean_square and step.rhs.is_positive)

    def _is_sum(self, step: Step) -> bool:
        for at in self._points():
            for layers in (1, 2, 3):
                b = self.passed.xreplace(at)
                reached = added_up(self.decoder.part, layers, lambda _: sp.S.Zero, b)
                if step.rhs.xreplace({**at, self.decoder.depth: sp.Integer(layers)}) != reached:
                    return False
        return bool(step.lhs == aligned)

    # ---- both parts ------------------------------------------------------------------------

    def _bound(self) -> Step:
        sums = {half.part.name: self._sum(half) for half in (self.encoder, self.decoder)}
        return SECTION.at_most(
            "two-part-bound",
            norm_df_d,
            crossings(self.decoder.part) * self.passed * sums["encoder"] + sums["decoder"],
            (
                "the decoder's recursion: every sublayer adds its own term, every cross-attention "
                "b times the change of the memory, which is the encoder's telescoping sum"
            ),
            uses=("telescoping", "amplification-aligned", "cross-coefficient"),
            assumptions=("linear-step",),
            establishes=(norm_df_d,),
            checks=(Check("both parts run sublayer by sublayer", self._is_run_of_both),),
        )

    def _sum(self, half: Half) -> sp.Expr:
        """Σ over the part's sublayers, whose kinds have one coefficient."""
        coefficient = self._coefficient(half, half.part.layer[0])
        each = coefficient * CHANGES[half.part.name](index)
        return sp.Sum(each, (index, 1, sublayers(half.part)))

    def _is_run_of_both(self, step: Step) -> bool:
        """The bound's recursion through explicit stacks, at different depths of the two."""
        generator = random.Random(step.name)
        for depths in ((1, 2), (3, 1)):
            at: dict[sp.Symbol, sp.Expr] = {}
            sizes: dict[sp.Expr, sp.Expr] = {}
            reached: dict[str, sp.Expr] = {}
            for half, layers in zip((self.encoder, self.decoder), depths, strict=True):
                # Pythagorean v and w: √(v² + w²) is rational
                values = map(sp.Rational, ("7/3", "1/2", "3/5", "4/5"))
                at.update(zip(half.symbols, values, strict=True))
                at[half.depth] = sp.Integer(layers)
                moved = sp.S.Zero
                for place, sublayer in enumerate(half.part.layer * layers, 1):
                    size = sp.Rational(generator.randint(1, 9), 4)
                    sizes[CHANGES[half.part.name](sp.Integer(place))] = size
                    moved += self._coefficient(half, sublayer).xreplace(at) * size
                    if sublayer.reads_memory:
                        moved += self.passed.xreplace(at) * reached["encoder"]
                reached[half.part.name] = moved
            written = step.rhs.xreplace(at).doit().xreplace(sizes)
            if not vanishes(written - reached["decoder"]):
                return False
        return bool(step.lhs == norm_df_d)
