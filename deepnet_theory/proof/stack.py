"""The explicit sublayers of a stack at a printed rule, at several depths at once.

No law of sizes enters. The responses of a sublayer are measured on matrices
(:mod:`~deepnet_theory.proof.witness`), the optimizer's update is evaluated at given norms
(:mod:`~deepnet_theory.proof.explicit`), sublayers and cross-attentions are counted. Every size is
an array over :data:`DEPTHS`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from deepnet_theory.definitions.expression import DEPTH, Number, evaluate, parts
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.proof.explicit import step_length
from deepnet_theory.proof.witness import Array, Sizes, mixed, sizes
from deepnet_theory.sizes.laws import factors
from deepnet_theory.sizes.monomial import Monomial

FAR = (10**3, 10**12)  # a power of a depth is what lies between, the other depth held
DEPTHS = {"N": (6, 10**4, 10**8, *FAR, 6, 6), "M": (4, 700, 10**6, 4, 4, *FAR)}
ENDS = {"N": slice(3, 5), "M": slice(5, 7)}
CONSTANT = 1e-3  # a power of a size that is none


@cache
def at_depths(text: str) -> Array:
    """A printed formula in N and M at every depth; raises :class:`InputError` where it is none."""
    formula, columns = DEPTH.parse(text), zip(*DEPTHS.values(), strict=True)
    return np.array([evaluate(formula, **dict(zip(DEPTHS, at, strict=True))) for at in columns])


def power(size: Array, depth: str) -> float:
    """The exponent of a size in one depth."""
    shallow, deep = size[ENDS[depth]]
    return math.log(deep / shallow) / math.log(FAR[1] / FAR[0])


@dataclass(frozen=True, eq=False)
class ExplicitStack:
    """The sublayers of a selection at the α, β, κ and η of printed entries."""

    selection: Selection
    entries: Sequence[Mapping[str, Any]]
    eta: str
    _places: dict[tuple[str, str], Place] = field(default_factory=dict)

    def part(self, name: str) -> Part:
        return next(part for part in self.selection.the_stack.parts if part.name == name)

    def at(self, part: str, name: str) -> Place:
        """One sublayer."""
        if (part, name) not in self._places:
            rows = {e["sublayer"]: e for e in self.entries if e["stack"] == part}
            entry, whole = rows.get(name) or rows.get("*"), self.part(part)
            if entry is None:
                raise InputError(f"no entry is of {name!r} in the {part}")
            sublayer = next(s for s in whole.layer if s.name == name)
            self._places[part, name] = Place(self, whole, sublayer, entry)
        return self._places[part, name]

    @cached_property
    def numbered(self) -> bool:
        """Whether an equation of a placement holds numbers other than 1, which are not measured.

        The witness measures powers of α and β; ``norm(alpha*x + branch(x)/2)`` has constants
        beside them.
        """
        nodes = parts(self.selection.the_placement.expression.root)
        return any(isinstance(node, Number) and abs(node.value) != 1 for node in nodes)


@dataclass(frozen=True, eq=False)
class Place:
    """The sizes of a sublayer, none of them from the table's laws."""

    stack: ExplicitStack
    part: Part
    sublayer: Sublayer
    entry: Mapping[str, Any]

    @cached_property
    def knobs(self) -> tuple[Array, Array]:
        """α and β."""
        alpha, beta = at_depths(self.entry["alpha"]), at_depths(self.entry["beta"])
        if min(*alpha, *beta) <= 0:
            raise InputError("alpha and beta must be positive")
        return alpha, beta

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

    def at_knobs(self, size: Monomial) -> Array:
        """A measured size at the sublayer's own α and β."""
        pairs = zip(*self.knobs, strict=True)
        return np.array([size.at(alpha=alpha, beta=beta) for alpha, beta in pairs])

    @cached_property
    def weight(self) -> Array:
        """r."""
        return self.at_knobs(self.sizes.weight)

    @property
    def layers(self) -> Array:
        return np.array(DEPTHS[self.part.depth])

    @cached_property
    def aligned(self) -> Array:
        """S·r, the sublayers of a layer listed."""
        return len(self.part.layer) * self.layers * self.weight

    @cached_property
    def scaled(self) -> Parameter:
        """The first scaled matrix, which stands for all of them."""
        return Parameter(self, self.sublayer.scaled[0].name, Role.SCALED)

    @cached_property
    def rho(self) -> Array:
        """ρ: an update of a scaled matrix over the matrix."""
        return self.scaled.update / self.scaled.size

    def order(self, k: int) -> Array:
        """The change of the output by one update of ``k`` of a branch's matrices at once."""
        of_experts = mixed(self.sublayer)
        together = self.amplified * self.aligned / of_experts.size * of_experts.together
        return np.asarray(together * math.comb(self.degree, k) * self.rho**k)

    @cached_property
    def orders(self) -> list[Array]:
        return [self.order(k) for k in range(1, self.degree + 1)]

    @cached_property
    def amplified(self) -> Array | float:
        """The factor of a change of the output behind a later part: A once, where it grows.

        A: the cross-attentions of the later part, one after the other.
        """
        later = self.stack.selection.the_stack.parts[-1]
        if self.part is later:
            return 1.0
        reading = next(sublayer.name for sublayer in later.layer if sublayer.reads_memory)
        one = self.stack.at(later.name, reading)
        passage = one.weight * later.crossings * one.layers
        return passage if power(passage, later.depth) > CONSTANT else 1.0


