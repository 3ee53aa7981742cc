r"""The lemma route: DeepNet's, as the layer cake completes it.

A sublayer is first a scalar: a branch of gains v, w beside an identity path of weight α,

.. math:: f = \frac{\alpha + \xi P}{\sqrt{\alpha^2 + P^2}}\,x, \qquad P = v w,\ \xi = \pm1, \qquad
          J = \frac{1 + \xi r}{\sqrt{1 + r^2}}, \quad \mathbb E J^2 = 1 .

With ξ = 1 this is the paper's sublayer, with a random sign the layer cake's. In mean square, which
is what independent directions of a wide layer show, nothing decays and nothing grows. So

.. math:: \|\Delta F\| \le \sum_{i=1}^S \Bigl(\prod_{l=i+1}^S J_l\Bigr) D_i\,\|\Delta\theta_i\|,

exact to first order in Δθ (triangle inequality), has every J = 1 in its published form. With pre-LN
the stream is not normalised: it grows, and what a change grows by is what the stream grows by.

With :math:`D = \sqrt{\sum_j (P/\beta_j)^2}\,R` the response of the output to the branch's
parameters, :math:`\|g\| \le \|\partial L/\partial F\|\,D` and a step along the gradient of size
:math:`\|\Delta\theta\| = \eta\,\|g\|^p\,\|\theta\|^q`, one sublayer adds

.. math:: D\,\|\Delta\theta\| = \eta\,\|\partial L/\partial F\|^p\,D^{1+p}\,\|\theta\|^q, \qquad
          \|\theta\| = \sqrt{\textstyle\sum_j \beta_j^2} .

Other placements are the probe route's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import sympy as sp

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Sublayer, letters
from deepnet_theory.proof.algebra import (
    S,
    alpha,
    beta,
    eta,
    gains,
    i,
    l,
    norm_of,
    output_change,
    r,
    vanishes,
)
from deepnet_theory.proof.degrees import homogeneity_step
from deepnet_theory.proof.placement import P, branch_weight, gains_product
from deepnet_theory.proof.rule import Route
from deepnet_theory.proof.step import (
    DERIVATIVE,
    SAMPLED,
    SQUARES_AT_MOST,
    TRIANGLE,
    Point,
    Section,
    Step,
    defines,
    equal_at_sizes,
    reached,
    written_at,
)
from deepnet_theory.sizes.update import Update
from deepnet_theory.sizes.update import law as degrees

SIGNED_SOURCE = "layer cake, §4.3, the random variable I"
SCALAR = Section("Scalar sublayer", "DeepNet, arXiv 2203.00555, §4.1; layer cake, §4.2")
JACOBIANS = Section("Products of Jacobians")
TELESCOPING = Section(
    "Telescoping bound", "DeepNet, arXiv 2203.00555, Theorem 4.2; layer cake, §4.2"
)
PLACEMENT = Section("Placement")
SECTION = Section("Update substituted", "layer cake, §4.3")
OURS = "derived here"
# where the branch weighs little against the path, and leading orders hold
FAR, SMALL = reached(alpha, sp.Integer(10) ** 20), reached(r, sp.Integer(10) ** -20)

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
loss_gradient = norm_of("dL_dF")  # ‖∂L/∂F‖, at the output


# ---- the scalar sublayer ----


def sublayer(path: sp.Expr, weight: sp.Expr, sign: sp.Expr = sp.S.One) -> sp.Expr:
    """f = (α + ξP) x/√(α² + P²), of a path of weight α."""
    return (path + sign * weight) * x / sp.sqrt(path**2 + weight**2)


def mean_over_signs(expression: sp.Expr) -> sp.Expr:
    """The mean over ξ = ±1."""
    return (expression.xreplace({xi: sp.S.One}) + expression.xreplace({xi: -sp.S.One})) / 2


def scalar_steps(weight: sp.Expr) -> Iterator[Step]:
    """The normaliser of the random sign, the branch's weight, one Jacobian, and their product."""
    signed = sublayer(alpha, weight, xi)

    def divided() -> sp.Expr:
        """The two terms of the sublayer's numerator."""
        numerator = sp.expand(sp.numer(sublayer(alpha, weight)))
        path = numerator.coeff(alpha, 1) * alpha
        return (numerator - path) / path

    yield SCALAR.equal(
        "variance-with-random-sign",
        mean_over_signs((alpha + xi * weight) ** 2), alpha**2 + weight**2,
        "a branch G of two scaled matrices of gains v and w, with either sign: var(αx + G) = "
        "α²·var x + var G exactly",
        source=SIGNED_SOURCE, assumptions=("independent-signs",),
    )  # fmt: skip
    yield SCALAR.equal(
        "scalar-sublayer",
        (alpha * x + weight * x) / sp.sqrt(alpha**2 * x**2 + weight**2 * x**2) * x,
        sublayer(alpha, weight), "αx + G over its standard deviation, at the scale of x",
        uses=("variance-with-random-sign",),
    )  # fmt: skip
    yield SCALAR.equal(
        "branch-weight", r, weight / alpha, "the branch against the identity path",
        uses=("scalar-sublayer",),
        checks=(defines("the two terms of the sublayer's numerator, divided", divided),),
    )  # fmt: skip
    yield SCALAR.equal(
        "derivative-x-signed", sp.Derivative(signed, x), sp.factor(sp.diff(signed, x)),
        "differentiated in x and factored; ξ = ±1 is the branch's sign", source=SIGNED_SOURCE,
        uses=("scalar-sublayer",), checks=(DERIVATIVE,),
    )  # fmt: skip
    # α = 1: the Jacobian knows the branch weight alone
    positive, negative = (sp.diff(sublayer(sp.S.One, r, sp.Integer(n)), x) for n in (1, -1))
    products = sp.binomial(Q, j) / 2**Q * (positive**j * negative ** (Q - j)) ** 2
    yield JACOBIANS.equal(
        "jacobian-mean-square", sp.Sum(products, (j, 0, Q)), sp.Integer(1),
        "E J² = ((1 + r)² + (1 − r)²)/(2(1 + r²)) = 1. Over all patterns of Q signs, j of them "
        "positive, nothing decays or grows in mean square, at any depth and branch weight",
        uses=("derivative-x-signed", "branch-weight"),
        assumptions=("independent-signs",), checks=(equal_at_sizes(Q),),
    )  # fmt: skip


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
        "the change after sublayer l, to first order: its Jacobian J_l times the change X_l of its "
        "input, plus its response D_l times T_l = ‖Δθ_l‖; then the triangle inequality",
        assumptions=("linear-step",),
        checks=(TRIANGLE,),
    )  # fmt: skip
    yield TELESCOPING.at_most(
        "telescoping", X(S + 1), telescoped(J(l)),
        "the same for all S sublayers, from X(1) = 0 at the input to X(S + 1) at the output",
        uses=("one-sublayer",), assumptions=("linear-step",),
        checks=(written_at("the recursion unrolled at S = 1 … 4", unrolled),),
    )  # fmt: skip
    if normalised:
        yield TELESCOPING.equal(
            "telescoping-unit-jacobians",
            telescoped(sp.Integer(1)), sp.Sum(D(i) * T(i), (i, 1, S)),
            "in mean square over independent signs every product of Jacobians is exactly 1: "
            "the published form; a typical path has it up to a constant where S·r² is bounded",
            uses=("telescoping", "jacobian-mean-square"),
            assumptions=("independent-signs", "near-identity"), checks=(equal_at_sizes(S),),
        )  # fmt: skip


