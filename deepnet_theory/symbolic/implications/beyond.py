"""Beyond the first order: the steps from S, r and ρ to all orders, and to the rate that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb
from typing import Any

import mpmath
import sympy as sp

from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.algebra.monomial import exponent_in, exponents, present, simplified
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, eta, j, k, part_symbol
from deepnet_theory.symbolic.implications.orders import of_kind, order_size, power_of
from deepnet_theory.symbolic.laws.optimizer import step_length
from deepnet_theory.symbolic.laws.parameters import terms
from deepnet_theory.symbolic.proof.section import Section
from deepnet_theory.symbolic.proof.step import Check, Regime, Step
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.kinds import Kind
from deepnet_theory.symbolic.rule.problem import Problem

SECTION = Section("Beyond the first order")
tau = sp.Symbol("tau", positive=True)  # so many aligned steps
DEPTH_POINTS = ((3, 5), (10_000, 700), (10**8, 10**6))  # its own depth, and any other
DIGITS = 40


def beyond_steps(problem: Problem, balanced: Balanced) -> Iterator[Step]:
    """ρ, the identity, every order, the bound of aligned steps and the failing rate of a part."""
    for kind in balanced.kinds:
        yield from _OfKind(problem, balanced, kind).steps()


@dataclass(frozen=True)
class _OfKind:
    problem: Problem
    balanced: Balanced
    kind: Kind

    @property
    def tag(self) -> str:
        return self.kind.tag(self.balanced.part.name)

    @property
    def depth(self) -> sp.Symbol:
        return DEPTHS[self.balanced.part.depth]

    @property
    def rho(self) -> sp.Symbol:
        parts = len(self.problem.selection.the_stack.parts)
        return part_symbol("rho", self.balanced.part.name, parts, self.kind.name)

    @property
    def multiplier(self) -> sp.Expr:
        """κ and the learning rate's factor, at the rule: what the user's η is multiplied with."""
        return simplified(self.balanced.rate * self.balanced.rate_of(self.kind))

    @property
    def weights(self) -> tuple[str, ...]:
        return tuple(self.problem.route.weights[name].name for name in self.kind.members)

    @property
    def at_rule(self) -> tuple[str, ...]:
        amplified = self.balanced.amplification
        passed = () if amplified is None else tuple(step.name for step in amplified.steps)
        return (*self.balanced.conclusion, *passed)

    def steps(self) -> Iterator[Step]:
        yield self._relative_update()
        yield self._identity()
        yield self._power_law()
        yield self._solutions()
        for order in range(1, self.kind.matrices + 1):
            yield self._order(order)
        yield self._across()
        yield self._bound()
        yield self._failing_rate()

    # ---- the two numbers ----

    def _relative_update(self) -> Step:
        value = self.balanced.relative_update(self.kind)
        times = simplified(self.multiplier * self.balanced.backward)
        return SECTION.equal(
            f"relative-update-{self.tag}",
            sp.Mul(times, self.kind.relative),
            present(value),
            (
                "rho = |dW|/(eta*|W|) of a scaled matrix, its gradient and its size put in the "
                f"update; it goes as {power_of(value)}"
            ),
            uses=("degrees", *self.at_rule) if self._has_degrees else self.at_rule,
            checks=(Check("the update of matrices of these sizes", self._as_stepped),),
        )

    @property
    def _has_degrees(self) -> bool:
        return any(step.name == "degrees" for step in self.problem.route.steps)

    def _as_stepped(self, step: Step) -> bool:
        return step.rhs.free_symbols <= set(DEPTHS.values()) and all(
            _near(side, self._rho_at(point), self._numbers(point))
            for point in DEPTH_POINTS
            for side in (step.lhs, step.rhs)
        )

    def _identity(self) -> Step:
        kind = self.kind
        constant = "" if kind.constant == 1 else f" with c = {kind.constant} of the route"
        return SECTION.equal(
            f"increment-identity-{self.tag}",
            self.balanced.sublayers * self.multiplier * self.balanced.backward * kind.increment,
            sp.Mul(kind.constant, self.balanced.sublayers, kind.weight, self.rho),
            (
                "the increment of a sublayer is c*r*rho, since its matrices respond as "
                f"r/|W|{constant}: the first-order balance is in S*r and rho alone"
            ),
            uses=(
                f"sublayers-{self.balanced.part.name}",
                *kind.rests_on,
                *self.weights,
                f"relative-update-{self.tag}",
            ),
            establishes=(self.rho,),
            checks=(Check("the sublayers' increments added up", self._added_up),),
        )

    def _added_up(self, step: Step) -> bool:
        """Both sides against the route's increments and the update, run anew."""
        for layers, other in DEPTH_POINTS:
            numbers = self._numbers((layers, other))
            at = {**numbers, self.rho: self._rho_at((layers, other))}
            knobs = {own: at[symbol] for own, symbol in self.kind.own.items()}
            route = self.problem.route.increments[self.kind.sublayer.name]
            one = route.value.xreplace({**knobs, eta: sp.Integer(1)})
            times = self.multiplier * self.balanced.backward
            count = layers * len(self.balanced.part.layer)
            total = sp.N((count * one * times).xreplace(at), DIGITS)
            if not all(_near(side, total, at) for side in (step.lhs, step.rhs)):
                return False
        return True

    # ---- which knobs make both of order one ----

    def _power_law(self) -> Step:
        p, q = self.problem.degrees.p, self.problem.degrees.q
        kind = self.kind
        return SECTION.equal(
            f"relative-law-{self.tag}",
            kind.relative,
            sp.Mul(
                sp.Pow(kind.weight, p, evaluate=False),
                sp.Pow(kind.beta, q - 1 - p, evaluate=False),
                evaluate=False,
            ),
            f"the gradient of a scaled matrix is r/|W|: rho = kappa*r^({p})*|W|^({q - 1 - p})",
            uses=(*self.weights, f"relative-update-{self.tag}"),
            checks=(Check("the update of matrices of many sizes", self._at_many_sizes),),
        )

    def _at_many_sizes(self, step: Step) -> bool:
        for a, b in (("3/7", "5/2"), ("11", "1/3"), ("1/9", "2/5")):
            at = {self.kind.alpha: sp.Rational(a), self.kind.beta: sp.Rational(b)}
            expected = sp.N(self._stepped(at), DIGITS)
            if not all(_near(side, expected, at) for side in (step.lhs, step.rhs)):
                return False
        return True

    def _solutions(self) -> Step:
        kind = self.kind
        knobs = (kind.alpha, kind.beta)
        rows = [
            [exponents(size).get(knob, sp.Integer(0)) for knob in knobs]
            for size in (kind.weight, kind.relative)
        ]
        p, q = self.problem.degrees.p, self.problem.degrees.q
        return SECTION.equal(
            f"complete-knobs-{self.tag}",
            sp.Determinant(sp.ImmutableMatrix(rows)),
            -rows[0][0] * (1 + p - q),
            f"the powers of alpha and beta in r and in rho; {self._how_many(*rows[0])}",
            uses=(f"relative-law-{self.tag}",),
            checks=(Check("the powers by doubling alpha and beta", self._doubled),),
        )

    def _how_many(self, of_alpha: sp.Expr, of_beta: sp.Expr) -> str:
        """How S·r and ρ are both made of order one, from the one law of ρ."""
        p, left = self.problem.degrees.p, 1 + self.problem.degrees.p - self.problem.degrees.q
        if of_alpha != 0 and left != 0:
            told = "not 0: one alpha and beta keep every order, without kappa"
        elif of_alpha != 0 and p == 0:
            told = "0, and rho is of order one: every order is kept on a whole curve, without kappa"
        elif of_alpha != 0:
            told = f"0, and rho goes as r^({p}): every order is kept with kappa = S^({p}) alone"
        elif of_beta == 0:
            told = "0: neither knob reaches S*r"
        elif p * of_beta == left:
            told = "0, for want of alpha: beta alone keeps every order, without kappa"
        else:
            power = p - left / of_beta
            told = f"0, for want of alpha: beta keeps every order with kappa = S^({power}) alone"
        if self.kind.matrices > 1:
            return told
        return (
            f"{told}; with one matrix a branch there is no order beyond the first, and rho is left "
            "to decide: S*r = 1/rho, what the branches weigh at the start"
        )

    def _doubled(self, step: Step) -> bool:
        kind = self.kind
        plain = {kind.alpha: sp.Integer(1), kind.beta: sp.Integer(1)}
        rows = []
        for size in (lambda at: kind.weight.xreplace(at), self._stepped):
            found = [size({**plain, knob: sp.Integer(2)}) / size(plain) for knob in plain]
            rows.append([sp.N(sp.log(ratio, 2), DIGITS) for ratio in found])
        expected = rows[0][0] * rows[1][1] - rows[0][1] * rows[1][0]
        return all(
            not side.free_symbols and abs(sp.N(side.doit(), DIGITS) - expected) < sp.Float("1e-25")
            for side in (step.lhs, step.rhs)
        )

    # ---- every order ----

    def _order(self, order: int) -> Step:
        value = order_size(self.balanced, self.kind, order)
        several = comb(self.kind.matrices, order)
        forward = simplified(self.balanced.factor / self.balanced.backward)
        rho = self.balanced.relative_update(self.kind)
        return SECTION.equal(
            f"order-{order}-{self.tag}",
            sp.Mul(forward, several, self.balanced.sublayers, self.kind.weight, rho**order),
            present(value),
            (
                f"order {order}: {several} choice{'s' * (several != 1)} of {order} of the "
                f"{self.kind.matrices} matrices that one update moves at once, each by eta*rho of "
                f"itself, in S branches of weight r; it goes as {power_of(value)}"
            ),
            uses=(f"increment-identity-{self.tag}", *self.at_rule),
            assumptions=("aligned-updates",),
            checks=(Check("the branches' products multiplied out", self._multiplied_out(order)),),
        )

    def _multiplied_out(self, order: int) -> Callable[[Step], bool]:
        def holds(step: Step) -> bool:
            for point in DEPTH_POINTS:
                numbers, rho = self._numbers(point), self._rho_at(point)
                branch = _product([[sp.Integer(1), rho]] * self.kind.matrices)
                forward = self.balanced.factor / self.balanced.backward
                weight = self.kind.weight * self.balanced.sublayers * forward
                expected = sp.N(weight.xreplace(numbers), DIGITS) * branch[order]
                if not all(_near(side, expected, numbers) for side in (step.lhs, step.rhs)):
                    return False
            return True

        return holds

    def _across(self) -> Step:
        rho = present(self.balanced.relative_update(self.kind))
        aligned = present(self.balanced.self_consistency(self.kind, 1))
        first = present(simplified(aligned * rho))
        return SECTION.equal(
            f"orders-across-{self.tag}",
            (self.balanced.sublayers * self.kind.weight) ** j * rho**k,
            sp.Mul(first**j, rho ** (k - j)),
            (
                "products across j sublayers, to order k from j to "
                f"{self.kind.matrices}*j: each sublayer that takes part moves a matrix at least, "
                "and what it moves beyond that is a power of rho"
            ),
            uses=(f"increment-identity-{self.tag}", *self.at_rule),
            assumptions=("aligned-updates", "near-identity"),
            establishes=(j, k),
            checks=(Check("stacks multiplied out", self._stacks),),
        )

    def _stacks(self, step: Step) -> bool:
        """The coefficient of r^j η^k in a product of S branches, over how often it stands there."""
        m = self.kind.matrices
        moved = _product([[sp.Integer(1), sp.Integer(1)]] * m)
        moved[0] = sp.Integer(0)
        for point in DEPTH_POINTS:
            numbers, rho = self._numbers(point), self._rho_at(point)
            weight = sp.N((self.kind.weight * self.balanced.sublayers).xreplace(numbers), DIGITS)
            for taking in (1, 2, 3):
                ways = _product([moved] * taking)
                for order, often in enumerate(ways):
                    if (often != 0) != (taking <= order <= m * taking):
                        return False
                    if often == 0:
                        continue
                    expected = weight**taking * rho**order
                    at = {**numbers, j: sp.Integer(taking), k: sp.Integer(order)}
                    if not all(_near(side, expected, at) for side in (step.lhs, step.rhs)):
                        return False
        return True

    # ---- many steps ----

    def _bound(self) -> Step:
        balanced, m = self.balanced, self.kind.matrices
        rho, weight = balanced.relative_update(self.kind), balanced.at_solution(self.kind.weight)
        count = balanced.sublayers
        grown = (1 + tau * eta * present(rho)) ** m
        aligned = present(count * weight)
        return SECTION.at_most(
            f"aligned-steps-{self.tag}",
            (1 + present(weight) * grown) ** count - (1 + present(weight)) ** count,
            sp.exp(aligned) * (sp.exp(aligned * (grown - 1)) - 1),
            (
                "tau steps of the first one's size, all aligned, make every matrix 1 + "
                "tau*eta*rho times as large at most; a stack of S branches of norm r then moves "
                "by no more than the difference of these products, and 1 + x is at most exp(x)"
            ),
            uses=(f"increment-identity-{self.tag}", *self.at_rule),
            assumptions=("aligned-updates",),
            establishes=(tau, eta),
            checks=(
                Check("both sides at many depths", self._bounds),
                Check("explicit products of matrices", self._explicit_products),
            ),
        )

    def _bounds(self, step: Step) -> bool:
        """The left by logarithms; the bound holds, no larger than a constant asks as r vanishes."""
        return all(self._bounds_at(layers, step) for layers in (1, 3, 1000, 10**48))

    def _bounds_at(self, layers: int, step: Step) -> bool:
        numbers = self._depths((layers, layers))
        weight = _value(self.balanced.at_solution(self.kind.weight), numbers)
        lost = max(0, -int(mpmath.log10(weight)))  # digits of the left, which is of 1 + weight
        with mpmath.workdps(200 + lost):
            rho = _value(self.balanced.relative_update(self.kind), numbers)
            weight = _value(self.balanced.at_solution(self.kind.weight), numbers)
            count = _value(self.balanced.sublayers, numbers)
            moved = min(mpmath.mpf(1), 1 / rho)
            m = self.kind.matrices
            for size in (moved / 10, moved):
                at = {**numbers, tau: sp.Integer(1), eta: sp.Float(str(size), mpmath.mp.dps)}
                bound = _value(step.rhs, at)
                grown = mpmath.log1p(weight * (1 + size * rho) ** m)
                was = mpmath.exp(count * mpmath.log1p(weight))
                exact = was * mpmath.expm1(count * (grown - mpmath.log1p(weight)))
                if abs(_value(step.lhs, at) / exact - 1) > mpmath.mpf(10) ** -50:
                    return False
                if bound < exact * (1 - mpmath.mpf(10) ** -50):
                    return False
                if layers > 1000 and count * weight**2 <= 1 and bound > exact * 100:
                    return False
        return True

    def _explicit_products(self, step: Step) -> bool:
        """Orthogonal W and ΔW = τηρV, V orthogonal: the largest that a step may be."""
        with mpmath.workdps(30):
            numbers = self._depths((2, 2))
            rho = _value(self.balanced.relative_update(self.kind), numbers)
            weight = _value(self.balanced.at_solution(self.kind.weight), numbers)
            count = int(_value(self.balanced.sublayers, numbers))
            for size in ("0.1", "1"):
                at = {**numbers, tau: sp.Integer(2), eta: sp.Float(size, 30) / 2}
                for aligned in (True, False):
                    moved = _moved(count, self.kind.matrices, weight, rho, float(size), aligned)
                    if moved > _value(step.rhs, at) * (1 + mpmath.mpf(10) ** -20):
                        return False
        return True

    def _failing_rate(self) -> Step:
        found = of_kind(self.balanced, self.kind)
        rho = present(found.rho)
        aligned = present(self.balanced.self_consistency(self.kind, 1))
        root = sp.Rational(1, self.kind.matrices)
        grows = exponent_in(rho, self.depth) > 0
        return SECTION.order(
            f"failing-rate-{self.tag}",
            ((1 + 1 / aligned) ** root - 1) / rho,
            found.failing,
            (
                "tau*eta at which S*r*((1 + tau*eta*rho)^m - 1) is 1, m = "
                f"{self.kind.matrices}: "
                + (
                    f"as rho grows it falls, by {power_of(found.failing)}, after however many steps"
                    if grows and self.kind.matrices > 1
                    else "it does not fall with the depth"
                )
            ),
            regime=Regime(self.depth, sp.oo),
            uses=(f"aligned-steps-{self.tag}", *self.at_rule),
            assumptions=("aligned-updates",),
            checks=(Check("the slope at depths of 10^100 and more", self._slope),),
        )

    def _slope(self, step: Step) -> bool:
        with mpmath.workdps(700):
            values = []
            for power in (100, 200):
                numbers = {d: sp.Integer(7) for d in DEPTHS.values()}
                numbers[self.depth] = sp.Integer(10) ** power
                values.append([mpmath.log10(_value(s, numbers)) for s in (step.lhs, step.rhs)])
            slopes = [(after - before) / 100 for before, after in zip(*values, strict=True)]
            return bool(abs(slopes[0] - slopes[1]) < mpmath.mpf("1e-2"))

    # ---- numbers ----

    def _depths(self, point: tuple[int, int]) -> dict[sp.Symbol, Any]:
        own, other = point
        return {
            symbol: sp.Integer(own if symbol == self.depth else other) for symbol in DEPTHS.values()
        }

    def _numbers(self, point: tuple[int, int]) -> dict[sp.Symbol, Any]:
        """Depths and knobs at a depth."""
        depths = self._depths(point)
        knobs = {
            symbol: sp.N(value.xreplace(depths), 2 * DIGITS)
            for symbol, value in self.balanced.values.items()
        }
        return {**depths, **knobs}

    def _rho_at(self, point: tuple[int, int]) -> sp.Expr:
        """ρ by running the optimizer on entries of the gradient's and the matrix's size."""
        numbers = self._numbers(point)
        amplified = self.balanced.amplification
        passes = amplified is not None and amplified.form != "published"
        grown = amplified.size.xreplace(numbers) if amplified and passes else sp.Integer(1)
        times = self.multiplier.xreplace(numbers)
        return sp.N(times * self._stepped(numbers, grown), DIGITS)

    def _stepped(self, knobs: dict[sp.Symbol, Any], grown: sp.Expr = sp.S.One) -> sp.Expr:
        """The update of a scaled matrix over the matrix at values of its knobs, without κ.

        ``grown`` is what a later part multiplies the gradient with.
        """
        found = terms(self.kind.sublayer, self.problem.law)
        term = next(t for t in found if t.role is Role.SCALED)
        gradient, size = (
            sp.sympify(e).xreplace(self.kind.own).xreplace(knobs)
            for e in (term.gradient, term.size)
        )
        one, optimizer = sp.Integer(1), self.problem.selection.the_optimizer
        length = step_length(optimizer, grown * gradient, size) / step_length(optimizer, one, one)
        return length / size