@dataclass(frozen=True, eq=False)
class Parameter:
    """The sizes of one update through one parameter, per η; 0 where the output never responds."""

    place: Place
    name: str
    role: Role

    @cached_property
    def starts(self) -> Array:
        """Its size at the start: 0 of a bias, 1 of a gain."""
        alpha, beta = self.place.knobs
        placement, constant = self.place.placement, self.role in MATRICES
        if self.role is Role.SCALED:
            return beta
        if self.name in placement.learnt:
            return np.array([placement.starts(a)[placement.learnt.index(self.name)] for a in alpha])
        return np.full(len(alpha), float(constant or self.role is Role.NORM_GAIN))

    @property
    def size(self) -> Array:
        """What an update takes its size for: a library takes the ratio of 0 as 1."""
        return np.where(self.starts == 0, 1.0, self.starts)

    @cached_property
    def inside(self) -> bool:
        """Whether it is the branch's own, not its placement's."""
        return self.name in {p.name for p in self.place.sublayer.parameters}

    @property
    def moves(self) -> bool:
        return self.place.sizes.responses[self.name] is not None

    @cached_property
    def response(self) -> Array:
        """The response of the output."""
        powers = self.place.sizes.responses[self.name]
        return np.zeros(len(self.place.layers)) if powers is None else self.place.at_knobs(powers)

    @property
    def gradient(self) -> Array:
        return self.response * (mixed(self.place.sublayer).reached if self.inside else 1.0)

    @cached_property
    def kappa(self) -> Array:
        """The learning-rate multiplier; of all but scaled matrices it is 1."""
        return at_depths(self.place.entry["rate"] if self.role is Role.SCALED else "1")

    @cached_property
    def update(self) -> Array:
        stack = self.place.stack
        stepped = step_length(stack.selection.the_optimizer, self.gradient, self.size)
        return at_depths(stack.eta) * self.kappa * stepped

    @cached_property
    def share(self) -> Array:
        """How far updates of all such parameters, listed, move the output."""
        place = self.place
        # a norm on the sum stands behind all its branches, once
        of_norm = not self.inside and self.name not in place.placement.learnt
        once = of_norm and place.placement.normalises_sum
        many = sum(not (once and joins) for joins in place.part.parallel)
        return many * place.layers * place.amplified * self.response * self.update