# ---- how a sublayer's output responds to its branch ----


def path_of(placement: Placement, update: Update) -> sp.Expr:
    """The weight of the path beside the branch: α in post-LN, 1 in pre-LN.

    Raises :class:`Refusal` for a placement or an update that the route lacks.
    """
    path = alpha if placement.normalises_sum else sp.S.One
    of_pre_ln = placement.final_norm and placement.norms == {"input"}
    covered = placement.normalises_sum or of_pre_ln
    if not (covered and vanishes(branch_weight(placement) - P / path)) or update.p < 0:
        what = "an update that falls with its gradient" if update.p < 0 else placement.equation
        raise Refusal(
            "the lemma route covers norm(alpha*x + branch(x)) and x + branch(norm(x)) under an "
            f"update that grows with its gradient, and not {what}; use the method probe"
        )
    return path


def branch_response(placement: Placement) -> Step:
    """The response to a branch on a sum that is normalised."""
    return PLACEMENT.at_most(
        "branch-response", 1 / sp.sqrt(alpha**2 + P**2), 1 / alpha,
        "P is the product of the branch's gains; a small change of the branch, transverse to path "
        "and branch, is divided by the standard deviation of their sum, at least the path's",
        source=placement.source or OURS, uses=("variance-with-random-sign", "branch-weight"),
        checks=(SQUARES_AT_MOST, FAR),
    )  # fmt: skip


