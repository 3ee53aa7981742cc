r"""The moment route from a selection to the increment and the weight of its sublayers.

With :math:`D = \sqrt2\,\beta R` the coefficient of ‖Δθ‖ at v = w = β,

.. math:: D\,\eta\,(\|\partial L/\partial F\| D)^p\,(\sqrt2\,\beta)^q .

D is taken from the step that ends the recursion, p and q from the step that counts the degrees.
K cross-attentions of weight b make at most K·b of a change of the memory, where they push one way.
In mean square, the stream's own change shrinking as the stream grows,

.. math:: A^2 = 1 - \prod_j \frac{T_j}{T_j + b^2} \le K b^2 ,

T_j the stream's square before the j-th of them, 1 throughout where every sum is normalised.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import mpmath
import sympy as sp
from sympy.core.function import AppliedUndef

from deepnet_theory.sizes.rule import MOMENTS_OF, require_moments
from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    S,
    alpha,
    beta,
    eta,
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
from deepnet_theory.symbolic.laws.explicit import homogeneity_step, step_length
from deepnet_theory.symbolic.laws.placement import P, PlacementLaw, placement_law
from deepnet_theory.symbolic.proof.step import (
    BOUNDED,
    IDENTITY,
    Check,
    Point,
    Section,
    Step,
    at_points,
    number,
)
from deepnet_theory.symbolic.routes.moments.recursion import (
    AT_MOST,
    COEFFICIENT,
    REACHED,
    Moments,
    index,
    norm_steps,
    recursion_steps,
    relative,
)
from deepnet_theory.symbolic.routes.moments.sublayer import (
    Reading,
    Sublayer,
    d,
    m,
    norm_da,
    norm_dx,
    norm_x,
)
from deepnet_theory.symbolic.routes.route import (
    Route,
    added_up,
    crossings,
    encoder_and_decoder,
    sublayers,
    supporting,
)

# ---- encoder and decoder: what the cross-attentions make of a change ----


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


# ---- the route ----


UPDATE = Section("Update substituted", "layer cake, §5.3 and §4.3")
WEIGHT = Section("Weight of a branch", "layer cake, §5.1")

loss_gradient = norm_of("dL_dF", r"\partial L/\partial F")
EQUAL_GAINS = {v: beta, w: beta}
parameter_size = sp.sqrt(v**2 + w**2)  # ‖θ‖, each matrix against its width


def kinds_of(selection: Selection) -> tuple[Sublayer, ...]:
    """The kinds of sublayers of the selection that the route has a law for.

    Raises :class:`Refusal` for every other placement or sublayer, naming the missing law.
    """
    reading, parts = Reading.of(selection.the_placement), selection.the_stack.parts
    names = dict.fromkeys(sublayer.name for part in parts for sublayer in part.layer)
    for part in parts:
        for sublayer in part.layer:
            require_moments(sublayer)
    # the feed-forward sublayer first, as in the source
    return tuple(Sublayer(name, reading) for name in MOMENTS_OF if name in names)


def moment_route(selection: Selection) -> Route:
    """The steps that the increment and the weight of the selection's sublayers rest on.

    Raises :class:`Refusal` where a law is missing.
    """
    kinds, law = kinds_of(selection), placement_law(selection.the_placement)
    optimizer = selection.the_optimizer
    steps: list[Step] = []
    every: list[Moments] = []
    for sublayer in kinds:
        own = tuple(sublayer.steps())
        steps += own
        every.append(Moments.of(sublayer, own))
    steps += norm_steps(selection.the_norm.centred)
    steps += recursion_steps(tuple(every))
    degree = homogeneity_step(optimizer, degrees(optimizer))
    coefficient = next(step for step in steps if step.name == COEFFICIENT)
    ends = (weight(tuple(every), law), increment(coefficient, degree, optimizer, law))
    sums: tuple[str, ...] = ("telescoping",)
    symbols = (*DEPTHS.values(), S, alpha, beta, eta, v, w, d, m, norm_x, norm_dx)
    if len(selection.the_stack.parts) == 2:
        halves = encoder_and_decoder(selection.the_stack)
        crossing = next(one for one in every if one.sublayer.crosses)
        steps += Parts(*halves, crossing, coefficient).steps()
        sums = ("telescoping", *AMPLIFICATION[selection.amplification])
        symbols += tuple(symbol for half in halves for symbol in own_symbols(half).values())
    steps += [degree, *ends]
    return Route(
        steps=supporting(steps, (*sums, *(end.name for end in ends))),
        given=symbols,
        increments={kind.name: ends[1] for kind in kinds},
        weights={kind.name: ends[0] for kind in kinds},
        sums=sums,
    )


def update_size(degree: Step, gradient: sp.Expr, size: sp.Expr) -> sp.Expr:
    """‖Δθ‖ of an update u with u(η, t·g, s·θ) = t^p s^q u(η, g, θ), u of unit arguments being η."""
    (unscaled,) = degree.rhs.atoms(AppliedUndef)
    _, gradient_factor, size_factor = (
        scaled / plain for scaled, plain in zip(degree.lhs.args, unscaled.args, strict=True)
    )
    factor = degree.rhs / unscaled
    return eta * factor.xreplace({gradient_factor: gradient, size_factor: size})


def increment(coefficient: Step, degree: Step, optimizer: Optimizer, law: PlacementLaw) -> Step:
    """What a sublayer adds, from the steps that give D and the degrees."""
    response = coefficient.rhs.xreplace(EQUAL_GAINS)
    size = parameter_size.xreplace(EQUAL_GAINS)
    moved = response * update_size(degree, loss_gradient * response, size)

    def is_run(_: Step) -> Iterator[Point]:
        """Explicit gradients and parameters of the sizes in question, stepped by the expression."""
        for residual, gain in ((sp.Rational(7, 3), sp.Rational(2, 5)), (sp.Integer(9), sp.S.Half)):
            at = {alpha: residual, beta: gain, loss_gradient: 1, eta: 1}
            joined = mpmath.sqrt(2) * number(gain)  # of two matrices with one gain
            through = joined * number(law.response, {alpha: residual, P: number(gain) ** 2})
            yield at, through * number(step_length(optimizer, through, joined))

    return UPDATE.bound(
        "moment-increment",
        moved,
        moved.xreplace({loss_gradient: sp.S.One}),
        f"the coefficient {response} of ‖Δθ‖ times ‖Δθ‖ = "
        f"{update_size(degree, sp.Symbol('|g|'), sp.Symbol('|θ|'))} at v = w = β, ‖g‖ at "
        "most ‖∂L/∂F‖ times the same coefficient, ‖∂L/∂F‖ of order one; the update moves "
        "the output by |g||Δθ|, as aligned updates do",
        uses=(coefficient.name, degree.name),
        assumptions=(
            "bounded-loss-gradient",
            "independent-signs",
            "equal-gains",
            "aligned-updates",
        ),
        establishes=(loss_gradient,),
        bounded=(loss_gradient,),
        checks=(BOUNDED, at_points("the optimizer run behind the placement's own law", is_run)),
    )


def weight(every: tuple[Moments, ...], law: PlacementLaw) -> Step:
    """r at v = w = β, from the mean squares of branch over path, one for each kind."""

    def is_of_every_kind(step: Step) -> bool:
        squares = (one.weight.xreplace(EQUAL_GAINS) for one in every)
        return step.rhs.is_positive and all(vanishes(step.rhs**2 - square) for square in squares)

    def is_as_the_equation_reads(step: Step) -> bool:
        return bool(sp.powsimp(step.rhs / law.weight.xreplace({P: beta**2})) == 1)

    square = every[0].weight.xreplace(EQUAL_GAINS)
    return WEIGHT.equal(
        "moment-weight",
        sp.sqrt(square),
        sp.sqrt(sp.factor(square)),
        "the root mean square of the branch against that of the identity path",
        uses=tuple(one.names[0] for one in every),
        assumptions=("equal-gains", "unit-activations"),
        checks=(
            IDENTITY,
            Check("of every kind of sublayer", is_of_every_kind),
            Check("as the placement's equation reads", is_as_the_equation_reads),
        ),
    )
