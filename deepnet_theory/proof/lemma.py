r"""The lemma route: DeepNet's, as the layer cake completes it.

A sublayer is first a scalar: a branch of gains v, w beside an identity path of weight α,

.. math:: f = \frac{\alpha + \xi P}{\sqrt{\alpha^2 + P^2}}\,x, \qquad P = v w,\ \xi = \pm1, \qquad
          J = \frac{1 + \xi r}{\sqrt{1 + r^2}}, \quad \mathbb E J^2 = 1 .

With ξ = 1 this is the paper's sublayer, with a random sign the layer cake's. In mean square, which
is what independent directions of a wide layer show, nothing decays and nothing grows. So

.. math:: \|\Delta F\| \le \sum_{i=1}^S \Bigl(\prod_{l=i+1}^S J_l\Bigr) D_i\,\|\Delta\theta_i\|,

exact to first order in Δθ (triangle inequality), has every J = 1 in its published form.

With pre-LN the stream is not normalised: it grows, and what a change grows by is what the stream
grows by. Other placements are the probe route's.

With :math:`D = \sqrt{\sum_j (P/\beta_j)^2}\,R` the response of the output to the branch's
parameters, :math:`\|g\| \le \|\partial L/\partial F\|\,D` and a step along the gradient of size
:math:`\|\Delta\theta\| = \eta\,\|g\|^p\,\|\theta\|^q`, one sublayer adds

.. math:: D\,\|\Delta\theta\| = \eta\,\|\partial L/\partial F\|^p\,D^{1+p}\,\|\theta\|^q, \qquad
          \|\theta\| = \sqrt{\textstyle\sum_j \beta_j^2} .

Of two parts the route says what the decoder's cross-attentions make of the encoder's change,

.. math:: \|\Delta F\| \le \Bigl(\sum_{j \le M} c\Bigr)
          \sum_{i \le 2N} D_e \|\Delta\theta_{e,i}\| + \sum_{j \le 3M} D_d \|\Delta\theta_{d,j}\|,
          \qquad c = v_d w_d/\alpha_d .

The sum A = M c over the cross-attentions is the balance's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import sympy as sp

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import Sublayer, letters
from deepnet_theory.proof.algebra import (
    DEPTHS,
    S,
    alpha,
    beta,
    eta,
    gains,
    i,
    l,
    output_change,
    r,
    vanishes,
)
from deepnet_theory.proof.explicit import homogeneity_step
from deepnet_theory.proof.placement import P, gains_product, placement_law
from deepnet_theory.proof.rule import Route, crossings, sublayers
from deepnet_theory.proof.step import (
    DERIVATIVE,
    SAMPLED,
    SQUARES_AT_MOST,
    Check,
    Point,
    Section,
    Step,
    defines,
    equal_at_sizes,
    ratio_in_branch_weight,
    written_at,
    written_out,
)
from deepnet_theory.sizes.update import Update
from deepnet_theory.sizes.update import law as degrees

SIGNED_SOURCE = "layer cake, §4.3, the random variable I"
SOURCE = "layer cake, §4.3"
SCALAR = Section("Scalar sublayer", "DeepNet, arXiv 2203.00555, §4.1; layer cake, §4.2")
JACOBIANS = Section("Products of Jacobians")
TELESCOPING = Section(
    "Telescoping bound", "DeepNet, arXiv 2203.00555, Theorem 4.2; layer cake, §4.2"
)
PLACEMENT = Section("Placement")
SECTION = Section("Update substituted", SOURCE)
TWO_PARTS = Section("Encoder and decoder", "DeepNet, arXiv 2203.00555, §4.2")
OURS = "derived here"

Gains = tuple[sp.Symbol, ...]

x = sp.Symbol("x", positive=True)
xi = sp.Symbol("xi", real=True)  # the source's random sign I = ±1
Q = sp.Symbol("Q", positive=True)  # number of Jacobians in a product
j = sp.Symbol("j", integer=True, nonnegative=True)  # how many of their signs are positive
X = sp.Function("X", nonnegative=True)  # ‖Δx_l‖
J = sp.Function("J", positive=True)  # ‖∂f_l/∂x_l‖
D = sp.Function("D", positive=True)  # ‖∂f_l/∂θ_l‖
T = sp.Function("T", positive=True)  # ‖Δθ_l‖
s = sp.Symbol("x_rms", positive=True)  # standard deviation of the residual stream
loss_gradient = sp.Symbol("L_F", positive=True)  # ‖∂L/∂F‖, at the output
_stream, _memory = sp.symbols("x y", positive=True)
_X = sp.Symbol("X_e", positive=True)  # ‖Δ of the encoder's output‖
_F = sp.Function("X_d", nonnegative=True)  # ‖Δ of the decoder's stream‖
_D = sp.Function("D_d", positive=True)
_T = sp.Function("T_d", positive=True)
_c = sp.Symbol("q_d", positive=True)  # ‖∂/∂memory‖ of one cross-attention


# ---- the scalar sublayer ----


def sublayer(gains: Gains, sign: sp.Expr = sp.S.One) -> sp.Expr:
    """f = (α + ξP) x/√(α² + P²) with P the product of the gains."""
    weight = sp.Mul(*gains)
    return (alpha + sign * weight) * x / sp.sqrt(alpha**2 + weight**2)


def scalar_steps(gains: Gains) -> Iterator[Step]:
    """The normaliser of the random sign, the branch's weight, one Jacobian, and their product."""
    weight, signed = sp.Mul(*gains), sublayer(gains, xi)

    def divided() -> sp.Expr:
        """The two terms of the sublayer's numerator."""
        numerator = sp.expand(sp.numer(sublayer(gains)))
        path = numerator.coeff(alpha, 1) * alpha
        return (numerator - path) / path

    yield SCALAR.equal(
        "variance-with-random-sign",
        mean_over_signs((alpha + xi * weight) ** 2), alpha**2 + weight**2,
        "over both signs of the branch var(αx + G) is α²·var x + var G exactly",
        source=SIGNED_SOURCE, assumptions=("independent-signs",),
    )  # fmt: skip
    yield SCALAR.equal(
        "scalar-sublayer",
        (alpha * x + weight * x) / sp.sqrt(alpha**2 * x**2 + weight**2 * x**2) * x, sublayer(gains),
        "αx + G over its deviation, at the scale of x",
        uses=("variance-with-random-sign",),
    )  # fmt: skip
    yield SCALAR.equal(
        "branch-weight", r, weight / alpha, "the branch against the identity path",
        uses=("scalar-sublayer",),
        checks=(defines("the two terms of the sublayer's numerator, divided", divided),),
    )  # fmt: skip
    yield SCALAR.equal(
        "derivative-x-signed", sp.Derivative(signed, x), sp.factor(sp.diff(signed, x)),
        "differentiated in x and factored", source=SIGNED_SOURCE,
        uses=("scalar-sublayer",), checks=(DERIVATIVE,),
    )  # fmt: skip
    positive, negative = ((1 + sign * r) / sp.sqrt(1 + r**2) for sign in (1, -1))
    products = sp.binomial(Q, j) / 2**Q * (positive**j * negative ** (Q - j)) ** 2
    yield JACOBIANS.equal(
        "jacobian-root-mean-square", sp.sqrt(sp.Sum(products, (j, 0, Q))), sp.Integer(1),
        "E J² = ((1 + r)² + (1 − r)²)/(2(1 + r²)) = 1: in mean square nothing decays "
        "and nothing grows, at any depth and branch weight",
        uses=("derivative-x-signed", "branch-weight"),
        assumptions=("independent-signs",),
        checks=(Check("every sign pattern listed, Q = 1, 2, 3", _by_patterns),),
    )  # fmt: skip


