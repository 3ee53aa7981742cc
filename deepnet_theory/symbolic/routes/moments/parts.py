r"""Encoder and decoder: what the decoder's cross-attentions make of the encoder's change.

K cross-attentions of weight b make at most K·b of a change of the memory, where they push one way.
In mean square, the stream's own change shrinking as the stream grows,

.. math:: A^2 = 1 - \prod_j \frac{T_j}{T_j + b^2} \le K b^2 ,

T_j the stream's square before the j-th of them, 1 throughout where every sum is normalised.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import sympy as sp

from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    alpha,
    beta,
    part_symbol,
    v,
    vanishes,
    w,
)
from deepnet_theory.symbolic.expectation import (
    Law,
    Matrix,
    Model,
    NamedQuantity,
    Product,
    Rows,
    in_models,
    moment,
    norm_of,
)
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.routes.moments.recursion import (
    AT_MOST,
    REACHED,
    Moments,
    index,
    relative,
)
from deepnet_theory.symbolic.routes.moments.sublayer import d, m, norm_da, norm_dx
from deepnet_theory.symbolic.routes.route import added_up, crossings, sublayers

SECTION = Section("Encoder and decoder", "DeepNet, arXiv 2203.00555, §4.2")

K = sp.Symbol("K", positive=True)  # cross-attentions
norm_g, norm_df_d = norm_of("g"), norm_of("dF_d", r"\Delta F_d")
norm_dm = NamedQuantity("norm_dm", r"\max_p\|\Delta m_p\|")
mean_square = NamedQuantity("A_rms", r"A_{\mathrm{rms}}")

# the steps of A that each way of counting it rests on
AMPLIFICATION = {
    "published": ("two-part-bound",),
    "worst-case": ("two-part-bound", "cross-gradient"),
    "independent": ("two-part-bound", "amplification-independent", "cross-gradient"),
}


def own_symbols(part: Part) -> dict[sp.Symbol, sp.Symbol]:
    """The part's symbols for those of one sublayer: α_e, α_d and so on."""
    return {s: part_symbol(s.name, part.name, 2) for s in (alpha, beta, v, w)}


def change_of(part: Part) -> sp.Function:
    """‖Δθ_i‖ of the part's sublayer i."""
    return sp.Function(f"T_{part.name[0]}", positive=True)


