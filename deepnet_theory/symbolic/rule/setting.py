"""A selection with the laws and the route that every part's balance shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.laws.descent import refuse_unless_descent
from deepnet_theory.symbolic.laws.optimizer import Degrees, degrees
from deepnet_theory.symbolic.laws.parameters import require_one_gain
from deepnet_theory.symbolic.laws.placement import PlacementLaw, placement_law
from deepnet_theory.symbolic.routes.by_method import route_of
from deepnet_theory.symbolic.routes.route import Route
from deepnet_theory.symbolic.rule.closures import default_closure


@dataclass(frozen=True)
class Setting:
    """What is talked about, and the laws that hold of it."""

    selection: Selection

    @cached_property
    def degrees(self) -> Degrees:
        """p and q of the optimizer; refused where the update does not go down the gradient."""
        found = degrees(self.selection.the_optimizer)
        refuse_unless_descent(self.selection, found)
        return found

    @cached_property
    def law(self) -> PlacementLaw:
        """The placement's law."""
        return placement_law(self.selection.the_placement)

    @property
    def placed(self) -> str:
        """The placement and its equation, in words."""
        placement = self.selection.the_placement
        return f"of the placement {placement.name!r}, {placement.equation}"

    @cached_property
    def closure(self) -> Closure:
        """The closure asked for, or the default."""
        return self.selection.the_closure or default_closure(
            self.selection.method, self.degrees, self.law
        )

    @cached_property
    def route(self) -> Route:
        """The steps of the method, up to the increments of single sublayers."""
        for sublayer in self.selection.the_stack.sublayers:
            require_one_gain(sublayer)
        return route_of(self.selection)
