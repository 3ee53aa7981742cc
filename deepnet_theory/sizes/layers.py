r"""Layers at constants of any origin under one update: what grows with the depth, as exponents.

The stream of an identity path is :math:`X_l^2 = X_0^2 + \sum_{k<l} b_k^2`, b the size of what a
branch adds, so that a change made at layer l arrives relative to :math:`X_l`. The output changes by

.. math:: \sum_l G_l^{1+p}\,|\theta|^q\,\kappa, \qquad G_l = \gamma_l / X_l,

γ the response of a sublayer's output to a parameter. The constants are texts in the depth and the
layer's index; the laws are the rule's.

At layer :math:`l = N^t` every size is a power of N whose exponent is linear in t between the nodes,
where another term of the stream's sum takes the lead. A sum over layers is the largest term:

.. math:: \sum_{k \le N^t} N^{e(k)} \sim N^{\max_{s \le t} (e(s) + s)}.

A node has the largest term, since a parameter with several paths has a convex exponent at p ≥ −1.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

from deepnet_theory.definitions.expression import INDEXED
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.rule import RuleEntry
from deepnet_theory.definitions.sublayer import STEPPED, Role
from deepnet_theory.sizes import table, update
from deepnet_theory.sizes.growth import FLAT, expanded, size_of
from deepnet_theory.sizes.laws import Law, initial
from deepnet_theory.sizes.monomial import ONE, Monomial

ZERO = Fraction(0)


def most(values: Iterable[Fraction | None]) -> Fraction | None:
    return max((v for v in values if v is not None), default=None)


@dataclass(frozen=True)
class SublayerSizes:
    """A sublayer at constants: its α, the sizes of α and of its gains that are not 0, its rates."""

    law: Law
    alpha: str
    sizes: Mapping[str, Monomial]
    rates: Mapping[Role, Monomial]

    @classmethod
    def at(cls, law: Law, depth: str, entry: RuleEntry, rates: Mapping[Role, str]) -> SublayerSizes:
        """The sizes at texts of the constants, in the depth and the layer's index."""
        texts = {m.name: entry.gain(m) for m in law.sublayer.matrices} | {"alpha": entry.alpha}
        sizes = ((name, size_of(text, depth)) for name, text in texts.items())
        by_role = {role: positive(rates.get(role, "1"), depth) for role in Role}
        return cls(law, entry.alpha, {name: s for name, s in sizes if s is not None}, by_role)


@dataclass(frozen=True)
class OutputChange:
    """The change of the output through a parameter, summed over the layers, as an exponent.

    ``relative`` is the exponent of the parameter's update over its size, None where a gain is 0.
    """

    sublayer: str
    name: str
    role: Role
    total: Fraction
    relative: Fraction | None


