r"""Beyond the first order and the first step: what the rule of a part implies, kind by kind.

S·r and S·r², whether the rule keeps its premises; ρ, and which knobs reach both; every order of one
update; a number of aligned updates, and the rate that breaks the model. And what leaves all of it
alone: at W = cW', the factor c moved into the forward pass, each update moves W by c times as much
as W' (:func:`deepnet_theory.sizes.equivalence.powers`). That is exact where the update is
homogeneous with its constants, and holds up to ε where ε is left as it is. The forward pass is the
same, and with it r, and so is the share ηρ of a matrix that one update moves: **S·r and ηρ are the
invariants of a class of rules**.

Shares, rates and the ε of norms have no steps: :mod:`~deepnet_theory.proof.facts` holds them
against the same explicit sublayers, which a step that restates them would only repeat.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any

import mpmath
import sympy as sp
from sympy.core.function import AppliedUndef

from deepnet_theory.definitions.expression import Node
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.algebra import (
    DEPTHS,
    Branch,
    S,
    alpha,
    eta,
    exponent_in,
    exponents,
    j,
    k,
    present,
    rational,
    simplified,
)
from deepnet_theory.proof.explicit import SAME, Knobs, Place, decimal
from deepnet_theory.proof.notation import output_change
from deepnet_theory.proof.parts import n, second_order
from deepnet_theory.proof.placement import P, agree, residual, x
from deepnet_theory.proof.rule import Balanced, Kind, Problem
from deepnet_theory.proof.step import Check, Regime, Section, Step, number
from deepnet_theory.proof.witness import Matrix
from deepnet_theory.sizes.entries import DIGITS, Value, entries
from deepnet_theory.sizes.laws import carries_alpha, factors
from deepnet_theory.sizes.update import law, powers, practised

BEYOND = Section("Beyond the first order")
SELF_CONSISTENCY = Section("Self-consistency", "Su, §Post-hoc analysis")
EQUIVALENT = Section("Equivalent rules")
FREE = ((3 / 7, 2.5), (11.0, 1 / 3), (1 / 9, 0.4))  # α and β of no rule
DEPTH_POINTS = ((3, 5), (10_000, 700), (10**8, 10**6))  # its own depth, and any other
tau = sp.Symbol("tau", positive=True)  # the number of aligned steps
Numbers = dict[sp.Expr, Any]


def implied_steps(problem: Problem, balanced: Balanced) -> Iterator[Step]:
    """S·r and S·r²; ρ, every order, aligned steps and the failing rate, of every kind."""
    kinds = [AtRule(problem, balanced, kind) for kind in balanced.kinds]
    yield from (kind.self_consistency(power) for kind in kinds for power in (1, 2))
    yield from second_order(balanced.part)
    for kind in kinds:
        yield kind.relative_update()
        yield kind.increment_identity()
        yield kind.relative_law()
        yield kind.complete_knobs()
        yield from map(kind.order_within, range(1, kind.matrices + 1))
        yield kind.orders_across()
        yield kind.bound_of_aligned_steps()
        yield kind.failing_rate()


def power_of(size: sp.Expr) -> str:
    """The powers of the depths in a monomial, in words."""
    held = {base: power for base, power in exponents(size).items() if base.is_Symbol}
    return "*".join(f"{base}^({held[base]})" for base in sorted(held, key=str)) or "1"


# what S·r^power says of a product of Jacobians; negative: the residual sum is not normalised
_PRODUCTS = {
    1: "branches that are all aligned with the stream multiply a change by up to exp(S*r)",
    2: "along a typical path of independent branches a change is multiplied by exp(-S*r^2), in "
    "root mean square not at all",
    -1: "branches that are all aligned make the stream grow as 1 + S*r",
    -2: "independent branches make the stream grow as sqrt(1 + S*r^2)",
}


class AtRule:
    """One kind of sublayer of a part at the rule: its sizes, in the depths, and its steps."""

    def __init__(self, problem: Problem, balanced: Balanced, kind: Kind) -> None:
        self.problem, self.balanced, self.kind = problem, balanced, kind
        self.tag = kind.tag(balanced.part.name)
        self.matrices = len(factors(kind.sublayer))  # one that enters squared counts twice
        self.rho, self.r = kind.symbol("rho"), kind.symbol("r")
        self.rho_at_rule = balanced.relative_update(kind)
        self.weight_at_rule = balanced.at_solution(kind.weight)
        self.aligned_at_rule = present(balanced.sublayers * self.weight_at_rule)
        # what the user's η is multiplied with: κ and the learning rate's factor; and what its other
        # uses, and a later part, multiply the update of one use of one matrix with
        multiplier = simplified(balanced.rate * balanced.rate_of(kind))
        self.times = multiplier * simplified(balanced.backward * balanced.together)
        # the steps that the rule rests on, and those that state r
        amplified = balanced.amplification.steps if balanced.amplification else ()
        self.at_rule = (*balanced.conclusion, *(step.name for step in amplified))
        self.weights = tuple(problem.route.weights[name].name for name in kind.members)

    # ---- numbers ----

    def depths(self, own: int, other: int) -> Numbers:
        """The depths where its own is one number and any other another."""
        depth = self.balanced.depth
        return {s: sp.Integer(own if s == depth else other) for s in DEPTHS.values()}

    def place(self, own: int, other: int, free: Knobs | None = None) -> Place:
        """An explicit sublayer of its kind there."""
        part = self.balanced.part
        depth = {name: own if name == part.depth else other for name in DEPTHS}
        return self.problem.stack.at(part.name, self.kind.members[0], depth, free)

    @cached_property
    def points(self) -> list[tuple[tuple[int, int], Numbers, Numbers]]:
        """Depths, and the knobs and ρ there."""
        points = []
        for at in DEPTH_POINTS:
            depths = self.depths(*at)
            knobs = {s: number(value, depths) for s, value in self.balanced.values.items()}
            points.append((at, depths, {self.rho: number(self.rho_at_rule, depths), **knobs}))
        return points

    def shows(
        self, step: Step, size: Callable[[Place], Any], *free: Knobs, given: Numbers | None = None
    ) -> bool:
        """Whether both sides are what an explicit sublayer shows, at several depths.

        At the rule, or at ``free`` α and β where a step holds of any.
        """
        ratios = []
        for at, depths, knobs in self.points:
            for chosen in free or (None,):
                place = self.place(*at, chosen)
                left = {**depths, **knobs, **(given or {})}
                left |= dict(zip((self.kind.alpha, self.kind.beta), chosen or (), strict=False))
                # no knob is left on the right at the rule, but beside rho
                right = left if chosen or step.rhs.has(self.rho) else {**depths, **(given or {})}
                sides = number(step.lhs, left), number(step.rhs, right)
                ratios += [side / size(place) for side in sides]
        one = ratios[0] if self.problem.stack.numbered else 1
        return all(abs(ratio / one - 1) < SAME for ratio in ratios)

    def shown(self, size: Callable[[Place], Any], *free: Knobs) -> tuple[Check]:
        """The check of :meth:`shows`."""
        return (Check("what an explicit sublayer shows", lambda s: self.shows(s, size, *free)),)

    def sizes(self, numbers: Numbers) -> list[Any]:
        """S, r and ρ at depths."""
        sizes = (self.balanced.sublayers, self.weight_at_rule, self.rho_at_rule)
        return [number(size, numbers) for size in sizes]

    # ---- S·r and S·r²: whether the rule keeps its premises ----

    def self_consistency(self, power: int) -> Step:
        """S·r^power, judged in every depth that it holds."""
        balanced, kind = self.balanced, self.kind
        # n uses of one branch add alike: S/n distinct ones of n*r each
        together = balanced.uses ** (power - 1)
        value = balanced.sublayers * together * self.weight_at_rule**power
        others = value.free_symbols - {balanced.depth}  # an encoder's constants may hold both
        behaviour = []
        for depth in (balanced.depth, *others):
            growth = exponent_in(value, depth)
            state = "grows" if growth > 0 else ("vanishes" if growth < 0 else "stays bounded")
            behaviour.append(f"{state} with depth as {depth}^({growth})")
        shown = balanced.part.squares if power > 1 else "S*r"
        normalised = self.problem.law(kind.sublayer).normalised
        return SELF_CONSISTENCY.equal(
            f"self-consistency-{power}-{self.tag}",
            balanced.sublayers * together * kind.weight**power,
            present(value),
            f"r = {present(self.weight_at_rule)}; {shown} {' and '.join(behaviour)}; "
            f"{_PRODUCTS[power if normalised else -power]}",
            uses=(f"sublayers-{balanced.part.name}", *self.weights, *balanced.conclusion),
            checks=self.shown(lambda at: at.aligned if power == 1 else at.independent),
            left=S * (1 if together == 1 else n) * self.r**power,
        )

    # ---- ρ, the other number of the first-order balance, and which knobs reach both ----

    def relative_update(self) -> Step:
        """ρ at the rule, by the update of a matrix of its size under a gradient of its size."""
        return BEYOND.equal(
            f"relative-update-{self.tag}",
            sp.Mul(simplified(self.times), self.kind.relative),
            present(self.rho_at_rule),
            "rho = |dW|/(eta*|W|) of a scaled matrix, its gradient and its size put in the "
            f"update; it scales as {power_of(self.rho_at_rule)}",
            uses=("degrees", *self.at_rule),
            checks=self.shown(lambda at: at.rho),
            left=self.rho,
        )

    def increment_identity(self) -> Step:
        """The increments of the sublayers add up to c·S·r·ρ."""
        kind = self.kind
        constant = simplified(kind.increment / (kind.weight * kind.relative))

        def added_up(at: Place) -> Any:
            knobs = dict(zip((kind.alpha, kind.beta), at.knobs, strict=True))
            return number(constant, knobs) * at.aligned * at.rho

        return BEYOND.equal(
            f"increment-identity-{self.tag}",
            self.balanced.sublayers * self.times * kind.increment,
            sp.Mul(constant, self.balanced.sublayers, kind.weight, self.rho),
            "the increment of a sublayer is c*r*rho, since its matrices respond as r/|W|"
            + ("" if constant == 1 else f" with c = {constant} of the route")
            + ": the first-order balance is in S*r and rho alone",
            uses=(
                f"sublayers-{self.balanced.part.name}",
                *kind.rests_on,
                *self.weights,
                f"relative-update-{self.tag}",
            ),
            establishes=(self.rho,),
            checks=self.shown(added_up),
            left=output_change() / eta,
        )

    def relative_law(self) -> Step:
        """ρ as a power of r and of the matrix, at any α and β."""
        kind, degrees, together = self.kind, self.problem.degrees, self.balanced.together
        p, left = degrees.p, degrees.q - 1 - degrees.p
        constant = simplified(kind.relative / (kind.weight**p * kind.beta**left))
        factors = [factor for factor in (together, constant) if factor != 1]
        factors += [sp.Pow(kind.weight, p, evaluate=False), sp.Pow(kind.beta, left, evaluate=False)]
        uses = "" if together == 1 else f"n_u^({p})*"
        return BEYOND.equal(
            f"relative-law-{self.tag}",
            together * kind.relative,
            sp.Mul(*factors, evaluate=False),
            f"the gradient of a scaled matrix is r/|W|: rho = kappa*{uses}r^({p})*|W|^({left})"
            + ("" if constant == 1 else f", times {constant} of experts"),
            uses=(*self.weights, f"relative-update-{self.tag}"),
            checks=self.shown(lambda at: at.rho, *FREE),
            left=self.rho,
        )

    def complete_knobs(self) -> Step:
        """Whether α and β together reach both S·r and ρ: the determinant of their powers."""
        kind, degrees = self.kind, self.problem.degrees
        rows = [
            [exponents(size).get(knob, sp.Integer(0)) for knob in (kind.alpha, kind.beta)]
            for size in (kind.weight, kind.relative)
        ]

        def doubled(step: Step) -> bool:
            once, *twice = (self.place(3, 5, free) for free in ((1, 1), (2, 1), (1, 2)))
            (a, b), (c, d) = (
                [math.log2(getattr(at, size) / getattr(once, size)) for at in twice]
                for size in ("weight", "rho")
            )
            return all(abs(s.doit() - (a * d - b * c)) < SAME for s in (step.lhs, step.rhs))

        return BEYOND.equal(
            f"complete-knobs-{self.tag}",
            sp.Determinant(sp.ImmutableMatrix(rows)),
            -rows[0][0] * (1 + degrees.p - degrees.q),
            f"the powers of alpha and beta in r and in rho; {self._how_many(*rows[0])}",
            uses=(f"relative-law-{self.tag}",),
            checks=(Check("the powers by doubling alpha and beta", doubled),),
        )

    def _how_many(self, of_alpha: sp.Expr, of_beta: sp.Expr) -> str:
        """How S·r and ρ are both made of order one, from the one law of ρ."""
        p, left = self.problem.degrees.p, 1 + self.problem.degrees.p - self.problem.degrees.q
        uses = "" if self.balanced.together == 1 else f"*n_u^({-p})"
        alone = "0, because the placement has no alpha: beta"
        power = p - left / of_beta if of_beta else 0
        if of_alpha != 0 and left != 0:
            says = "not 0: one alpha and beta keep every order, without kappa"
        elif of_alpha != 0 and p == 0:
            says = "0, and rho is of order one: every order is kept on a whole curve, without kappa"
        elif of_alpha != 0:
            kappa = f"kappa = S^({p}){uses} alone"
            says = f"0, and rho scales as r^({p}): every order is kept with {kappa}"
        elif of_beta == 0:
            says = "0: neither knob reaches S*r"
        elif power == 0:
            says = f"{alone} alone keeps every order, without kappa"
        else:
            says = f"{alone} keeps every order with kappa = S^({power}){uses} alone"
        if self.matrices > 1:
            return says
        return (
            f"{says}; with one matrix a branch there is no order beyond the first, and rho is left "
            "to decide: S*r = 1/rho, what the branches weigh at the start"
        )

    # ---- every order of one step: several matrices of one branch, and of several branches ----

    def order_within(self, order: int) -> Step:
        """The size of one order of η within a branch: ``order`` of its matrices moved at once."""
        several, rho = math.comb(self.matrices, order), self.rho_at_rule
        # a later part multiplies the change on its way to the output; experts add up in line
        forward = simplified(self.balanced.factor / self.balanced.backward)
        times = (forward, several, sp.sqrt(self.kind.sublayer.chosen))
        value = simplified(sp.Mul(*times, self.aligned_at_rule, rho**order))
        return BEYOND.equal(
            f"order-{order}-{self.tag}",
            sp.Mul(*times, self.balanced.sublayers, self.kind.weight, rho**order),
            present(value),
            f"{several} choice{'s' * (several != 1)} of {order} of the {self.matrices} matrices; "
            "one update moves all at once, each by eta*rho of itself, in S branches of weight r; "
            f"it scales as {power_of(value)}",
            uses=(f"increment-identity-{self.tag}", *self.at_rule),
            assumptions=("aligned-updates",),
            checks=self.shown(lambda at: at.order(order)),
            left=output_change(str(order)) / eta**order,
        )

    def orders_across(self) -> Step:
        """Products across sublayers bring powers of S·r and of ρ, nothing else."""
        rho = present(self.rho_at_rule)
        first = present(simplified(self.aligned_at_rule * rho))

        def products(step: Step) -> bool:
            """Of 1 to 3 sublayers, at each of their orders."""
            return all(
                self.shows(
                    step,
                    lambda at: at.aligned**taking * at.rho**order,  # noqa: B023  called at once
                    given={j: sp.Integer(taking), k: sp.Integer(order)},
                )
                for taking in (1, 2, 3)
                for order in range(taking, self.matrices * taking + 1)
            )

        return BEYOND.equal(
            f"orders-across-{self.tag}",
            (self.balanced.sublayers * self.kind.weight) ** j * rho**k,
            sp.Mul(first**j, rho ** (k - j)),
            "products across j sublayers, to order n from j to "
            f"{self.matrices}*j: each sublayer that takes part moves a matrix at least, "
            "and what it moves beyond that is a power of rho",
            uses=(f"increment-identity-{self.tag}", *self.at_rule),
            assumptions=("aligned-updates", "near-identity"),
            establishes=(j, k),
            checks=(Check("products of explicit sublayers", products),),
            left=(S * self.r) ** j * self.rho**k,
        )

    # ---- many steps: the bound of aligned ones, and the rate that breaks the model ----

    def bound_of_aligned_steps(self) -> Step:
        """A number of aligned steps move a stack by no more than this."""
        weight, count = present(self.weight_at_rule), self.balanced.sublayers
        grown = (1 + tau * eta * present(self.rho_at_rule)) ** self.matrices
        aligned = present(count * weight)
        return BEYOND.at_most(
            f"aligned-steps-{self.tag}",
            (1 + weight * grown) ** count - (1 + weight) ** count,
            sp.exp(aligned) * (sp.exp(aligned * (grown - 1)) - 1),
            "tau steps of the first one's size, all aligned, make every matrix 1 + "
            "tau*eta*rho times as large at most; a stack of S branches of norm r then moves "
            "by no more than the difference of these products, and 1 + x is at most exp(x)",
            uses=(f"increment-identity-{self.tag}", *self.at_rule),
            assumptions=("aligned-updates",),
            establishes=(tau, eta),
            checks=(
                Check(
                    "both sides at many depths",
                    lambda step: all(self._bounds(n, step) for n in (1, 3, 1000, 10**48)),
                ),
                Check("explicit products of matrices", self._bounds_products),
            ),
        )

    def _bounds(self, layers: int, step: Step) -> bool:
        """The left by logarithms; the bound holds, no larger than a constant asks as r vanishes."""
        numbers, m = self.depths(layers, layers), self.matrices
        # digits of the left that are lost, which is of 1 + weight
        lost = max(0, -int(mpmath.log10(self.sizes(numbers)[1])))
        with mpmath.workdps(200 + lost):
            count, weight, rho = self.sizes(numbers)
            least = 1 - mpmath.mpf(10) ** -50
            for size in (share * min(mpmath.mpf(1), 1 / rho) for share in (mpmath.mpf("0.1"), 1)):
                at = {**numbers, tau: 1, eta: size}
                bound = number(step.rhs, at)
                grown = mpmath.log1p(weight * (1 + size * rho) ** m)
                was = mpmath.exp(count * mpmath.log1p(weight))
                exact = was * mpmath.expm1(count * (grown - mpmath.log1p(weight)))
                if not least < number(step.lhs, at) / exact < 2 - least or bound < exact * least:
                    return False
                if layers > 1000 and count * weight**2 <= 1 and bound > exact * 100:
                    return False
        return True

    def _bounds_products(self, step: Step) -> bool:
        """Orthogonal W and ΔW = τηρV, V orthogonal: the largest that a step may be."""
        numbers = self.depths(2, 2)
        count, weight, rho = map(float, self.sizes(numbers))
        for size in (0.1, 1.0):
            bound = float(number(step.rhs, {**numbers, tau: 2, eta: size / 2}))
            for aligned in (True, False):
                moved = _moved(int(count), self.matrices, weight, size * rho, aligned)
                if moved > bound * (1 + 1e-12):
                    return False
        return True

    def failing_rate(self) -> Step:
        """How the largest stable learning rate scales with depth (worst case)."""
        rho, root = present(self.rho_at_rule), sp.Rational(1, self.matrices)
        grows = exponent_in(rho, self.balanced.depth) > 0
        failing = present(simplified(rho ** (root - 1))) if grows else sp.Integer(1)

        def slope(step: Step) -> bool:
            with mpmath.workdps(700):
                sides = (step.lhs, step.rhs)
                shallow, deep = (
                    [mpmath.log10(number(side, self.depths(10**power, 7))) for side in sides]
                    for power in (100, 200)
                )
                left, right = ((b - a) / 100 for a, b in zip(shallow, deep, strict=True))
                return bool(abs(left - right) < mpmath.mpf("1e-2"))

        return BEYOND.order(
            f"failing-rate-{self.tag}",
            ((1 + 1 / self.aligned_at_rule) ** root - 1) / rho,
            failing,
            f"tau*eta where S*r*((1 + tau*eta*rho)^m - 1) is 1, m = {self.matrices}: "
            + (
                f"as rho grows it falls, by {power_of(failing)}, after however many steps"
                if grows and self.matrices > 1
                else "it does not fall with the depth"
            ),
            regime=Regime(self.balanced.depth, sp.oo),
            uses=(f"aligned-steps-{self.tag}", *self.at_rule),
            assumptions=("aligned-updates",),
            checks=(Check("the slope at depths of 10^100 and more", slope),),
            left=eta * tau,
        )


def _moved(count: int, matrices: int, weight: float, step: float, aligned: bool) -> float:
    """‖F_τ − F_0‖ of an explicit stack of branches, on a vector of norm 1; ``step`` is τηρ.

    Aligned, every matrix grows along itself; else it moves towards another direction.
    """
    still = moved = Matrix([[1.0, 0.0, 0.0]])
    for layer in range(count):
        before, after = still, moved
        for matrix in range(matrices):
            start = _reflection(0 if aligned else 3 * layer + matrix + 1)
            towards = start if aligned else _reflection(5 * layer + 2 * matrix + 2)
            before, after = before * start, after * (start + step * towards)
        still, moved = still + weight * before, moved + weight * after
    return (moved - still).norm


def _reflection(index: int) -> Matrix:
    """An orthogonal matrix, the identity for 0."""
    normal = Matrix([[1.0, index % 3 - 1.0, (index % 5) / 2]])
    eye = Matrix([[float(a == b) for b in range(3)] for a in range(3)])
    return eye - normal.T * normal * (2 / normal.norm**2) if index else eye


# ---- equivalent rules: W = cW' ----

c = sp.Symbol("c", positive=True)
_W = sp.Symbol("W'", positive=True)
_u, _L = sp.Function("u"), sp.Function("L")
# what an update is a function of; m and v are running means of g and g²
ARGUMENTS = {
    "eta": eta,
    **{name: sp.Symbol(name, positive=True) for name in ("g", "theta")},
    **{name: sp.Symbol(f"{name}_t", positive=True) for name in ("m", "v")},
    "epsilon": sp.Symbol("epsilon", positive=True),
    "decay": sp.Symbol("omega", positive=True),
}
# an update is run on these numbers, for a parameter of two entries
_ENTRIES = {
    "g": ("3/7", "-5/11"),
    "theta": ("-17/5", "23/9"),
    "m": ("2/9", "-7/4"),
    "v": ("6", "1/5"),
    "eta": ("1/3",),
    "decay": ("3/13",),
}
_EPSILONS = ("1/50", "7")  # below the gradient, and above it
_GIVEN = {"g": 1, "theta": -1, "m": 1, "v": 2}  # what W = cW' does to them, as powers of c


def equivalence_steps(problem: Problem) -> Iterator[Step]:
    """W = cW' for the update, for its epsilon and weight decay, for its memory, and for α."""
    optimizer, degrees = problem.selection.the_optimizer, problem.degrees
    practice, running, of_c = practised(optimizer), optimizer.running, powers(optimizer)

    def left_alone(
        name: str, root: Node, arguments: tuple[str, ...], because: str, *uses: str
    ) -> Step:
        still = _u(*(ARGUMENTS[each] for each in arguments))
        moved = _u(*(c ** rational(of_c[each]) * ARGUMENTS[each] for each in arguments))

        def run(step: Step) -> bool:
            """The update as W has it against c times that of W', the powers read off the step."""
            (moved,) = step.lhs.atoms(AppliedUndef)
            pairs = zip(arguments, moved.args, strict=True)
            times = {each: argument / ARGUMENTS[each] for each, argument in pairs}
            given = all(times.get(each, c**power) == c**power for each, power in _GIVEN.items())
            return (
                given
                and bool(step.rhs == still)
                and all(
                    _moves_alike(root, times, step.lhs / moved, scale, epsilon)
                    for scale in (sp.Integer(3), sp.Rational(2, 7))
                    for epsilon in _EPSILONS
                )
            )

        stated = law(optimizer).regimes or practice.regimes
        return EQUIVALENT.equal(
            name,
            c * moved,
            still,
            because,
            uses=uses,
            assumptions=("stated-regime",) if stated else (),
            checks=(Check("the update on entries, at several c", run),),
        )

    yield EQUIVALENT.equal(
        "moved-gradient",
        sp.Derivative(_L(c * _W), _W),
        c * ARGUMENTS["g"],
        "W = c*W' with c in the forward pass: g is the gradient of the loss at W",
        establishes=(c, _W, *ARGUMENTS.values()),
        checks=(Check("losses differentiated", _differentiated),),
    )
    yield left_alone(
        "moved-update",
        degrees.reduced,
        ("eta", "g", "theta"),
        f"by the degrees, c*c^({of_c['eta']})*c^({degrees.p})*c^({-degrees.q}) = 1: W moves as it "
        "did, and so does the share eta*rho of it; the forward pass is the same, and with it r: "
        "S*r and eta*rho are all that a class of equivalent rules has in common",
        "degrees",
        "moved-gradient",
    )
    if practice.constants:
        words = {"epsilon": "epsilon", "decay": "the weight decay"}
        yield left_alone(
            "moved-constants",
            practice.reduced,
            ("eta", "g", "theta", *practice.constants),
            "; ".join(
                f"{words[name]} takes c^({of_c[name]}): the sum that it stands in is "
                f"homogeneous where it is of degree {d.exponent('g')} in g and "
                f"{d.exponent('theta')} in theta"
                for name, d in practice.constants.items()
            ),
            "moved-update",
        )
    if running is not None and running.expression.names & {"m", "v"}:
        yield left_alone(
            "moved-history",
            running.expression.root,
            tuple(name for name in ARGUMENTS if name in running.expression.names | {"theta"}),
            "a running mean of g is of degree 1 in it and one of its square of degree 2: where all "
            "updates so far were c times as large in W as in W', so is the next one, and the whole "
            "trajectory is left alone",
            "moved-update",
        )
    if carries_alpha(problem.selection.the_placement):
        yield weights_step(problem.selection, of_c["eta"])


