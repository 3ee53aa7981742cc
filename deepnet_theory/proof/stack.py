"""The explicit sublayers of a stack at a rule, at one depth.

No law of sizes enters. How a sublayer responds is measured on matrices
(:mod:`~deepnet_theory.proof.witness`), the optimizer's update is evaluated at given norms
(:mod:`~deepnet_theory.proof.explicit`), sublayers and cross-attentions are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

from deepnet_theory.definitions.expression import DEPTH, Number, evaluate, parts
from deepnet_theory.definitions.placement import STREAM_GAIN, Placement
from deepnet_theory.definitions.rule import Rule, RuleEntry
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.proof.explicit import SAME, step_length
from deepnet_theory.proof.witness import Mixed, Sizes, mixed, of_uses, sizes
from deepnet_theory.sizes.laws import factors
from deepnet_theory.sizes.monomial import Monomial

Depth = dict[str, int]
Knobs = tuple[float, float]  # α and β


@dataclass(frozen=True)
class ExplicitStack:
    """The sublayers of a selection at the α, β, κ and η of a rule.

    ``crossings`` says how the cross-attentions of a later part add up: once and all ``aligned``
    where that grows, as a rule counts them (``published``); or as they do in a step, forward and
    back through the gradient, ``aligned`` or ``independent``.
    """

    selection: Selection
    rule: Rule
    crossings: str = "published"

    def part(self, name: str) -> Part:
        return next(part for part in self.selection.the_stack.parts if part.name == name)

    def at(self, part: str, sublayer: str, depth: Depth, free: Knobs | None = None) -> Place:
        """A sublayer; at ``free`` knobs instead of the rule's, η is 1 and nothing amplifies."""
        key = (part, sublayer, *depth.values(), free)
        if key not in self._places:
            whole = self.part(part)
            one = next(s for s in whole.layer if s.name == sublayer)
            self._places[key] = Place(self, whole, one, depth, free)
        return self._places[key]

    @cached_property
    def _places(self) -> dict[tuple[object, ...], Place]:
        return {}

    @cached_property
    def numbered(self) -> bool:
        """Whether an equation of a placement holds numbers other than 1, which are not measured.

        The witness measures powers of α and β; ``norm(alpha*x + branch(x)/2)`` has constants
        beside them.
        """
        nodes = parts(self.selection.the_placement.expression.root)
        return any(isinstance(node, Number) and abs(node.value) != 1 for node in nodes)


def explicit_stack(selection: Selection, rule: Rule, crossings: str = "published") -> ExplicitStack:
    """The stack of a rule, which tables of the same rule are measured on: closures meet again."""
    return _stack(selection, rule, crossings, selection.named)


@lru_cache(maxsize=256)
def _stack(
    selection: Selection, rule: Rule, crossings: str, _named: tuple[object, ...]
) -> ExplicitStack:
    return ExplicitStack(selection, rule, crossings)


@dataclass(frozen=True)
class Moved:
    """What one update does through one parameter, per η."""

    size: float
    kappa: float
    gradient: float
    update: float
    share: float


