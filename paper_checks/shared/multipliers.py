"""‖ΔF‖/η of all parameters with the derived learning-rate multiplier of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from paper_checks.shared.engine import derive_selection
from paper_checks.shared.later import Array, np
from paper_checks.shared.stacks import Gradient, Net, own_updates

if TYPE_CHECKING:
    from paper_checks.shared.bench import Lab
    from paper_checks.shared.numeric import Settings


def everything(lab: Lab, **other: Any) -> Settings:
    """All parameters stepped, in float64: a step of η/(2N) of a gain of 1 is lost in rounding."""
    return lab.settings(step="all", dtype="float64", **other)


def scaled_updates(net: Net, at: Sequence[int], s: Settings, eta: float = 1e-5) -> Array:
    """One step in which a role's learning rate is η times its multiplier: (seeds, depths).

    Raises ``ValueError`` for single precision, in which so small a step of a gain of 1 is lost.
    """
    if s.dtype != "float64":
        raise ValueError(f"a multiplied step of a gain is lost in {s.dtype}; valid is: float64")
    derivation, expression = derive_selection(net.selection), net.selection.the_optimizer.expression

    def updates(depth: int) -> Array:
        rates: dict[str, float] = {}  # of each role, the least of its kinds of parameter
        for kind in derivation.parameters:
            rate = kind.at(**net.depth(depth)).rate
            rates[kind.role.value] = min(rate, rates.get(kind.role.value, rate))

        def step(one: Gradient) -> None:
            rate = eta * rates.get(one.description.role.value, 1.0)
            one.theta.add_(one.update(expression, rate))

        return own_updates(net, (depth,), s, eta, step)

    return np.concatenate([updates(depth) for depth in at], axis=1)
