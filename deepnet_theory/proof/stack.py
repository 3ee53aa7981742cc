"""The explicit sublayers of a selection at printed constants, at several depths at once.

No law of sizes enters. The responses of a sublayer are measured on matrices
(:mod:`~deepnet_theory.proof.witness`), the optimizer's update is evaluated at given norms
(:mod:`~deepnet_theory.proof.explicit`), sublayers and cross-attentions are counted. Every size is
an array over :data:`DEPTHS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from deepnet_theory.definitions.expression import DEPTH, evaluate
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.proof.explicit import Practised
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
class Parameter:
    """The sizes of one update through one parameter; 0 where the output never responds.

    It ``starts`` at 0 where it is a bias, at 1 where it is a gain. ``share`` is the output change
    by updates of all such parameters, listed.
    """

    place: ExplicitSublayer
    name: str
    role: Role
    moves: bool
    starts: Array
    kappa: Array
    step: Practised
    update: Array
    share: Array


@dataclass(frozen=True, eq=False)
class ExplicitSublayer:
    """A sublayer at its α, β, κ and η, with its measured sizes.

    ``amplified`` is the factor of a change of the output behind a later part: the cross-attentions
    of that part, one after the other, where they grow.
    """

    selection: Selection
    part: Part
    sublayer: Sublayer
    sizes: Sizes
    alpha: Array
    beta: Array
    kappa: Array
    eta: Array
    amplified: Array | float

    def at_knobs(self, size: Monomial | None) -> Array:
        """A measured size at the sublayer's own α and β; zeros for none."""
        pairs = zip(self.alpha, self.beta, strict=True)
        return np.array([0.0 if size is None else size.at(alpha=a, beta=b) for a, b in pairs])

    @cached_property
    def weight(self) -> Array:
        """r."""
        return self.at_knobs(self.sizes.weight)

    @cached_property
    def aligned(self) -> Array:
        """S·r, the sublayers of a layer listed."""
        return len(self.part.layer) * np.array(DEPTHS[self.part.depth]) * self.weight

    @cached_property
    def scaled(self) -> Parameter:
        """The first scaled matrix, which stands for all of them."""
        return self.parameter(self.sublayer.scaled[0].name, Role.SCALED)

    @cached_property
    def rho(self) -> Array:
        """ρ: an update of a scaled matrix over the matrix."""
        return self.scaled.update / self.beta

    @cached_property
    def orders(self) -> list[Array]:
        """The change of the output by one update of k of a branch's matrices at once, from k = 1.

        A matrix that is there twice counts twice.
        """
        of_experts, degree = mixed(self.sublayer), len(factors(self.sublayer))
        together = self.amplified * self.aligned / of_experts.size * of_experts.together
        return [together * math.comb(degree, k) * self.rho**k for k in range(1, degree + 1)]

    def parameter(self, name: str, role: Role) -> Parameter:
        """One update through a parameter of the branch or of its placement."""
        placement, response = self.selection.the_placement, self.sizes.responses[name]
        inside = name in {p.name for p in self.sublayer.parameters}
        starts = np.full(len(self.alpha), float(role in MATRICES or role is Role.NORM_GAIN))
        if role is Role.SCALED:
            starts = self.beta
        size = self.at_knobs(response)
        gradient = size * (mixed(self.sublayer).reached if inside else 1.0)
        # a library takes the ratio of 0 as 1
        step = Practised(self.selection.the_optimizer, gradient, np.where(starts, starts, 1.0))
        kappa = self.kappa if role is Role.SCALED else np.ones_like(self.kappa)
        # what never moves has no step, also under an update that divides by the gradient
        update = self.eta * kappa * (size if response is None else step.length)
        # a norm on the sum follows all its branches, once
        once = placement.normalises_sum and not inside
        many = sum(not (once and joins) for joins in self.part.parallel)
        share = many * np.array(DEPTHS[self.part.depth]) * self.amplified * size * update
        return Parameter(self, name, role, response is not None, starts, kappa, step, update, share)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the sublayer and its placement hold, as the witness has them."""
        placement = self.selection.the_placement
        held = [(p.name, p.role) for p in self.sublayer.parameters]
        if "norm" in placement.expression.functions:
            held.append(("norm_gain", Role.NORM_GAIN))
            held += [("norm_bias", Role.NORM_BIAS)] * self.selection.the_norm.bias
        return tuple(self.parameter(*one) for one in held)


Places = dict[tuple[str, str], ExplicitSublayer]


def places(selection: Selection, entries: Sequence[Mapping[str, Any]], eta: str) -> Places:
    """The sublayers of a selection by part and name, at the α, β and κ of printed entries.

    They are measured once for equal ones. Raises :class:`InputError` where an entry is missing or
    a constant is not positive.
    """
    return _places(selection, json.dumps(entries), eta)


@lru_cache(maxsize=16)
def _places(selection: Selection, entries: str, eta: str) -> Places:
    found: Places = {}
    *_, last = parts = selection.the_stack.parts
    for part in reversed(parts):
        amplified: Array | float = 1.0
        if part is not last:
            reading = next(sublayer.name for sublayer in last.layer if sublayer.reads_memory)
            one = found[last.name, reading]
            passage = one.weight * last.crossings * np.array(DEPTHS[last.depth])
            amplified = passage if power(passage, last.depth) > CONSTANT else 1.0
        rows = {e["sublayer"]: e for e in json.loads(entries) if e["stack"] == part.name}
        for sublayer in part.layer:
            entry = rows.get(sublayer.name) or rows.get("*")
            if entry is None:
                raise InputError(f"no entry is of {sublayer.name!r} in the {part.name}")
            alpha, beta, kappa = (at_depths(entry[knob]) for knob in ("alpha", "beta", "rate"))
            if min(*alpha, *beta) <= 0:
                raise InputError("alpha and beta must be positive")
            knobs = alpha, beta, kappa, at_depths(eta)
            measured = sizes(selection.the_placement, sublayer)
            found[part.name, sublayer.name] = ExplicitSublayer(
                selection, part, sublayer, measured, *knobs, amplified
            )
    return found