def mean_over_signs(expression: sp.Expr) -> sp.Expr:
    """The mean over ξ = ±1."""
    return (expression.xreplace({xi: sp.S.One}) + expression.xreplace({xi: -sp.S.One})) / 2


def _by_patterns(step: Step) -> bool:
    """Both sides squared against the mean over every pattern of signs, listed one by one."""
    # gains of product r and α = 1: the Jacobian knows the branch weight alone
    one = {n: sp.diff(sublayer((r,), sp.Integer(n)), x).xreplace({alpha: 1}) for n in (1, -1)}
    for count in (1, 2, 3):  # at 1 and 2 alone 2^Q is 2Q
        patterns = product((1, -1), repeat=count)
        truth = sp.Add(*(sp.Mul(*(one[n] for n in signs)) ** 2 for signs in patterns)) / 2**count
        for side in (step.lhs, step.rhs):
            written = written_out(side.xreplace({Q: sp.Integer(count)}))
            # squares lose the sign, which is looked at by itself
            if not (vanishes(written**2 - truth) and written.xreplace({r: sp.Rational(1, 3)}) > 0):
                return False
    return True


# ---- telescoping: the change of the output as a sum over the sublayers ----


def telescoped(factor: sp.Expr) -> sp.Expr:
    """Σ_i (Π_{l>i} factor) D_i T_i for a Jacobian ``factor`` in l."""
    return sp.Sum(sp.Product(factor, (l, i + 1, S)) * D(i) * T(i), (i, 1, S))


