r"""Layers at constants of any origin under one update: what grows with the depth, as exponents.

The stream of an identity path is :math:`X_l^2 = X_0^2 + \sum_{k<l} b_k^2`, b the size of what a
branch adds, so that a change made at layer l arrives relative to :math:`X_l`. The output changes by

.. math:: \sum_l G_l^{1+p}\,|\theta|^q\,\kappa, \qquad G_l = \gamma_l / X_l,

γ the response of a sublayer's output to a parameter. The constants are texts in the depth and the
layer's index; the laws are the rule's.

Source: derived here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

from deepnet_theory.definitions.expression import INDEXED
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.rule import RuleEntry
from deepnet_theory.definitions.sublayer import MATRICES, STEPPED, Role
from deepnet_theory.sizes import table, update
from deepnet_theory.sizes.growth import (
    CONSTANT,
    LINEAR,
    ONE,
    ZERO,
    Leading,
    Power,
    expanded,
    size_of,
)
from deepnet_theory.sizes.laws import Law
from deepnet_theory.sizes.monomial import Monomial


def most(values: Iterable[Fraction | None]) -> Fraction | None:
    return max((v for v in values if v is not None), default=None)


@dataclass(frozen=True)
class Branch:
    """A sublayer at constants: the sizes of α and of its gains, None where one is 0, and rates."""

    law: Law
    alpha: str
    sizes: Mapping[str, Power | None]
    rates: Mapping[Role, Power]

    @classmethod
    def at(cls, law: Law, depth: str, entry: RuleEntry, rates: Mapping[Role, str]) -> Branch:
        """One at texts of its constants, in the depth and the layer's index."""
        texts = {m.name: entry.gain(m) for m in law.sublayer.matrices} | {"alpha": entry.alpha}
        sizes = {name: size_of(text, depth) for name, text in texts.items()}
        by_role = {role: positive(rates.get(role, "1"), depth) for role in Role}
        return cls(law, entry.alpha, sizes, by_role)


@dataclass(frozen=True)
class InLayers:
    """A parameter that has a gradient: G, the update's size, and its own, None where it is 0.

    ``layers`` is the exponent of how many layers there are.
    """

    branch: Branch
    name: str
    role: Role
    gradient: Power
    update: Power
    start: Power | None
    layers: Fraction

    @property
    def sublayer(self) -> str:
        return self.branch.law.sublayer.name

    @property
    def total(self) -> Fraction:
        """The exponent of the change of the output through it, summed over the layers."""
        return (self.gradient * self.update).total(self.layers)

    @property
    def relative(self) -> Fraction | None:
        """The exponent of its update over itself, None where it starts at 0."""
        return None if self.start is None else (self.update * self.start**-1).largest(self.layers)


