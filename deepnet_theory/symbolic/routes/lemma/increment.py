r"""The update substituted: what one optimizer step adds to the output, per unit of η.

With :math:`D = \sqrt{\sum_j (P/\beta_j)^2}\,\kappa` the response of the output to the branch's
parameters, :math:`\|g\| \le \|\partial L/\partial F\|\,D` and
:math:`\|\Delta\theta\| = \eta\,\|g\|^p\,\|\theta\|^q`, one sublayer adds

.. math:: D\,\|\Delta\theta\| = \eta\,\delta^p\,D^{1+p}\,\|\theta\|^q, \qquad
          \|\theta\| = \sqrt{\textstyle\sum_j \beta_j^2} .
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.laws.optimizer import Degrees
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Regime, Step
from deepnet_theory.symbolic.routes.lemma.checks import (
    EXACT,
    SQUARES_AT_MOST,
    equal_at_sizes,
    ratio_in_branch_weight,
    written_out,
)
from deepnet_theory.symbolic.routes.lemma.placement import Directions, P
from deepnet_theory.symbolic.routes.lemma.scalar import Gains, responses
from deepnet_theory.symbolic.routes.lemma.symbols import (
    DEPTHS,
    S,
    alpha,
    beta,
    delta,
    eta,
    gains,
    i,
    part_symbol,
    r,
)

SECTION = "Update substituted"
SOURCE = "layer cake, §4.3"


@dataclass(frozen=True)
class Kind:
    """A kind of sublayer of a part: its number in a layer, its gains, and its own α and β.

    ``name`` is ``"*"`` where all sublayers of the part have the same number of gains.
    """

    name: str
    per_layer: int
    gains: Gains
    alpha: sp.Symbol
    beta: sp.Symbol

    @property
    def equal_gains(self) -> dict[Any, Any]:
        """The generic gains replaced by the one β of the kind."""
        return dict.fromkeys(self.gains, self.beta)


def kinds(part: Part, selection: Selection) -> tuple[Kind, ...]:
    """The kinds of a part's sublayers, one where all have the same number of gains.

    Raises :class:`Refusal` where a sublayer has no scaled matrix.
    """
    parts = len(selection.the_stack.parts)
    empty = [s.name for s in part.layer if not s.scaled]
    if empty:
        raise Refusal(f"the sublayer {empty[0]!r} has no scaled matrix, so β cannot reach it")
    uniform = len({len(s.scaled) for s in part.layer}) == 1
    names = ("*",) if uniform else tuple(dict.fromkeys(s.name for s in part.layer))
    result = []
    for name in names:
        members = [s for s in part.layer if name in ("*", s.name)]
        own = "*" if selection.one_alpha else name
        result.append(
            Kind(
                name=name,
                per_layer=len(members),
                gains=gains(len(members[0].scaled), part.name, parts),
                alpha=part_symbol("alpha", part.name, parts, own),
                beta=part_symbol("beta", part.name, parts, name),
            )
        )
    return tuple(result)


@dataclass(frozen=True)
class Law:
    """The response κ of a placement and the degrees of an optimizer, in any symbols."""

    found: Directions
    degrees: Degrees

    def response(self, of: Gains, residual: sp.Symbol) -> Any:
        """D to leading order: κ √Σ(P/β_j)²."""
        kappa = self.found.leading.xreplace({P: sp.Mul(*of), alpha: residual})
        return sp.sqrt(responses(of)) * kappa

    def exact_response(self, of: Gains, residual: sp.Symbol) -> Any:
        """D at any branch weight, with the branch and its change independent of the path."""
        kappa = self.found.response.xreplace({P: sp.Mul(*of), alpha: residual})
        return sp.sqrt(responses(of)) * kappa

    def share(self, of: Gains, residual: sp.Symbol) -> Any:
        """D^{1+p} ‖θ‖^q: one sublayer's increment per η, the loss's gradient dropped."""
        size = sp.sqrt(sp.Add(*(gain**2 for gain in of)))
        return self.response(of, residual) ** (1 + self.degrees.p) * size**self.degrees.q

    def equal_share(self, kind: Kind) -> Any:
        """The same with every gain of the kind at its β: a monomial."""
        share = self.share(kind.gains, kind.alpha).xreplace(kind.equal_gains)
        return sp.powdenest(sp.powsimp(share), force=True)


def update_steps(law: Law, of: Gains) -> tuple[Step, ...]:
    """Gradient, update and increment of one sublayer, and the sum over S equal ones."""
    p, q = law.degrees.p, law.degrees.q
    gradient = delta * law.response(of, alpha)
    size = sp.sqrt(sp.Add(*(gain**2 for gain in of)))
    update = eta * gradient**p * size**q
    one = _gradient_size(law, of)
    step_size = Step(
        name="update-size",
        section=SECTION,
        lhs=update,
        rhs=eta * law.response(of, alpha) ** p * size**q,
        relation=Relation.BOUND,
        because=(
            f"‖Δθ‖ = η‖g‖^p‖θ‖^q at the optimizer's degrees p = {p}, q = {q}, the loss's "
            "gradient being of order one"
        ),
        source="layer cake, §4.3, last supplement",
        uses=("gradient-size", "degrees"),
        assumptions=("bounded-loss-gradient",),
        bounded=(delta,),
    )
    moved = Step(
        name="sublayer-increment",
        section=SECTION,
        lhs=sp.Mul(law.response(of, alpha), update, evaluate=False),
        rhs=eta * delta**p * law.share(of, alpha),
        relation=Relation.EQUAL,
        because=f"D‖Δθ‖ with ‖Δθ‖ = η‖g‖^p‖θ‖^q at the optimizer's degrees p = {p}, q = {q}",
        source=SOURCE,
        uses=("gradient-size", "update-size"),
        checks=(
            Check("the same with gains, α, δ rescaled one at a time", _degrees_of(law, of)),
            *EXACT,
        ),
    )
    total = Step(
        name="sum-over-sublayers",
        section=SECTION,
        lhs=sp.Sum(moved.rhs, (i, 1, S)),
        rhs=S * moved.rhs,
        relation=Relation.EQUAL,
        because=(
            "S equal terms added by the triangle inequality: what updates that push the output "
            "one way make; independent directions would make √S of it"
        ),
        source=SOURCE,
        uses=(_telescoping(law), "sublayer-increment"),
        assumptions=("aligned-updates",),
        checks=(equal_at_sizes(S),),
    )
    bound = Step(
        name="increment-of-equal-sublayers",
        section=SECTION,
        lhs=total.rhs,
        rhs=eta * S * law.share(of, alpha),
        relation=Relation.BOUND,
        because="the loss's gradient at the output is of order one",
        source=SOURCE,
        uses=("sum-over-sublayers",),
        assumptions=("bounded-loss-gradient",),
        bounded=(delta,),
    )
    return one, step_size, moved, total, bound, _matrix_by_matrix(law, of)


def _gradient_size(law: Law, of: Gains) -> Step:
    """‖g‖: a bound, or its leading order where the update falls with the gradient (p < 0)."""
    # what later sublayers and a final norm leave of a change, in mean square
    passage = 1 if law.found.normalised else 1 / sp.sqrt(1 + i * r**2)
    step = Step(
        name="gradient-size",
        section=SECTION,
        lhs=delta * law.exact_response(of, alpha) * passage,
        rhs=delta * law.response(of, alpha),
        relation=Relation.AT_MOST,
        because=(
            "‖∂L/∂θ_i‖ ≤ ‖∂L/∂F‖ ‖∂F/∂θ_i‖, and ‖∂F/∂θ_i‖ is at most the last sublayer's: in "
            "mean square the Jacobians in between are at most 1"
        ),
        source=SOURCE,
        uses=(_passage(law), "branch-response"),
        assumptions=("independent-signs", "unit-activations", "small-branch-weight"),
        checks=(SQUARES_AT_MOST,),
        establishes=(delta,),
    )
    if law.degrees.p >= 0:
        return step
    weight = law.found.weight.xreplace({P: sp.Mul(*of)})
    last = of[0] if weight.has(of[0]) else alpha
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
        checks=(ratio_in_branch_weight(last, weight),),
    )


def _matrix_by_matrix(law: Law, of: Gains) -> Step:
    """The constant between adding matrices one by one and taking the norm over all of them."""
    p, q, count = law.degrees.p, law.degrees.q, len(of)
    equal = dict.fromkeys(of, beta)
    kappa = law.found.leading.xreplace({P: sp.Mul(*of)})
    single = sp.Add(*((sp.Mul(*of) / gain * kappa) ** (1 + p) * gain**q for gain in of))
    norm = law.share(of, alpha)
    return Step(
        name="matrix-by-matrix",
        section=SECTION,
        lhs=sp.Mul(single.xreplace(equal), 1 / norm.xreplace(equal), evaluate=False),
        rhs=sp.Integer(count) ** ((1 - p - q) / 2),
        relation=Relation.EQUAL,
        because=(
            f"adding the {count} matrices' increments one by one gives this multiple of the "
            "norm's form: a constant, 1 where p + q = 1"
        ),
        uses=("increment-of-equal-sublayers",),
        assumptions=("equal-gains",),
        checks=(Check("both forms added up at a rational point", _ratio_of_forms(law, of)),),
    )


def _ratio_of_forms(law: Law, of: Gains) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        count, residual, gain = len(of), sp.Rational(7, 3), sp.Rational(2, 5)
        p, q = law.degrees.p, law.degrees.q
        kappa = law.found.leading.xreplace({P: gain**count, alpha: residual})
        one_by_one = sum((kappa * gain ** (count - 1)) ** (1 + p) * gain**q for _ in of)
        expected = sp.N(one_by_one / _one_sublayer(count, residual, gain, law), 40)
        at = {alpha: residual, beta: gain}
        sides = (step.lhs.xreplace(at), step.rhs.xreplace(at))
        return all(abs(sp.N(side, 40) - expected) < 1e-30 for side in sides)

    return holds


def _passage(law: Law) -> str:
    return "jacobian-root-mean-square" if law.found.normalised else "stream-jacobians"


def _telescoping(law: Law) -> str:
    if law.found.normalised:
        return "telescoping-unit-jacobians"
    return "telescoping-through-the-stream"


def _degrees_of(law: Law, of: Gains) -> Callable[[Step], bool]:
    """All gains ×2, δ ×2, η ×2: the sides scale as counted from κ, p and q alone."""
    p, q = law.degrees.p, law.degrees.q
    leading = law.found.leading
    of_p = sp.degree(sp.numer(leading), P) - sp.degree(sp.denom(leading), P)
    in_gains = len(of) - 1 + len(of) * of_p
    scalings = (
        (dict.fromkeys(of, 2), (1 + p) * in_gains + q),
        ({delta: 2}, p),
        ({eta: 2}, sp.S.One),
    )

    def holds(step: Step) -> bool:
        symbols = sorted(step.free_symbols, key=str)
        point = {symbol: sp.Rational(5 + 2 * at, 3 + at) for at, symbol in enumerate(symbols)}
        for factors, degree in scalings:
            scaled = {symbol: factors.get(symbol, 1) * value for symbol, value in point.items()}
            for side in (step.lhs, step.rhs):
                ratio = sp.N(side.xreplace(scaled) / side.xreplace(point), 40)
                if abs(ratio - sp.N(sp.Integer(2) ** degree, 40)) > sp.Float("1e-30"):
                    return False
        return True

    return holds


def increment_step(
    part: Part, of: tuple[Kind, ...], law: Law, amplification: Any = sp.S.One, **say: Any
) -> Step:
    """``increment-<part>``: the coefficient of η, in α, β and the part's depth.

    On the left the sublayers of all layers one kind after the other with their gains set
    equal, on the right the same in monomials. Checked by adding up an explicit stack.
    """
    depth = DEPTHS[part.depth]
    count = sp.Symbol("l", integer=True, positive=True)
    layer = sp.Add(*(k.per_layer * law.share(k.gains, k.alpha).subs(k.equal_gains) for k in of))
    written = amplification * sp.Sum(layer, (count, 1, depth))
    shares = sp.Add(*(k.per_layer * law.equal_share(k) for k in of))
    return Step(
        name=say.get("name", f"increment-{part.name}"),
        section=say.get("section", SECTION),
        lhs=written,
        rhs=sp.powsimp(amplification * depth * shares),
        relation=Relation.EQUAL,
        because=say.get(
            "because",
            f"{len(part.layer)} sublayers in each of {part.depth} layers, all gains of a "
            "sublayer equal: the coefficient of η that the balance sets to 1",
        ),
        source=say.get("source", SOURCE),
        uses=say.get("uses", ("increment-of-equal-sublayers",)),
        assumptions=("equal-gains",),
        checks=(
            Check(
                "added up sublayer by sublayer at 1, 2, 3 layers",
                _added_up(part, of, law, amplification),
            ),
        ),
    )


def _added_up(
    part: Part, of: tuple[Kind, ...], law: Law, amplification: Any
) -> Callable[[Step], bool]:
    """Every sublayer's matrices one by one, at rational α and β, against both sides."""

    def holds(step: Step) -> bool:
        depth = DEPTHS[part.depth]
        names = sorted(step.rhs.free_symbols - {depth}, key=str)
        at = {name: sp.Rational(3 + 2 * index, 7) for index, name in enumerate(names)}
        for layers in (1, 2, 3):
            total: Any = sp.S.Zero
            for sublayer in part.layer * layers:
                kind = next(k for k in of if k.name in ("*", sublayer.name))
                residual, gain = (at.get(knob, sp.S.One) for knob in (kind.alpha, kind.beta))
                total += _one_sublayer(len(sublayer.scaled), residual, gain, law)
            total *= sp.sympify(amplification).xreplace(at)
            right = step.rhs.xreplace({**at, depth: sp.Integer(layers)})
            left = written_out(step.lhs.xreplace({**at, depth: sp.Integer(layers)}))
            if abs(sp.N(right - total, 40)) > 1e-25 or abs(sp.N(left - total, 40)) > 1e-25:
                return False
        return True

    return holds


def _one_sublayer(matrices: int, residual: Any, gain: Any, law: Law) -> Any:
    """D^{1+p}‖θ‖^q from the derivative of the response, one matrix after the other."""
    square: Any = sp.S.Zero
    theta: Any = sp.S.Zero
    for _ in range(matrices):
        others = gain ** (matrices - 1)
        square += others**2
        theta += gain**2
    kappa = law.found.leading.xreplace({P: gain**matrices, alpha: residual})
    return (kappa * sp.sqrt(square)) ** (1 + law.degrees.p) * sp.sqrt(theta) ** law.degrees.q