def telescoping_steps(*, normalised: bool) -> Iterator[Step]:
    """One sublayer, all of them, and all of them without the Jacobians in between.

    The last where every sublayer normalises the stream, as the published form has it.
    """
    jacobian_, change, gradient, update = sp.symbols("J_l X_l D_l T_l", real=True)

    def unrolled() -> Iterator[Point]:
        moved: sp.Expr = sp.S.Zero
        for layer in (1, 2, 3, 4):
            moved = J(layer) * moved + D(layer) * T(layer)
            yield {S: layer}, (X(layer + 1), moved)

    yield TELESCOPING.at_most(
        "one-sublayer",
        sp.Abs(jacobian_ * change + gradient * update),
        sp.Abs(jacobian_) * sp.Abs(change) + sp.Abs(gradient) * sp.Abs(update),
        "first order in the changes of input and parameters, and the triangle inequality",
        assumptions=("linear-step",),
        checks=(Check("squares compared for every choice of signs", _triangle),),
    )  # fmt: skip
    yield TELESCOPING.at_most(
        "telescoping", X(S + 1), telescoped(J(l)),
        "the recursion of one sublayer, unrolled from Δx = 0 at the input",
        uses=("one-sublayer",), assumptions=("linear-step",),
        checks=(written_at("the recursion unrolled at S = 1 … 4", unrolled),),
    )  # fmt: skip
    if normalised:
        terms = ({S: 3}, sp.Add(*(D(n) * T(n) for n in (1, 2, 3))))
        yield TELESCOPING.equal(
            "telescoping-unit-jacobians",
            telescoped(sp.Integer(1)), sp.Sum(D(i) * T(i), (i, 1, S)),
            "in mean square over independent signs every product of Jacobians is exactly 1: "
            "the published form; a typical path has it up to a constant where S·r² is bounded",
            uses=("telescoping", "jacobian-root-mean-square"),
            assumptions=("independent-signs", "near-identity"),
            checks=(
                equal_at_sizes(S), written_at("the sublayers' own terms, listed", lambda: [terms]),
            ),
        )  # fmt: skip


def _triangle(step: Step) -> bool:
    """rhs² − lhs² ≥ 0 with each symbol made positive or negative."""
    symbols = sorted(step.free_symbols, key=str)
    sizes = sp.symbols(f"p_:{len(symbols)}", positive=True)
    for signs in product((1, -1), repeat=len(symbols)):
        point = {s: sign * p for s, sign, p in zip(symbols, signs, sizes, strict=True)}
        difference = sp.expand((step.rhs**2 - step.lhs**2).xreplace(point))
        if not difference.is_nonnegative or not step.rhs.xreplace(point).is_nonnegative:
            return False
    return True


