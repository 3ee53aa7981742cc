"""The explicit sublayers of a stack at a rule, at one depth.

No law of sizes enters. The responses of a sublayer are measured on matrices
(:mod:`~deepnet_theory.proof.witness`), the optimizer's update is evaluated at given norms
(:mod:`~deepnet_theory.proof.explicit`), sublayers and cross-attentions are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.definitions.expression import DEPTH, Number, evaluate, parts
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.rule import Rule, RuleEntry
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.proof.explicit import SAME, step_length
from deepnet_theory.proof.witness import Sizes, mixed, sizes
from deepnet_theory.sizes.laws import factors
from deepnet_theory.sizes.monomial import Monomial

Depth = dict[str, int]


@dataclass(frozen=True)
class ExplicitStack:
    """The sublayers of a selection at the α, β, κ and η of a rule."""

    selection: Selection
    rule: Rule

    def part(self, name: str) -> Part:
        return next(part for part in self.selection.the_stack.parts if part.name == name)

    def at(self, part: str, sublayer: str, depth: Depth) -> Place:
        """One sublayer at a depth."""
        key = (part, sublayer, *depth.values())
        if key not in self._places:
            whole = self.part(part)
            one = next(s for s in whole.layer if s.name == sublayer)
            self._places[key] = Place(self, whole, one, depth)
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


@dataclass(frozen=True)
class Moved:
    """The sizes of one update through one parameter, per η."""

    size: float
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

    @cached_property
    def entry(self) -> RuleEntry:
        return self.stack.rule.entry(self.part.name, self.sublayer.name)

    @cached_property
    def knobs(self) -> tuple[float, float]:
        """α and β."""
        return self.entry.at(**self.depth)

    @cached_property
    def eta(self) -> float:
        """The learning rate's factor."""
        return evaluate(DEPTH.parse(self.stack.rule.eta), **self.depth)

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

    def at_knobs(self, size: Monomial) -> float:
        """A measured size at the sublayer's own α and β."""
        alpha, beta = self.knobs
        return size.at(alpha=alpha, beta=beta)

    @cached_property
    def weight(self) -> float:
        """r."""
        return self.at_knobs(self.sizes.weight)

    def variance(self, place: str) -> float:
        """The mean square of the argument of the norm at a place."""
        return self.at_knobs(self.sizes.variances[place])

    def kappa(self, role: Role) -> float:
        """The learning-rate multiplier of a parameter; of all but scaled matrices it is 1."""
        return self.entry.rate_at(**self.depth) if role is Role.SCALED else 1.0

    @property
    def layers(self) -> int:
        return self.depth[self.part.depth]

    @cached_property
    def aligned(self) -> float:
        """S·r, the sublayers of a layer listed."""
        return len(self.part.layer) * self.layers * self.weight

    @cached_property
    def rho(self) -> float:
        """ρ: an update of a scaled matrix over the matrix."""
        moved = self.moved_by(self.sublayer.scaled[0].name, Role.SCALED)
        assert moved is not None
        return moved.update / moved.size

    def order(self, k: int) -> float:
        """The change of the output by one update of ``k`` of a branch's matrices at once."""
        of_experts = mixed(self.sublayer)
        together = self.amplified * self.aligned / of_experts.size * of_experts.together
        return together * math.comb(self.degree, k) * self.rho**k

    @cached_property
    def amplified(self) -> float:
        """The factor of a change of the output behind a later part: A once, where it grows."""
        if self.part is self.stack.selection.the_stack.parts[-1]:
            return 1.0
        size, shallow, deep = (
            self._passage(depth)
            for depth in (self.depth, {**self.depth, "M": 10**3}, {**self.depth, "M": 10**6})
        )
        return size if deep > shallow * (1 + SAME) else 1.0

    def _passage(self, depth: Depth) -> float:
        """A: the cross-attentions of the later part, one after the other."""
        later = self.stack.selection.the_stack.parts[-1]
        reading = next(sublayer.name for sublayer in later.layer if sublayer.reads_memory)
        one = self.stack.at(later.name, reading, depth).weight
        return one * later.crossings * depth[later.depth]

    def starts_at(self, parameter: str, role: Role) -> float:
        """The size of a parameter at the start: 0 of a bias, 1 of a gain."""
        if role is Role.SCALED:
            return self.knobs[1]
        starts = self.placement.starts(self.knobs[0])
        learnt = dict(zip(self.placement.learnt, starts, strict=True))
        return learnt.get(parameter, float(role in MATRICES or role is Role.NORM_GAIN))

    def response(self, parameter: str) -> float | None:
        """The response of the output to a parameter; None where it is 0."""
        powers = self.sizes.responses[parameter]
        return None if powers is None else self.at_knobs(powers)

    def moved_by(self, parameter: str, role: Role) -> Moved | None:
        """The sizes of an update through a parameter; None where the output does not respond."""
        if (response := self.response(parameter)) is None:
            return None
        inside = parameter in {p.name for p in self.sublayer.parameters}
        size = self.starts_at(parameter, role) or 1.0  # a library takes the ratio of 0 as 1
        reached = response * (mixed(self.sublayer).reached if inside else 1.0)
        stepped = step_length(self.stack.selection.the_optimizer, reached, size)
        update = self.eta * self.kappa(role) * stepped
        # such parameters, listed: a norm on the sum stands behind all its branches, once
        of_norm = not inside and parameter not in self.placement.learnt
        once = of_norm and self.placement.normalises_sum
        many = sum(not (once and joins) for joins in self.part.parallel)
        share = many * self.layers * self.amplified * response * update
        return Moved(size, reached, update, share)