@dataclass(frozen=True)
class Layers:
    """:math:`N^{count}` layers of a part, alike in their equation, judged at the part's own output.

    ``depth`` is what grows. ``fed`` is the stream that a branch without a norm is fed with, where
    that is not X. Raises :class:`Refusal` where the stream explodes or vanishes.
    """

    part: str
    depth: str
    branches: tuple[Branch, ...]
    law: update.Update
    where: Placement
    embedding: Power = CONSTANT
    count: Fraction = ONE
    fed: Power | None = None

    def __post_init__(self) -> None:
        _ = self.drift

    @cached_property
    def drift(self) -> Fraction:
        """The power of l in what the layers multiply the stream by."""
        return sum((drift(b.law, b.alpha, self.depth, self.where) for b in self.branches), ZERO)

    def size(self, branch: Branch, monomial: Monomial, stream: Power | None = None) -> Power | None:
        """The size of a law's monomial at the constants; None where a factor is 0."""
        total = CONSTANT
        for base, power in monomial.items:
            if base.isdigit():
                continue
            factor = (stream or CONSTANT) if base == "stream" else branch.sizes[base]
            if factor is None:
                return None
            total = total * factor**power
        return total

    @property
    def normalised(self) -> bool:
        return any(branch.law.normalised for branch in self.branches)

    @cached_property
    def stream(self) -> Power:
        """X at layer l."""
        if self.normalised:
            return CONSTANT
        # independent branches add in squares, and a growing stream divides all that comes later:
        # under pre-LN of gain 1 the l-th sublayer's share falls as 1/sqrt(l)
        shrunk = Power.of(index=self.drift)
        squared = self.embedding**2
        for branch in self.branches:
            added = self.size(branch, branch.law.added, self.embedding * shrunk)
            if added is not None:
                squared = squared + ((added * shrunk**-1) ** 2).summed()
        return squared ** Fraction(1, 2) * shrunk

    @property
    def grown(self) -> Fraction:
        """The exponent of the stream at the last layer, against its start."""
        return self.stream.at(self.count) - self.stream.at(ZERO)

    def weights(self, power: int, stream: Power | None = None) -> Fraction | None:
        """The exponent of the sum of r^power over the sublayers."""
        sizes = (self.size(b, b.law.weight, stream or self.stream) for b in self.branches)
        return most(None if size is None else (size**power).total(self.count) for size in sizes)

    @property
    def aligned(self) -> Fraction | None:
        """The exponent of S·r, None where no branch adds anything."""
        return self.weights(1)

    @property
    def independent(self) -> Fraction | None:
        """The exponent of S·r²."""
        return self.weights(2)

    @cached_property
    def moved(self) -> tuple[InLayers, ...]:
        """Every parameter that has a gradient."""
        steps = []
        normed = self.where.final_norm or self.where.normalises_sum
        end = CONSTANT if normed else Power.of(self.stream.at(self.count))
        for branch in self.branches:
            for name, role in table.parameters(branch.law):
                paths = branch.law.responses.get(name, ())
                sizes = [self.size(branch, path, self.fed or self.stream) for path in paths]
                if not (reached := [size for size in sizes if size is not None]):
                    continue
                gradient = reduce(operator.add, reached) * self.stream**-1 * end
                start = self._start(branch, name, role)
                change = self.law.stepped(gradient, start, branch.rates[role])
                steps.append(InLayers(branch, name, role, gradient, change, start, self.count))
        return tuple(steps)

    def _start(self, branch: Branch, name: str, role: Role) -> Power | None:
        """The size of a parameter at initialisation, None where it is 0."""
        if role in table.STARTS_AT_ZERO:
            return None
        if name in branch.law.starts:
            return self.size(branch, branch.law.starts[name])
        return branch.sizes[name] if role in MATRICES else CONSTANT

    def share(self, roles: frozenset[Role]) -> Fraction:
        """The exponent of the change through all parameters of some roles."""
        return max(m.total for m in self.moved if m.role in roles)

    @property
    def first(self) -> Fraction:
        """The exponent of the first order, through the matrices."""
        return self.share(STEPPED["matrices"])

    @property
    def growing(self) -> tuple[InLayers, ...]:
        """The parameters whose share of the change grows with depth."""
        return tuple(m for m in self.moved if m.total > 0)

    @property
    def relative(self) -> Fraction | None:
        """The exponent of ρ, the largest of the scaled matrices."""
        return most(m.relative for m in self.moved if m.role is Role.SCALED)

    def unstable(self) -> Iterator[str]:
        """One sentence where ρ grows and a branch has several matrices; nothing else."""
        several = any(len(branch.law.sublayer.scaled) > 1 for branch in self.branches)
        if several and (rho := self.relative) is not None and rho > 0:
            yield (
                f"the relative update rho of the {self.part}'s scaled matrices grows as "
                f"{self.depth}^({rho}): at one learning rate training becomes unstable as the "
                "stack grows deeper"
            )


def positive(text: str, depth: str, called: str = "") -> Power:
    """The size of a text that is not 0; a refusal begins with what it is ``called``."""
    try:
        if (size := size_of(text, depth)) is not None:
            return size
    except InputError as error:
        raise InputError(f"{called}{error}") from None
    raise InputError(f"{called}{text!r} is not positive in depth: {depth} grows")


def drift(branch: Law, alpha: str, depth: str, where: Placement) -> Fraction:
    """The exponent in l of the product of what a sublayer multiplies the stream by.

    S factors of 1 + c/l or closer to 1 have a power of l or a number as their product.
    """
    if branch.keeps_stream:
        return ZERO
    assert branch.multiplied is not None
    expression = INDEXED.parse(alpha)
    symbol = "l" if "l" in expression.names else depth
    scalar, excess = expanded(expression.root, symbol), Leading.number(-ONE)
    for powers, coefficient in branch.multiplied.terms:
        excess = excess + scalar ** powers[0] * Leading.number(coefficient)
    (powers, c), inverse = excess.leading, (-LINEAR[0], ZERO)
    if not c or powers < inverse:
        return ZERO
    if powers == inverse:
        return Fraction(c).limit_denominator(10**6) if symbol == "l" else ZERO
    raise Refusal(
        f"a sublayer of {where.name!r}, {where.equation}, multiplies the stream by a number at "
        f"alpha = {alpha} that no norm takes back: the stream "
        f"{'explodes' if c > 0 else 'vanishes'} with depth; the coefficient of x must be 1"
    )