# ---- how a sublayer's output responds to its branch ----


@dataclass(frozen=True)
class Law:
    """What the route takes of a placement, post-LN or pre-LN, and of an optimizer.

    ``weight`` is r and ``leading`` the output's response to the branch, of small weight, in P and
    α; ``exact`` is the response at any weight.
    """

    placement: Placement
    degrees: Update

    @property
    def weight(self) -> sp.Expr:
        return placement_law(self.placement).weight

    @property
    def leading(self) -> sp.Expr:
        return placement_law(self.placement).response

    @property
    def exact(self) -> sp.Expr:
        return 1 / sp.sqrt(alpha**2 + P**2) if self.placement.normalises_sum else sp.S.One

    def response(self, gains: Gains) -> sp.Expr:
        """D to leading order: the response times √Σ(P/β_j)²."""
        return sp.sqrt(responses(gains)) * self.leading.xreplace({P: sp.Mul(*gains)})

    def share(self, gains: Gains) -> sp.Expr:
        """D^{1+p} ‖θ‖^q: one sublayer's increment per η, the loss's gradient dropped."""
        return self.response(gains) ** (1 + self.degrees.p) * _size(gains) ** self.degrees.q


def law_of(selection: Selection) -> Law:
    """The law of a selection; raises :class:`Refusal` for a placement that the route lacks."""
    placement, counted = selection.the_placement, degrees(selection.the_optimizer)
    if placement.normalises_sum:
        lacking = not vanishes(placement_law(placement).weight - P / alpha)
    else:
        plain = placement.final_norm and placement.norms == {"input"} and not placement.learnt
        lacking = not (plain and placement_law(placement).weight == P)
    if lacking or counted.p < 0:
        what = "an update that falls with its gradient" if counted.p < 0 else placement.equation
        raise Refusal(
            "the lemma route covers norm(alpha*x + branch(x)) and x + branch(norm(x)) under an "
            f"update that grows with its gradient, and not {what}; use the method probe"
        )
    return Law(placement, counted)


def placement_steps(law: Law) -> Iterator[Step]:
    """The output's response to the branch; of a stream that is not normalised also its size."""
    source = law.placement.source or OURS
    if law.placement.normalises_sum:
        yield PLACEMENT.at_most(
            "branch-response", law.exact, law.leading,
            "a small change of the branch, transverse to path and branch, is divided by the "
            "deviation of their sum, which is at least the path's",
            source=source, uses=("variance-with-random-sign", "branch-weight"),
            checks=(SQUARES_AT_MOST, ratio_in_branch_weight(P, law.weight)),
        )  # fmt: skip
        return
    yield PLACEMENT.equal(
        "stream-growth", mean_over_signs((s + xi * P) ** 2), s**2 + P**2,
        f"mean square of the stream after {law.placement.equation}, the branch's sign random",
        source=source, assumptions=("independent-signs",),
    )  # fmt: skip
    yield PLACEMENT.equal(
        "branch-weight-of-placement", r, law.weight,
        "the branch of gains with the product P against the path, at stream size 1",
        source=source, uses=("stream-growth",),
        checks=(defines("the matrix law of the placement", lambda: placement_law(
            law.placement).weight),),
    )  # fmt: skip
    yield from _stream_steps(law)