@dataclass(frozen=True)
class Parts:
    """Both parts, with what one sublayer of them was found to do."""

    encoder: Part
    decoder: Part
    crossing: Moments
    coefficient: Step  # of ‖Δθ‖

    @property
    def passed(self) -> sp.Expr:
        """b, the weight of a cross-attention, in the decoder's symbols."""
        return sp.sqrt(self.crossing.weight).xreplace(own_symbols(self.decoder))

    def steps(self) -> Iterator[Step]:
        """One cross-attention, A in every way of counting it, and the bound of both parts."""
        cross, b = self.crossing, sp.sqrt(self.crossing.weight)
        yield SECTION.at_most(
            "cross-response",
            sp.sqrt(sp.cancel(d * cross.moved / cross.size)),
            relative(cross.sublayer) * norm_dx + b * norm_da,
            "W and V are centred, so the two changes add as squares, and the root of their sum is "
            f"at most the sum: relative to the stream, factors 1 and b = {b}",
            uses=("cross-norm", "cross-input-term", "norm-jacobian"),
            assumptions=("unit-activations", "linear-step", "norm-concentrates"),
            checks=(
                AT_MOST,
                Check("b is the factor of the memory as b -> 0", _reached_by_memory),
            ),
        )
        yield SECTION.at_most(
            "memory-average",
            norm_da,
            norm_dm,
            "Δa is the average of the memory's changes with the attention weights, which are "
            "positive and add up to 1; equal where all tokens change alike",
            source="DeepNet, arXiv 2203.00555, Lemma 4.1",
            establishes=(norm_dm,),
            checks=(in_models("explicit weights, once with equality", _averages),),
        )
        number = crossings(self.decoder)
        # the K cross-attentions side by side are one of the inner width K·m
        outer = Matrix("V^T", d, K * m, cross.sublayer.V.size, Law.CENTRED)
        inner = Matrix("W^T", K * m, d, cross.sublayer.W.size, Law.CENTRED)
        signal = Matrix("g", sp.S.One, d, norm_g)
        yield moment(
            SECTION,
            "cross-gradient",
            Rows((Product(cross.sublayer.scale, (signal, outer, inner)),)),
            ("sum_a dL/da", r"\sum_{a\le K}\partial L/\partial a"),
            "K cross-attentions, transposed, with their own W and V and one g: a gradient passes "
            "one of them by the factor that a change of the memory passes by",
            uses=("cross-change",),
            assumptions=("fresh-weights",),
            establishes=(K, norm_g),
        )

        yield SECTION.at_most(
            "amplification-independent",
            mean_square,
            sp.sqrt(number) * self.passed,
            f"mean squares instead: every one of the {number} cross-attentions adds at most "
            "b² to the square, in independent directions; A stays below 1",
            uses=("cross-input-term", "cross-norm", "memory-average"),
            assumptions=("fresh-weights", "independent-update", "linear-step"),
            establishes=(mean_square,),
            checks=(Check("the mean squares run, reached as b -> 0", self._is_bound),),
        )
        ours, theirs = (
            sp.Sum(self._own(part) * change_of(part)(index), (index, 1, sublayers(part)))
            for part in (self.decoder, self.encoder)
        )
        yield SECTION.at_most(
            "two-part-bound",
            norm_df_d,
            number * self.passed * theirs + ours,
            "the decoder's recursion: every sublayer adds its own term, every cross-attention b "
            "times the change of the memory, which is the encoder's telescoping sum: K·b of it, "
            "where they push one way",
            uses=("telescoping", "cross-response", "memory-average"),
            assumptions=("linear-step",),
            establishes=(norm_df_d,),
            checks=(Check("both parts run sublayer by sublayer", self._is_run),),
        )

    def run_through(self, layers: int, weight: sp.Expr) -> sp.Expr:
        """A², the square of a unit change of the memory at the decoder's output."""
        size, moved = sp.S.One, sp.S.Zero
        for sublayer in self.decoder.layer * layers:
            # a branch of the stream itself carries its change in the stream's own proportion
            moved += weight**2 * (1 if sublayer.reads_memory else moved / size)
            size += weight**2
            if self.crossing.sublayer.reading.normed_sum:
                size, moved = sp.S.One, moved / size
        return moved / size

    def _is_bound(self, step: Step) -> bool:
        """At rational α, β, v and w, from a strong branch to a weak one, which reaches it."""
        symbols, depth = own_symbols(self.decoder).values(), DEPTHS[self.decoder.depth]
        for values in (("7/3", 1, "5/2", "3/2"), ("9", 1, "1/3", "2/7"), (1e12, 1, 1e-12, 2)):
            at = dict(zip(symbols, map(sp.Rational, values), strict=True))
            for layers in (1, 2, 3, 7):
                run = self.run_through(layers, self.passed.xreplace(at))
                over = step.rhs.xreplace({**at, depth: layers}) ** 2 / run - 1
                if over < 0 or (values[0] == 1e12 and over > 1e-8):
                    return False
        return bool(step.lhs == mean_square and step.rhs.is_positive)

    def _own(self, part: Part) -> sp.Expr:
        return self.coefficient.rhs.xreplace(own_symbols(part))

    def _is_run(self, step: Step) -> bool:
        """The bound's recursion through explicit stacks, at different depths of the two."""
        generator = random.Random(step.name)
        values = [sp.Rational(n) for n in ("7/3", "1/2", "3/5", "4/5")]  # √(v² + w²) is rational
        for depths in ((1, 2), (3, 1)):
            at: dict[sp.Expr, sp.Expr] = {}
            sizes: dict[sp.Expr, sp.Expr] = {}
            moved = sp.S.Zero
            for part, layers in zip((self.encoder, self.decoder), depths, strict=True):
                at |= dict(zip(own_symbols(part).values(), values, strict=True))
                at[DEPTHS[part.depth]] = sp.Integer(layers)
                drawn = [sp.Rational(generator.randint(1, 9), 4) for _ in part.layer * layers]
                sizes |= {change_of(part)(place): size for place, size in enumerate(drawn, 1)}
                terms = [sp.S.Zero, *(self._own(part).xreplace(at) * size for size in drawn)]
                memory = self.passed.xreplace(at) * moved
                moved = added_up(part, layers, terms.__getitem__, memory)
            if not vanishes(step.rhs.xreplace(at).doit().xreplace(sizes) - moved):
                return False
        return bool(step.lhs == norm_df_d)


def _reached_by_memory(step: Step) -> bool:
    left, right = (side.xreplace({norm_dx: sp.S.Zero}) for side in (step.lhs, step.rhs))
    return REACHED.holds(replace(step, lhs=left, rhs=right))


def _averages() -> Iterator[Model]:
    generator = random.Random(50)
    for tokens, alike in ((1, False), (3, False), (4, True)):
        weights = [generator.randint(1, 9) for _ in range(tokens)]
        rows = [sp.Matrix([[generator.randint(-9, 9) for _ in range(3)]]) for _ in range(tokens)]
        changes = rows[:1] * tokens if alike else rows
        total = sum(
            (n * change for n, change in zip(weights, changes, strict=True)), sp.zeros(1, 3)
        )
        largest = sp.Max(*(change.norm() for change in changes))
        yield {norm_da: total.norm() / sum(weights), norm_dm: largest}