def stream_steps(placement: Placement) -> Iterator[Step]:
    """A stream that is not normalised: its size, and what its growth leaves of a change."""

    def stretched() -> Iterator[Point]:
        """What is left of a product that telescopes: the size at i, whatever S is."""
        for size, start in product((1, 2, 3, 4), repeat=2):
            if start <= size:
                yield {S: size, i: start}, 1 / (1 + start * r**2)

    source, grown = placement.source or OURS, 1 + S * r**2
    before, after = (grown.subs(S, number) for number in (l - 1, l))
    left = 1 / grown.subs(S, i)
    yield PLACEMENT.equal(
        "stream-growth", mean_over_signs((s + xi * P) ** 2), s**2 + P**2,
        f"mean square of the stream after {placement.equation}, the branch's sign random",
        source=source, assumptions=("independent-signs",),
    )  # fmt: skip
    yield PLACEMENT.equal(
        "branch-weight-of-placement", r, P,
        "the branch of gains with the product P against the path, at stream size 1",
        source=source, uses=("stream-growth",),
        checks=(defines("the matrix law of the placement",
                        lambda: branch_weight(placement)),),
    )  # fmt: skip
    yield PLACEMENT.equal(
        "stream-size", 1 + sp.Sum(r**2, (l, 1, S)), grown,
        "mean square of the stream after S sublayers: each adds r² to the input's 1",
        source="Pre/Post norm note, §1; derived here",
        uses=("stream-growth", "branch-weight-of-placement"), checks=(equal_at_sizes(S),),
    )  # fmt: skip
    yield PLACEMENT.equal(
        "stream-jacobians", sp.Product(after / before, (l, i + 1, S)) / grown, left,
        "mean square of all later Jacobians and the final norm: what a change grows by "
        "is what the stream grows by, so the product telescopes",
        uses=("stream-size",), assumptions=("independent-signs",),
        checks=(written_at("written out for every i ≤ S ≤ 4", stretched),),
    )  # fmt: skip
    yield PLACEMENT.at_most(
        "telescoping-through-the-stream", D(i) * T(i) * sp.sqrt(left), D(i) * T(i),
        "each term of the published form is a bound at every r, tight where S·r² is small",
        uses=("telescoping", "stream-jacobians"), checks=(SQUARES_AT_MOST,),
    )  # fmt: skip


# ---- the update substituted ----


def update_steps(
    path: sp.Expr, update: Update, gains: Gains, later: Step, uses: str, suffix: str
) -> Iterator[Step]:
    """Gradient, update and increment of one sublayer, and the sum over S equal ones.

    ``later`` says the mean square of all later Jacobians. ``uses``: the step that adds the
    sublayers' changes up.
    """
    p, q, weight = update.p, update.q, sp.Mul(*gains)
    response = sp.sqrt(sp.Add(*((weight / gain) ** 2 for gain in gains)))
    exact = response / (path if path == 1 else sp.sqrt(path**2 + weight**2))
    response, size = response / path, sp.sqrt(sp.Add(*(gain**2 for gain in gains)))
    length = loss_gradient * response
    stepped = eta * length**p * size**q
    responding = [weight / gain / path for gain in gains]
    moves = [stepped * (loss_gradient * one / length) for one in responding]
    moved = eta * loss_gradient**p * response ** (1 + p) * size**q
    yield SECTION.at_most(
        f"gradient-size{suffix}", loss_gradient * exact * sp.sqrt(later.rhs), length,
        "‖∂L/∂θ_i‖ ≤ ‖∂L/∂F‖ ‖∂F/∂θ_i‖, and ‖∂F/∂θ_i‖ is at most the last sublayer's: in "
        "mean square the Jacobians in between are at most 1",
        uses=(later.name, "branch-response" if path == alpha else later.name),
        assumptions=("independent-signs", "unit-activations", "small-branch-weight"),
        checks=(SQUARES_AT_MOST, FAR if path == alpha else SMALL),
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
        sp.Add(*(one * move for one, move in zip(responding, moves, strict=True))), moved,
        "the output changes by ⟨∂F/∂θ, Δθ⟩, which along the gradient is D‖Δθ‖", source=OURS,
        uses=(f"update-size{suffix}",), assumptions=("linear-step",), checks=(SAMPLED,),
    )  # fmt: skip
    yield SECTION.equal(
        f"sum-over-sublayers{suffix}", sp.Sum(moved, (i, 1, S)), S * moved,
        "S equal terms, added by the triangle inequality: updates that change the output in one "
        "direction reach it; in independent directions the sum is √S terms", source=OURS,
        uses=(uses, f"sublayer-increment{suffix}"), assumptions=("aligned-updates",),
        checks=(equal_at_sizes(S),),
    )  # fmt: skip