def _stream_steps(law: Law) -> Iterator[Step]:
    """A stream that is not normalised: its size, and what its growth leaves of a change."""

    def iterated() -> Iterator[Point]:
        square: sp.Expr = sp.S.One
        for count in (1, 2, 3):
            square = sp.expand((s**2 + P**2).subs(s, sp.sqrt(square)))
            yield {S: count, r: law.weight}, square

    def stretched() -> Iterator[Point]:
        """What is left of a product that telescopes: the size at i, whatever S is."""
        for size, start in product((1, 2, 3, 4), repeat=2):
            if start <= size:
                yield {S: size, i: start}, 1 / (1 + start * r**2)

    grown = 1 + S * r**2
    before, after = (grown.subs(S, number) for number in (l - 1, l))
    left = 1 / grown.subs(S, i)
    yield PLACEMENT.equal(
        "stream-size", 1 + sp.Sum(r**2, (l, 1, S)), grown,
        "mean square of the stream after S sublayers: each adds r² to the input's 1",
        source="Pre/Post norm note, §1; derived here",
        uses=("stream-growth", "branch-weight-of-placement"),
        checks=(written_at("the sublayer's growth iterated", iterated), equal_at_sizes(S)),
    )  # fmt: skip
    yield PLACEMENT.equal(
        "stream-jacobians", sp.Product(after / before, (l, i + 1, S)) / grown, left,
        "mean square of all later Jacobians and the final norm: what a change grows by "
        "is what the stream grows by, so the product telescopes",
        uses=("stream-size",), assumptions=("independent-signs",),
        checks=(written_at("written out for every i ≤ S ≤ 4", stretched),),
    )  # fmt: skip
    yield PLACEMENT.at_most(
        "telescoping-through-the-stream",
        sp.Sum(D(i) * T(i) * sp.sqrt(left), (i, 1, S)), sp.Sum(D(i) * T(i), (i, 1, S)),
        "the published form is a bound at every r, tight where S·r² is small",
        uses=("telescoping", "stream-jacobians"),
        checks=(Check("term by term at S = 1, 2", _shrunk),),
    )  # fmt: skip


def _shrunk(step: Step) -> bool:
    """Each term on the left is that on the right times a root of at most 1, which tends to 1."""
    for size in (1, 2):
        left, right = (
            written_out(side.xreplace({S: sp.Integer(size)})) for side in (step.lhs, step.rhs)
        )
        for number in range(1, size + 1):
            term = D(number) * T(number)
            share = sp.expand(left).coeff(term) / sp.expand(right).coeff(term)
            shares = [share.subs(r, sp.Rational(1, n)) for n in (1, 3, 10**9)]
            if not all(0 < one <= 1 for one in shares) or shares[-1] < sp.Rational(9, 10):
                return False
    return True


# ---- the update substituted ----


def responses(gains: Gains) -> sp.Expr:
    """Σ (P/β_j)², the squared norm of the branch's derivatives in its gains."""
    weight = sp.Mul(*gains)
    return sp.Add(*((weight / gain) ** 2 for gain in gains))


def _size(gains: Gains) -> sp.Expr:
    return sp.sqrt(sp.Add(*(gain**2 for gain in gains)))