def _differentiated(step: Step) -> bool:
    """For powers of W, which make every loss by sums: a derivative is linear in the loss."""
    for power in (sp.S.Half, sp.Integer(2), sp.Integer(5)):
        derivative = step.lhs.xreplace({_L(c * _W): (c * _W) ** power}).doit()
        g = power * (c * _W) ** (power - 1)
        if exponents(step.rhs.xreplace({ARGUMENTS["g"]: g}) / derivative):
            return False
    return True


def _moves_alike(
    root: Node, times: Mapping[str, sp.Expr], outer: sp.Expr, scale: sp.Rational, epsilon: str
) -> bool:
    def values(times: Mapping[str, Decimal]) -> dict[str, Value]:
        numbers: dict[str, Value] = {}
        for name, texts in {**_ENTRIES, "epsilon": (epsilon,)}.items():
            first, *second = (times.get(name, 1) * decimal(Fraction(text)) for text in texts)
            numbers[name] = (first, second[0]) if second else first
        return numbers

    with localcontext(prec=2 * DIGITS):
        scales = {each: decimal(power.xreplace({c: scale})) for each, power in times.items()}
        still, moved = (entries(root, values(by)) for by in ({}, scales))
        least, outer = Decimal(10) ** -DIGITS, decimal(outer.xreplace({c: scale}))
        return any(still) and all(
            abs(outer * b - a) <= least * abs(a) for a, b in zip(still, moved, strict=True)
        )


def weights_step(selection: Selection, power: Fraction) -> Step:
    """α in initial sizes and rates alone, in the last matrix W = αW': on explicit matrices."""
    placement = selection.the_placement
    lasts = dict.fromkeys(s.last_map[0] for s in selection.the_stack.sublayers)
    divided = sp.Symbol("divided", positive=True)
    moved = residual(placement, lambda y: P / divided * Branch(y), rescale=False)
    return EQUIVALENT.equal(
        "weights-form",
        residual(placement, lambda y: P * Branch(y), rescale=False),
        moved.xreplace({alpha: sp.Integer(1)}).xreplace({divided: alpha}),
        f"alpha can go into the last matrix of a branch ({', '.join(lasts)}), which starts at "
        f"beta/alpha and learns at alpha^({power}) times its rate: no forward pass is "
        "touched (a norm's epsilon stands beside a variance that is alpha^2 times smaller)",
        uses=("moved-update",),
        establishes=(P, alpha, x),
        checks=(agree(),),
    )