@dataclass(frozen=True)
class Layers:
    """:math:`N^{count}` layers of a part, alike in their equation, judged at the part's own output.

    ``depth`` is what grows. Raises :class:`Refusal` where the stream explodes or vanishes.
    """

    part: str
    depth: str
    branches: tuple[SublayerSizes, ...]
    law: update.Update
    where: Placement
    embedding: Monomial = ONE
    count: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        felt = any(branch.law.added.exponent("stream") for branch in self.branches)
        # of branches of the size of what they add to, S·r² is X² over that
        grown = 2 * (self.nodes[-1][1] - self.drift * self.count - self.start)
        if felt and grown > 0:
            raise Refusal(
                f"the stream of {self.where.name!r} explodes: its equation "
                f"{self.where.equation!r} has no norm, and S*r^2 grows as {self.depth}^({grown})"
            )

    @cached_property
    def drift(self) -> Fraction:
        """The power of l in what the layers multiply the stream by."""
        return sum((drift(b, self.depth, self.where) for b in self.branches), ZERO)

    @property
    def normalised(self) -> bool:
        return any(branch.law.normalised for branch in self.branches)

    @property
    def start(self) -> Fraction:
        """The exponent of the stream that enters, of size 1 where every layer has a norm."""
        return ZERO if self.normalised else self.embedding.exponent(self.depth)

    def _power(self, exponent: Fraction) -> Monomial:
        return Monomial.of(self.depth) ** exponent

    def _gains(self, branch: SublayerSizes, t: Fraction, stream: Fraction) -> dict[str, Monomial]:
        """α and the gains at layer :math:`N^t`, and a stream of size :math:`N^{stream}`."""
        at = {name: s.put({"l": self._power(t)}) for name, s in branch.sizes.items()}
        return at | {"stream": self._power(stream)}

    @cached_property
    def nodes(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """Pairs (t, x): at layer :math:`N^t` the stream X is :math:`N^x`."""
        shrunk = Monomial.of("l") ** self.drift
        alone = self._power(self.start) * shrunk
        # X², but for what shrinks it, as terms N^a l^b. Independent branches add in squares, and a
        # growing stream divides all that comes later: under pre-LN of gain 1 the l-th sublayer's
        # share falls as 1/sqrt(l)
        terms = {(2 * self.start, ZERO)}
        for branch in () if self.normalised else self.branches:
            size = branch.law.at(branch.law.added, {**branch.sizes, "stream": alone})
            if size is not None:
                a, b = (2 * (size / shrunk).exponent(symbol) for symbol in (self.depth, "l"))
                terms |= {(a, ZERO), (a, b + 1)}
        crossed = {(a - c) / (d - b) for (a, b), (c, d) in combinations(terms, 2) if b != d}
        places = {ZERO, self.count, *(t for t in crossed if 0 < t < self.count)}
        return tuple(
            (t, max(a + b * t for a, b in terms) / 2 + self.drift * t) for t in sorted(places)
        )

    @property
    def grown(self) -> Fraction:
        """The exponent of the stream at the last layer, against its start."""
        return self.nodes[-1][1] - self.nodes[0][1]

    def weight(self, branch: SublayerSizes) -> Iterator[tuple[Fraction, Fraction]]:
        """Pairs (t, r): the branch weight at layer N^t is N^r, none where a factor is 0."""
        for t, x in self.nodes:
            weight = branch.law.at(branch.law.weight, self._gains(branch, t, x))
            if weight is not None:
                yield t, weight.exponent(self.depth)

    def weights(self, power: int) -> Fraction | None:
        """The exponent of the sum of r^power, None where no branch adds anything."""
        return most(t + power * r for branch in self.branches for t, r in self.weight(branch))

    @property
    def aligned(self) -> Fraction | None:
        """The exponent of S·r, None where no branch adds anything."""
        return self.weights(1)

    @property
    def independent(self) -> Fraction | None:
        """The exponent of S·r²."""
        return self.weights(2)

    @cached_property
    def moved(self) -> tuple[OutputChange, ...]:
        """Every parameter that has a gradient."""
        found = list[OutputChange | None]()
        for branch in self.branches:
            # the branches' sum left out: scores that grow with the stream saturate a softmax, and
            # a norm behind forgets them
            fed = [self._gains(branch, t, self.start + self.drift * t) for t, _ in self.nodes]
            found += (self._change(branch, fed, *known) for known in table.parameters(branch.law))
        return tuple(change for change in found if change is not None)

    def _change(
        self, branch: SublayerSizes, fed: list[dict[str, Monomial]], name: str, role: Role
    ) -> OutputChange | None:
        normed, totals, relative = self.where.final_norm or self.where.normalises_sum, [], []
        for (t, x), gains in zip(self.nodes, fed, strict=True):
            response = branch.law.response(name, gains, self.depth)
            if response is None:
                return None
            gradient = response * self._power((0 if normed else self.nodes[-1][1]) - x)
            start = initial(name, role, gains)
            rate = branch.rates[role].put({"l": self._power(t)})
            change = self.law.stepped(gradient, start, rate)
            totals.append(t + (gradient * change).exponent(self.depth))
            relative += [] if start is None else [(change / start).exponent(self.depth)]
        return OutputChange(branch.law.sublayer.name, name, role, max(totals), most(relative))

    def share(self, roles: frozenset[Role]) -> Fraction:
        """The exponent of the change through all parameters of some roles."""
        return max(m.total for m in self.moved if m.role in roles)

    @property
    def first(self) -> Fraction:
        """The exponent of the first order, through the matrices."""
        return self.share(STEPPED["matrices"])

    @property
    def growing(self) -> tuple[OutputChange, ...]:
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

    def warnings(self) -> Iterator[str]:
        """What a user of these constants should know, a sentence each."""
        yield from self.unstable()
        yield from table.far(self.part, self.depth, self.independent)
        if self.grown > 0:
            yield (
                f"the {self.part}'s stream grows as {self.depth}^({self.grown}): these sums take "
                "its branches as independent of one another"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; exponents as texts such as ``"1/2"``, null where there is nothing."""
        sums = {
            "first_order": self.first,
            "aligned_sum": self.aligned,
            "self_consistency": self.independent,
            "rho": self.relative,
        }
        told = {name: None if power is None else str(power) for name, power in sums.items()}
        changes = [
            {"sublayer": m.sublayer, "parameter": m.name, "exponent": str(m.total)}
            for m in self.moved
        ]
        return {"stack": self.part, "in": self.depth, **told, "parameters": changes}


def positive(text: str, depth: str, called: str = "") -> Monomial:
    """The size of a text that is not 0; a refusal begins with what it is ``called``."""
    try:
        if (size := size_of(text, depth)) is not None:
            return size
    except InputError as error:
        raise InputError(f"{called}{error}") from None
    raise InputError(f"{called}{text!r} is not positive in depth: {depth} grows")


def drift(branch: SublayerSizes, depth: str, where: Placement) -> Fraction:
    """The exponent in l of the product of what a sublayer multiplies the stream by.

    S factors of 1 + c/l or closer to 1 have a power of l or a number as their product.
    """
    if branch.law.keeps_stream:
        return ZERO
    assert branch.law.multiplied is not None
    expression = INDEXED.parse(branch.alpha)
    symbol = "l" if "l" in expression.names else depth
    times = branch.law.multiplied.of(expanded(expression.root, symbol))
    inverse = Fraction(-1), ZERO
    powers, c = times.rest or (inverse, ZERO)
    if times.powers == FLAT and times.coefficient == 1 and powers <= inverse:
        grows = symbol == "l" and powers == inverse
        return Fraction(c).limit_denominator(10**6) if grows else ZERO
    larger = (times.powers, times.coefficient, c) > (FLAT, 1, 0)
    raise Refusal(
        f"a sublayer of {where.name!r}, {where.equation}, multiplies the stream by a number at "
        f"alpha = {branch.alpha} that no norm takes back: the stream "
        f"{'explodes' if larger else 'vanishes'} with depth; the coefficient of x must be 1"
    )