def update_steps(
    law: Law, gains: Gains, later: sp.Expr, uses: tuple[str, str], suffix: str
) -> Iterator[Step]:
    """Gradient, update and increment of one sublayer, and the sum over S equal ones.

    ``later``: all later Jacobians in root mean square. ``uses``: the step that proves it, and the
    one that adds the sublayers' changes up.
    """
    p, q, gained = law.degrees.p, law.degrees.q, {P: sp.Mul(*gains)}
    jacobians, telescoping = uses
    exact = sp.sqrt(responses(gains)) * law.exact.xreplace(gained)
    length = loss_gradient * law.response(gains)
    stepped = eta * length**p * _size(gains) ** q
    responding = [(law.leading * P / gain).xreplace(gained) for gain in gains]
    moves = [stepped * (loss_gradient * response / length) for response in responding]
    moved = eta * loss_gradient**p * law.share(gains)
    approached = ratio_in_branch_weight(gains[0], law.weight.xreplace(gained))
    yield SECTION.at_most(
        f"gradient-size{suffix}", loss_gradient * exact * later, length,
        "‖∂L/∂θ_i‖ ≤ ‖∂L/∂F‖ ‖∂F/∂θ_i‖, and ‖∂F/∂θ_i‖ is at most the last sublayer's: in "
        "mean square the Jacobians in between are at most 1",
        source=SOURCE,
        uses=(jacobians, "branch-response" if law.placement.normalises_sum else jacobians),
        assumptions=("independent-signs", "unit-activations", "small-branch-weight"),
        checks=(SQUARES_AT_MOST, approached),
    )  # fmt: skip
    yield SECTION.equal(
        f"update-size{suffix}", sp.sqrt(sp.Add(*(move**2 for move in moves))), stepped,
        f"a step along the gradient, of the optimizer's degrees p = {p}, q = {q}: "
        "‖Δθ‖ = η‖g‖^p‖θ‖^q. At equal gains the entries of g are equal, so that an update "
        "entry by entry runs along it as well",
        source="layer cake, §4.3, last supplement", uses=(f"gradient-size{suffix}", "degrees"),
        assumptions=("equal-gains",), checks=(SAMPLED,),
    )  # fmt: skip
    yield SECTION.equal(
        f"sublayer-increment{suffix}",
        sp.Add(*(response * move for response, move in zip(responding, moves, strict=True))), moved,
        "the output moves by ⟨∂F/∂θ, Δθ⟩, which along the gradient is D‖Δθ‖",
        uses=(f"update-size{suffix}",), assumptions=("linear-step",), checks=(SAMPLED,),
    )  # fmt: skip
    yield SECTION.equal(
        f"sum-over-sublayers{suffix}", sp.Sum(moved, (i, 1, S)), S * moved,
        "S equal terms added by the triangle inequality: what updates that push the output "
        "one way make; independent directions would make √S of it",
        uses=(telescoping, f"sublayer-increment{suffix}"), assumptions=("aligned-updates",),
        checks=(equal_at_sizes(S),),
    )  # fmt: skip


def _of_sublayer(member: Sublayer, law: Law, moved: sp.Expr, uses: str) -> tuple[Step, Step]:
    """r of a sublayer and what one step makes it add, all its gains β.

    ``moved`` is its increment at any gains, ``uses`` the step that proves it.
    """
    count = len(member.scaled)
    equal = dict.fromkeys(gains(count), beta)
    # what makes a branch its gains' product times a map of order one
    needs = {"softmax": "attention-keeps-magnitude", "phi": "homogeneous-activation"}
    premises = tuple(premise for name, premise in needs.items() if name in member.branch)
    normalised = law.placement.normalises_sum
    weight = SECTION.equal(
        f"branch-weight-{member.name}", r, law.weight.xreplace({P: beta**count}),
        f"the {count} scaled matrices of {member.name}, all gains β",
        source=OURS, uses=("branch-weight" if normalised else "branch-weight-of-placement",),
        assumptions=("equal-gains", *premises),
        checks=(
            defines("the gains multiplied along the branch's own formula",
                    lambda: law.weight.xreplace({P: gains_product(member)})),
        ),
    )  # fmt: skip
    share = sp.powsimp(law.share(gains(count)).xreplace(equal))
    increment = SECTION.bound(
        f"increment-{member.name}", moved.xreplace(equal), eta * sp.powdenest(share, force=True),
        f"all gains of {member.name} are β, and the loss's gradient at the output is of order one",
        uses=(uses,), assumptions=("equal-gains", "bounded-loss-gradient", *premises),
        bounded=(loss_gradient,), left=output_change(letters(member.name)),
    )  # fmt: skip
    return weight, increment


# ---- encoder and decoder ----


def added_up(part: Part, layers: int, term: Callable[[int], sp.Expr], crossing: sp.Expr) -> sp.Expr:
    """Every sublayer's own term, and every cross-attention's, one by one, layer after layer."""
    return sp.Add(*(
        term(number) + (crossing if sublayer.reads_memory else 0)
        for number, sublayer in enumerate(part.layer * layers, start=1)
    ))  # fmt: skip