@dataclass(frozen=True)
class Place:
    """The numbers of a sublayer at a depth, none of them from the table's laws."""

    stack: ExplicitStack
    part: Part
    sublayer: Sublayer
    depth: Depth
    free: Knobs | None = None

    @cached_property
    def entry(self) -> RuleEntry:
        return self.stack.rule.entry(self.part.name, self.sublayer.name)

    @cached_property
    def knobs(self) -> Knobs:
        return self.free or self.entry.at(**self.depth)

    @cached_property
    def eta(self) -> float:
        """The learning rate's factor."""
        return 1.0 if self.free else evaluate(DEPTH.parse(self.stack.rule.eta), **self.depth)

    @property
    def placement(self) -> Placement:
        return self.stack.selection.the_placement

    @cached_property
    def degree(self) -> int:
        """How many factors of the branch are scaled matrices; one may be there twice."""
        return len(factors(self.sublayer))

    @cached_property
    def sizes(self) -> Sizes:
        return sizes(self.placement, self.sublayer)

    @cached_property
    def weight(self) -> float:
        """r."""
        return self.at_knobs(self.sizes.weight)

    def at_knobs(self, size: Monomial) -> float:
        """A measured size at the sublayer's own α and β."""
        alpha, beta = self.knobs
        return size.at(alpha=alpha, beta=beta)

    @cached_property
    def experts(self) -> Mixed:
        return mixed(self.sublayer)

    def variance(self, place: str) -> float:
        """The mean square of what the norm at a place divides."""
        return self.at_knobs(self.sizes.variances[place])

    def kappa(self, role: Role | None) -> float:
        """The learning-rate multiplier of a parameter; of all but scaled matrices it is 1."""
        return self.entry.rate_at(**self.depth) if role is Role.SCALED and not self.free else 1.0

    @property
    def layers(self) -> int:
        return self.depth[self.part.depth]

    @cached_property
    def aligned(self) -> float:
        """S·r, the sublayers of a layer listed."""
        return len(self.part.layer) * self.layers * self.weight

    @cached_property
    def independent(self) -> float:
        """S·r², that of uses which add alike where a matrix has several."""
        return self.aligned / self.uses * self.weight * self.of_uses() ** 2

    @cached_property
    def uses(self) -> float:
        """How many sublayers use one matrix."""
        return evaluate(DEPTH.parse(self.part.uses), **self.depth)

    def of_uses(self, parameter: str = "") -> float:
        """What they are together beside one: the response to a parameter, or the branch's r."""
        if self.part.uses == "1":
            return 1.0
        return float(self.uses ** of_uses(self.placement, self.sublayer)[parameter])

    @cached_property
    def rho(self) -> float:
        """ρ: an update of a scaled matrix over the matrix."""
        moved = self.moved_by(self.sublayer.scaled[0].name, Role.SCALED)
        assert moved is not None
        return moved.update / moved.size

    def order(self, k: int) -> float:
        """What one update of ``k`` of a branch's matrices at once adds to the output."""
        together = self.amplified[0] * self.aligned / self.experts.size * self.experts.together
        return together * math.comb(self.degree, k) * self.rho**k

    @cached_property
    def amplified(self) -> tuple[float, float]:
        """What a later part multiplies a change of the output and the update with."""
        selection = self.stack.selection
        if self.free or self.part is selection.the_stack.parts[-1]:
            return 1.0, 1.0
        size = self._passage(self.depth)
        if self.stack.crossings == "published":
            shallow, deep = (self._passage({**self.depth, "M": n}) for n in (10**3, 10**6))
            return (size if deep > shallow * (1 + SAME) else 1.0), 1.0
        return size, step_length(selection.the_optimizer, size, 1.0)

    def _passage(self, depth: Depth) -> float:
        """A: the cross-attentions of the later part, one after the other."""
        later = self.stack.selection.the_stack.parts[-1]
        reading = next(sublayer.name for sublayer in later.layer if sublayer.reads_memory)
        many = float(later.crossings) * depth[later.depth]
        one = self.stack.at(later.name, reading, depth).weight
        return one * (math.sqrt(many) if self.stack.crossings == "independent" else many)

    def starts_at(self, parameter: str, role: Role | None) -> float:
        """What a parameter starts at: a bias at 0, a gain at 1."""
        if role is Role.SCALED:
            return self.knobs[1]
        starts = self.placement.starts(self.knobs[0])
        learnt = dict(zip(self.placement.learnt, starts, strict=True))
        return learnt.get(parameter, float(role in MATRICES or role is Role.NORM_GAIN))

    def response(self, parameter: str) -> float | None:
        """What the output answers to a parameter; None where it does not."""
        powers, placement = self.sizes.responses[parameter], self.placement
        if powers is None:
            return None
        response = self.at_knobs(powers) * self.of_uses(parameter)
        if parameter == STREAM_GAIN and placement.final_norm and not placement.per_channel:
            # one number multiplies a stream that the last norm alone divides: each of the
            # sublayers behind adds as much, the uses of one layer alike, others at random
            many = len(self.part.layer) * self.layers / self.uses
            response *= math.sqrt(many) * self.of_uses()
        return response

    def moved_by(self, parameter: str, role: Role | None = None) -> Moved | None:
        """What an update through a parameter does; None where the output does not respond."""
        if (parameter, role) not in self._moved:
            self._moved[parameter, role] = self._moved_by(parameter, role)
        return self._moved[parameter, role]

    @cached_property
    def _moved(self) -> dict[tuple[str, Role | None], Moved | None]:
        return {}

    def _moved_by(self, parameter: str, role: Role | None) -> Moved | None:
        if (response := self.response(parameter)) is None:
            return None
        kappa = self.kappa(role)
        forward, backward = self.amplified
        inside = parameter in {p.name for p in self.sublayer.parameters}
        size = self.starts_at(parameter, role) or 1.0  # a library takes the ratio of 0 as 1
        reached = response * (self.experts.reached if inside else 1.0)
        stepped = step_length(self.stack.selection.the_optimizer, reached, size)
        update = self.eta * kappa * stepped * backward
        # such parameters, listed: a norm on the sum stands behind all its branches, once
        of_norm = not inside and parameter not in self.placement.learnt
        once = of_norm and self.placement.normalises_sum
        many = sum(not (once and joins) for joins in self.part.parallel) / self.uses
        share = many * self.layers * forward * response * update
        return Moved(size, kappa, reached, update, share)