def _near(side: sp.Expr, expected: Any, numbers: dict[sp.Symbol, Any]) -> bool:
    value = sp.N(side.xreplace(numbers), DIGITS)
    return bool(abs(value - expected) <= sp.Float("1e-25") * abs(expected))


def _value(expression: sp.Expr, numbers: dict[sp.Symbol, Any]) -> Any:
    """The number at the working precision of mpmath.

    SymPy never meets the numbers: it would factor a root of 4*10^200 + 1, and give up.
    """
    expression = sp.sympify(expression)
    symbols = [symbol for symbol in numbers if expression.has(symbol)]
    values = [mpmath.mpmathify(sp.N(numbers[symbol], mpmath.mp.dps)) for symbol in symbols]
    return mpmath.mpf(sp.lambdify(symbols, expression, "mpmath")(*values))


def _product(factors: list[list[Any]]) -> list[Any]:
    """The coefficients of a product of polynomials."""
    result: list[Any] = [sp.Integer(1)]
    for factor in factors:
        grown = [sp.Integer(0)] * (len(result) + len(factor) - 1)
        for a, left in enumerate(result):
            for b, right in enumerate(factor):
                grown[a + b] += left * right
        result = grown
    return result


def _moved(count: int, matrices: int, weight: Any, rho: Any, size: float, aligned: bool) -> Any:
    """‖F_τ − F_0‖ of an explicit stack of branches, on a vector of norm 1.

    Aligned, every matrix grows along itself; else it moves towards another direction.
    """
    still = moved = mpmath.matrix([1, 0, 0])
    for layer in range(count):
        before, after = mpmath.eye(3), mpmath.eye(3)
        for matrix in range(matrices):
            own = mpmath.eye(3) if aligned else _reflection(3 * layer + matrix)
            towards = own if aligned else _reflection(5 * layer + 2 * matrix + 1)
            before, after = own * before, (own + size * rho * towards) * after
        still, moved = still + weight * (before * still), moved + weight * (after * moved)
    return mpmath.norm(moved - still)


def _reflection(number: int) -> Any:
    normal = mpmath.matrix([1, number % 3 - 1, (number % 5) / mpmath.mpf(2)])
    return mpmath.eye(3) - 2 * normal * normal.T / (normal.T * normal)[0]
