"""A selection with the laws and the route that every part's balance shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.sizes.rule import Rule, solve_rule
from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.laws.optimizer import Degrees, degrees
from deepnet_theory.symbolic.laws.placement import PlacementLaw, placement_law
from deepnet_theory.symbolic.routes.by_method import route_of
from deepnet_theory.symbolic.routes.route import Route


@dataclass(frozen=True)
class Setting:
    """What is talked about, and the laws that hold of it.

    ``sized`` is the rule by the algebra of sizes: it refuses where there is none, and says which
    closures' conditions pick it. What the rule is, the steps find by themselves.
    """

    selection: Selection

    @cached_property
    def sized(self) -> Rule:
        """The rule by sizes; raises :class:`Refusal` where there is none."""
        return solve_rule(self.selection)

    @cached_property
    def degrees(self) -> Degrees:
        """p and q of the optimizer."""
        return degrees(self.selection.the_optimizer)

    @cached_property
    def law(self) -> PlacementLaw:
        """The placement's law."""
        return placement_law(self.selection.the_placement)

    @property
    def closure(self) -> Closure:
        """The closure asked for, or the default."""
        return self.sized.closure

    @cached_property
    def route(self) -> Route:
        """The steps of the method, up to the increments of single sublayers."""
        return route_of(self.selection)