def cross_steps(law: Law, decoder: Part, telescoping: str) -> Iterator[Step]:
    """The cross-attention's response to the encoder, and the bound of both parts."""
    name = "cross-attention-response"

    def unrolled() -> Iterator[Point]:
        for layers in (1, 2, 3):
            change = added_up(decoder, layers, lambda place: _D(place) * _T(place), _c * _X)
            yield {DEPTHS[decoder.depth]: layers}, (_F(len(decoder.layer) * layers + 1), change)

    if law.placement.normalises_sum:
        output = (alpha * _stream + P * _memory) * law.exact
        exact = TWO_PARTS.equal(
            "cross-attention-derivative",
            sp.Derivative(output, _memory), sp.diff(output, _memory),
            "the decoder's stream y and the memory m are independent and of variance 1, as "
            "the path and the branch of a sublayer are",
            uses=("branch-response",), assumptions=("attention-keeps-magnitude",
                                                    "unit-activations"),
            checks=(DERIVATIVE,),
        )  # fmt: skip
        yield exact
        yield TWO_PARTS.at_most(
            name, exact.rhs, law.weight, "at most its leading order, the branch weight",
            uses=(exact.name, "branch-weight"),
            checks=(SQUARES_AT_MOST, ratio_in_branch_weight(P, law.weight)),
        )  # fmt: skip
    else:
        yield TWO_PARTS.equal(
            name, _c, law.weight,
            "the memory is normalised, so the branch carries its change at its weight",
            source=OURS, uses=("branch-weight-of-placement",),
            assumptions=("attention-keeps-magnitude",),
            checks=(defines("the matrix law of the placement", lambda: law.weight),),
        )  # fmt: skip
    yield TWO_PARTS.at_most(
        "two-part-bound", _F(sublayers(decoder) + 1),
        crossings(decoder) * _c * _X + sp.Sum(_D(l) * _T(l), (l, 1, sublayers(decoder))),
        "the decoder's recursion with unit Jacobians: every sublayer adds its own update, "
        "every cross-attention c times the change of the encoder's output",
        uses=(telescoping, name), assumptions=("linear-step", "independent-signs"),
        checks=(written_at("the layer's sublayers unrolled at 1, 2, 3 layers", unrolled),),
    )  # fmt: skip


# ---- all sections in order ----


def gain_counts(selection: Selection) -> list[int]:
    """The numbers of scaled matrices that a branch of the stack has, two of them first."""
    counts = {len(s.scaled) for part in selection.the_stack.parts for s in part.layer}
    return sorted(counts, key=lambda count: (count != 2, count))


def lemma_route(selection: Selection) -> Route:
    """DeepNet's route as the layer cake completes it.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where a law is missing.
    """
    stack, counts, law = selection.the_stack, gain_counts(selection), law_of(selection)
    normalised = law.placement.normalises_sum
    telescoping = [*telescoping_steps(normalised=normalised)]
    of_placement = [*placement_steps(law)]
    if normalised:
        scalar = [*scalar_steps(gains(counts[0]))]
        steps, later = [*scalar, *telescoping, *of_placement], scalar[-1].rhs
        uses = (scalar[-1].name, telescoping[-1].name)
    else:
        steps, later = [*telescoping, *of_placement], sp.sqrt(of_placement[-2].rhs)
        uses = (of_placement[-2].name, of_placement[-1].name)
    steps.append(homogeneity_step(selection.the_optimizer, law.degrees))
    moved, sums = {}, []
    for count in counts:
        suffix = "" if count == counts[0] else f"-{count}"
        block = [*update_steps(law, gains(count), later, uses, suffix)]
        moved[count] = block[-2]
        steps += block
        sums.append(block[-1].name)
    if len(stack.parts) == 2:
        decoder = stack.parts[-1]
        steps += cross_steps(law, decoder, uses[-1])
        sums.append(steps[-1].name)
    distinct = {s.name: s for part in stack.parts for s in part.layer}
    ends = {}
    for name, member in distinct.items():
        one = moved[len(member.scaled)]
        ends[name] = _of_sublayer(member, law, one.rhs, one.name)
    weights, increments = ({name: pair[which] for name, pair in ends.items()} for which in (0, 1))
    steps += [*weights.values(), *increments.values()]
    return Route(tuple(steps), increments, weights, tuple(sums))
