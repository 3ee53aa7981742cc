"""The sum over the layers of every part, as long as derive takes it from the route."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, alpha, beta, l, part_symbol
from deepnet_theory.symbolic.laws.optimizer import degrees
from deepnet_theory.symbolic.proof.checks import equal_at_sizes
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.lemma.route import lemma_route
from deepnet_theory.symbolic.routes.route import Route


def given_symbols(selection: Selection) -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    own = (
        symbol
        for part in selection.the_stack.parts
        for name in dict.fromkeys(s.name for s in part.layer)
        for symbol in _symbols(selection, part, name).values()
    )
    return tuple(dict.fromkeys((*lemma_route(selection).given, *own)))


def lemma_steps(selection: Selection) -> tuple[Step, ...]:
    """The route's steps, and ``increment-<part>``, the coefficient of η."""
    route = lemma_route(selection)
    steps = list(route.steps)
    parts = selection.the_stack.parts
    for part in reversed(parts):
        uniform = len({len(s.scaled) for s in part.layer}) == 1
        if not uniform:
            for name in dict.fromkeys(s.name for s in part.layer):
                steps.append(_increment(selection, route, part, f"share-{part.name}-{name}", name))
        if len(parts) == 1 or part is parts[1]:
            steps.append(_increment(selection, route, part, f"increment-{part.name}"))
            continue
        steps.append(_increment(selection, route, part, "increment-encoder-own"))
        decoder = parts[1]
        crossing = next(s for s in decoder.layer if s.reads_memory)
        weight = route.weights[crossing.name].value.xreplace(
            _symbols(selection, decoder, crossing.name)
        )
        count = decoder.crossings * DEPTHS[decoder.depth]
        power = 1 + degrees(selection.the_optimizer).p
        factor = {
            "published": count * weight,
            "worst-case": (count * weight) ** power,
            "independent": (sp.sqrt(count) * weight) ** power,
        }[selection.amplification]
        steps.append(_increment(selection, route, part, "increment-encoder", amplification=factor))
    return tuple(steps)


def _symbols(selection: Selection, part: Part, name: str) -> dict[sp.Symbol, sp.Symbol]:
    parts = len(selection.the_stack.parts)
    uniform = len({len(s.scaled) for s in part.layer}) == 1
    kind = "*" if uniform else name
    return {
        alpha: part_symbol("alpha", part.name, parts, "*" if selection.one_alpha else kind),
        beta: part_symbol("beta", part.name, parts, kind),
    }


def _increment(
    selection: Selection,
    route: Route,
    part: Part,
    name: str,
    only: str | None = None,
    amplification: sp.Expr = sp.S.One,
) -> Step:
    depth = DEPTHS[part.depth]
    layer = sp.Add(
        *(
            route.increments[s.name].per_eta.xreplace(_symbols(selection, part, s.name))
            for s in part.layer
            if only in (None, s.name)
        )
    )
    return Step(
        name=name,
        section="Update substituted",
        lhs=amplification * sp.Sum(layer, (l, 1, depth)),
        rhs=sp.powsimp(amplification * depth * layer),
        relation=Relation.EQUAL,
        because="the sublayers of all layers: the coefficient of η that the balance sets to 1",
        source="layer cake, §4.3",
        uses=(*route.sums, *(route.increments[s.name].name for s in part.layer)),
        assumptions=("equal-gains",),
        checks=(equal_at_sizes(depth),),
    )
