r"""One sublayer of a stack at a rule, at one depth: numbers that no law of sizes enters.

How a sublayer responds is measured on matrices (:mod:`~deepnet_theory.symbolic.proof.witness`), the
optimizer's update is evaluated on entries of the sizes at hand, sublayers and cross-attentions are
counted. Steps and the table's entries are held against these numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.sizes.laws import OF_NORMS
from deepnet_theory.sizes.update import law
from deepnet_theory.spec.expression import DEPTH, Number, evaluate, parts
from deepnet_theory.spec.placement import STREAM_GAIN, Placement
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.laws.optimizer import step_length
from deepnet_theory.symbolic.proof.witness import Mixed, Sizes, mixed, of_uses, sizes

Depth = dict[str, int]
Knobs = tuple[float, float]  # α and β
SAME = 1e-6  # two roads to one number


@dataclass(frozen=True)
class ExplicitStack:
    """The sublayers of a selection at the α, β, κ and η of a rule."""

    selection: Selection
    rule: Rule

    def part(self, name: str) -> Part:
        return next(part for part in self.selection.the_stack.parts if part.name == name)

    def at(self, part: str, sublayer: str, depth: Depth, free: Knobs | None = None) -> Place:
        """A sublayer; at ``free`` knobs instead of the rule's, η is 1 and nothing amplifies."""
        key = (part, sublayer, *depth.values(), free)
        if key not in self._places:
            own = self.part(part)
            one = next(s for s in own.layer if s.name == sublayer)
            self._places[key] = Place(self, own, one, depth, free)
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
        nodes = (n for p in self.selection.placements for n in parts(p.expression.root))
        return any(isinstance(node, Number) and abs(node.value) != 1 for node in nodes)


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

    @property
    def beta(self) -> float:
        return self.knobs[1]

    @cached_property
    def eta(self) -> float:
        """The learning rate's factor."""
        return 1.0 if self.free else evaluate(DEPTH.parse(self.stack.rule.eta), **self.depth)

    @property
    def placement(self) -> Placement:
        return self.stack.selection.placed(self.sublayer)

    @cached_property
    def sizes(self) -> Sizes:
        return sizes(self.placement, self.sublayer)

    @cached_property
    def weight(self) -> float:
        """r."""
        return self.sizes.weight.at(*self.knobs)

    @cached_property
    def experts(self) -> Mixed:
        return mixed(self.sublayer)

    @cached_property
    def aligned(self) -> float:
        """S·r, the sublayers of a layer listed."""
        return float(sum(self.part.shares)) * self.depth[self.part.depth] * self.weight

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
        powers = of_uses(self.placement, self.sublayer)
        return float(self.uses ** powers[parameter])

    @cached_property
    def rho(self) -> float:
        """ρ: an update of a scaled matrix over the matrix."""
        moved = self.moved_by(self.sublayer.scaled[0].name, Role.SCALED)
        assert moved is not None
        return moved.update / moved.size

    def order(self, k: int) -> float:
        """What one update of ``k`` of a branch's matrices at once adds to the output."""
        together = self.amplified[0] * self.aligned / self.experts.size * self.experts.together
        return together * math.comb(len(self.sublayer.scaled), k) * self.rho**k

    @cached_property
    def amplified(self) -> tuple[float, float, float]:
        """What a later part multiplies a change of the output, the update and the gradient with."""
        if self.free or self.part is self.stack.selection.the_stack.parts[-1]:
            return 1.0, 1.0, 1.0
        size, p = self._passage(self.depth), float(law(self.stack.selection.the_optimizer).p)
        if self.stack.selection.amplification == "published":
            shallow, deep = (self._passage({**self.depth, "M": n}) for n in (10**3, 10**6))
            return (size if deep > shallow * (1 + SAME) else 1.0), 1.0, 1.0
        return size, size**p, size

    def _passage(self, depth: Depth) -> float:
        """A: the cross-attentions of the later part, one after the other."""
        later = self.stack.selection.the_stack.parts[-1]
        reading = [sublayer.name for sublayer in later.layer if sublayer.reads_memory]
        many = float(later.crossings) * depth[later.depth]
        independent = self.stack.selection.amplification == "independent"
        one = self.stack.at(later.name, reading[0], depth).weight
        return one * (math.sqrt(many) if independent else many)

    def size_of(self, parameter: str, role: Role | None) -> float:
        """What a parameter starts at."""
        placement = self.placement
        if role is Role.SCALED:
            return self.beta
        starts = zip(placement.learnt, placement.starts(self.knobs[0]), strict=True)
        return dict(starts).get(parameter, 1.0)

    def response(self, parameter: str) -> float | None:
        """What the output answers to a parameter; None where it does not."""
        powers = self.sizes.responses[parameter]
        if powers is None:
            return None
        response = powers.at(*self.knobs) * self.of_uses(parameter)
        placement = self.placement
        if parameter == STREAM_GAIN and placement.final_norm and not placement.per_channel:
            # one number multiplies a stream that the last norm alone divides: each of the
            # sublayers behind adds as much, the uses of one layer alike, others at random
            many = sum(self.part.shares) * self.depth[self.part.depth] / self.uses
            response *= math.sqrt(many) * self.of_uses()
        return response

    def moved_by(self, parameter: str, role: Role | None = None) -> Moved | None:
        """What an update through a parameter does; None where the output does not respond."""
        if (response := self.response(parameter)) is None:
            return None
        scaled = role is Role.SCALED  # nothing else has a rate that is not 1
        size = self.size_of(parameter, role)
        kappa = self.entry.rate_at(**self.depth) if scaled and not self.free else 1.0
        forward, backward, upstream = self.amplified
        inside = parameter in {p.name for p in self.sublayer.parameters}
        reached = response * (self.experts.reached if inside else 1.0)
        stepped = step_length(self.stack.selection.the_optimizer, reached, size)
        update = self.eta * kappa * float(stepped) * backward
        # such parameters, listed: a norm on the sum stands behind all its branches, once
        once = parameter in OF_NORMS and self.placement.normalises_sum
        own = zip(self.part.shares, self.part.parallel, strict=True)
        many = float(sum(share for share, joins in own if not (once and joins))) / self.uses
        share = many * self.depth[self.part.depth] * forward * response * update
        return Moved(size, kappa, reached * upstream, update, share)