def of_sublayer(member: Sublayer, path: sp.Expr, moved: Step) -> tuple[Step, Step]:
    """r of a sublayer and what one step makes it add, all its gains β.

    ``moved`` says its increment at any gains.
    """
    count = len(member.scaled)
    increment = moved.rhs.xreplace(dict.fromkeys(gains(count), beta))
    # what makes a branch its gains' product times a map of order one
    needs = {"softmax": "attention-keeps-magnitude", "phi": "homogeneous-activation"}
    premises = tuple(premise for name, premise in needs.items() if name in member.branch)
    weight = SECTION.equal(
        f"branch-weight-{member.name}", r, beta**count / path,
        f"the {count} scaled matrices of {member.name}, all gains β", source=OURS,
        uses=("branch-weight" if path == alpha else "branch-weight-of-placement",),
        assumptions=("equal-gains", *premises),
        checks=(
            defines("the gains multiplied along the branch's own formula",
                    lambda: gains_product(member) / path)
        ,),
    )  # fmt: skip
    dropped = increment.xreplace({loss_gradient: sp.S.One})
    return weight, SECTION.bound(
        f"increment-{member.name}", increment, sp.powdenest(sp.powsimp(dropped), force=True),
        f"all gains of {member.name} are β, and the loss's gradient at the output is of order one",
        uses=(moved.name,), assumptions=("equal-gains", "bounded-loss-gradient", *premises),
        bounded=(loss_gradient,), left=output_change(letters(member.name)),
    )  # fmt: skip


# ---- all sections in order ----


def route(selection: Selection) -> Route:
    """DeepNet's route as the layer cake completes it.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where a law is missing.
    """
    placement, update = selection.the_placement, degrees(selection.the_optimizer)
    members = {s.name: s for part in selection.the_stack.parts for s in part.layer}
    counts = sorted({len(s.scaled) for s in members.values()}, key=lambda n: (n != 2, n))
    path = path_of(placement, update)
    if path == alpha:
        weight = sp.Mul(*gains(counts[0]))
        scalar, telescoping = [*scalar_steps(weight)], [*telescoping_steps(normalised=True)]
        steps = [*scalar, *telescoping, branch_response(placement)]
        later, added = scalar[-1], telescoping[-1]
    else:
        steps = [*telescoping_steps(normalised=False), *stream_steps(placement)]
        *_, later, added = steps
    steps.append(homogeneity_step(selection.the_optimizer, update))
    moved, sums = {}, []
    for count in counts:
        suffix = "" if count == counts[0] else f"-{count}"
        block = [*update_steps(path, update, gains(count), later, added.name, suffix)]
        *_, moved[count], total = block
        steps += block
        sums.append(total.name)
    ends = {n: of_sublayer(one, path, moved[len(one.scaled)]) for n, one in members.items()}
    weights, increments = ({name: pair[which] for name, pair in ends.items()} for which in (0, 1))
    steps += [*weights.values(), *increments.values()]
    return Route(tuple(steps), increments, weights, tuple(sums))
