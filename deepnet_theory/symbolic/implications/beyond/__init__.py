"""Beyond the first order: the steps from S, r and ρ to all orders, and to the rate that fails."""

from __future__ import annotations

from collections.abc import Iterator

from deepnet_theory.symbolic.implications.beyond.aligned_steps import (
    bound_of_aligned_steps,
    failing_rate,
)
from deepnet_theory.symbolic.implications.beyond.every_order import order_within, orders_across
from deepnet_theory.symbolic.implications.beyond.norm_epsilon import norm_epsilons
from deepnet_theory.symbolic.implications.beyond.of_kind import OfKind
from deepnet_theory.symbolic.implications.beyond.relative_update import (
    complete_knobs,
    increment_identity,
    relative_law,
    relative_update,
)
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.problem import Problem


def beyond_steps(problem: Problem, balanced: Balanced) -> Iterator[Step]:
    """ρ, the identity, every order, aligned steps, the failing rate, and the norms' epsilons."""
    for kind in balanced.kinds:
        of = OfKind(problem, balanced, kind)
        yield relative_update(of)
        yield increment_identity(of)
        yield relative_law(of)
        yield complete_knobs(of)
        for order in range(1, kind.matrices + 1):
            yield order_within(of, order)
        yield orders_across(of)
        yield bound_of_aligned_steps(of)
        yield failing_rate(of)
        yield from norm_epsilons(of)
