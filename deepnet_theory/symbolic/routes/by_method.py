"""The route that a method names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module

from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.routes.route import Route

# By name, since the moment route alone doubles what an import of the package costs.
_ROUTES = {
    "probe": ("deepnet_theory.symbolic.routes.probe", "probe_route"),
    "lemma": ("deepnet_theory.symbolic.routes.lemma.route", "lemma_route"),
    "moments": ("deepnet_theory.symbolic.routes.moments.route", "moment_route"),
}


def route_of(selection: Selection) -> Route:
    """The selection's route; no route knows a closure.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where the route has no law for it.
    """
    open_ = replace(selection, closure=None)
    return _route(open_, open_.named)


@cache
def _route(selection: Selection, _named: tuple[object, ...]) -> Route:
    module, name = _ROUTES[selection.method]
    route: Callable[[Selection], Route] = getattr(import_module(module), name)
    return route(selection)
