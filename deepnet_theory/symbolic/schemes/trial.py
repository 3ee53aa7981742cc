r"""A scheme under an optimizer: the exponents in depth of r, ρ and every order of one update.

The stream of an identity path is :math:`X_l^2 = X_0^2 + \sum_{k<l} b_k^2`, b the size of what a
branch adds, so that a change made at layer l arrives relative to :math:`X_l`. The output moves by

.. math:: \sum_l G_l^{1+p}\,|\theta|^q\,\kappa, \qquad G_l = \gamma_l / X_l,

γ the response of a sublayer's output to a parameter: the sums of
:mod:`deepnet_theory.symbolic.implications.exponents`, with a gain of its own for every matrix
and constants that may depend on l. Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.norm import norm
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.scheme import Scheme, SchemePart
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, alpha
from deepnet_theory.symbolic.laws.branch import gain
from deepnet_theory.symbolic.laws.optimizer import Degrees, degrees
from deepnet_theory.symbolic.laws.parameters import STARTS_AT_ZERO
from deepnet_theory.symbolic.schemes.law import SublayerLaw, X, gate, sublayer_law
from deepnet_theory.symbolic.schemes.power import ONE, Power
from deepnet_theory.symbolic.schemes.size import index, indexed, size_of

# what the published schemes speak of: the matrices, and the scalar where there is one
SPOKEN_OF = frozenset({Role.SCALED, Role.UNSCALED, Role.RESIDUAL_GAIN})


@dataclass(frozen=True)
class Moved:
    """What one parameter of one kind of sublayer does, as exponents in depth.

    ``total``: of the change of the output through it, summed over the layers; ``relative``: of
    its update over itself, None where it starts at 0.
    """

    sublayer: str
    name: str
    role: Role
    total: Fraction
    relative: Fraction | None


@dataclass(frozen=True)
class PartTrial:
    """One part of a scheme under one optimizer, judged at the part's own output.

    ``orders[k - 1]`` is the exponent of what k matrices of a branch moved at once make,
    None where nothing is moved so.
    """

    part: str
    depth: str
    moved: tuple[Moved, ...]
    aligned: Fraction | None  # of S*r, None where no branch adds anything
    independent: Fraction | None  # of S*r^2
    relative: Fraction | None  # rho, the largest of the scaled matrices
    stream: Fraction  # of the stream at the last layer, against its start
    orders: tuple[Fraction | None, ...]

    @property
    def first(self) -> Fraction:
        """The exponent of the first order, over all that the scheme speaks of."""
        return max(m.total for m in self.moved if m.role in SPOKEN_OF)

    @property
    def growing(self) -> tuple[Moved, ...]:
        """The parameters whose share of the change grows with depth."""
        return tuple(m for m in self.moved if m.total > 0)

    @property
    def invariants(self) -> tuple[Fraction | None, ...]:
        """What equivalent rules share: the first order, S*r and rho."""
        return self.first, self.aligned, self.relative


def trials(scheme: Scheme, optimizer: Optimizer) -> tuple[PartTrial, ...]:
    """Every part of a scheme under an optimizer.

    Raises :class:`Refusal` where the scheme has two streams or changes in time, where its
    stream explodes, or where its equation or the update has no law.
    """
    if scheme.streams > 1:
        raise Refusal(
            f"the scheme {scheme.name!r} carries {scheme.streams} residual streams, and the law "
            "of two streams is missing: a residual equation here has one identity path"
        )
    if scheme.schedule:
        raise Refusal(
            f"the scheme {scheme.name!r} multiplies its branch by {scheme.schedule} in the step t "
            "of training, and the law of a residual equation that changes in time is missing"
        )
    found = degrees(optimizer)
    return tuple(_part_trial(scheme, part, found) for part in scheme.parts)


def _part_trial(scheme: Scheme, part: SchemePart, of: Degrees) -> PartTrial:
    depth = next(p.depth for p in stack(scheme.stack).parts if p.name == part.name)
    segments = [_Segment(scheme, part, depth, scheme.placement, of, ONE)]
    if scheme.first_placement is not None:
        length = size_of(indexed(scheme.first_layers), depth)
        assert length is not None
        segments.append(_Segment(scheme, part, depth, scheme.first_placement, of, length.last))
    scaled = [s for segment in segments for s in segment.relatives(Role.SCALED)]
    return PartTrial(
        part=part.name,
        depth=depth,
        moved=tuple(_together([m for segment in segments for m in segment.moved])),
        aligned=_most(segment.weights(1) for segment in segments),
        independent=_most(segment.weights(2) for segment in segments),
        relative=_most(scaled),
        stream=max(s.stream.last - s.stream.nodes[0][1] for s in segments),
        orders=_orders([segment.orders() for segment in segments]),
    )


def _most(values: Any) -> Fraction | None:
    return max((v for v in values if v is not None), default=None)


def _together(moved: list[Moved]) -> Iterator[Moved]:
    for key in dict.fromkeys((m.sublayer, m.name) for m in moved):
        same = [m for m in moved if (m.sublayer, m.name) == key]
        yield Moved(*key, same[0].role, max(m.total for m in same), _most(m.relative for m in same))


def _orders(of: list[list[Fraction | None]]) -> tuple[Fraction | None, ...]:
    longest = max(map(len, of))
    return tuple(_most(orders[k] for orders in of if k < len(orders)) for k in range(longest))


@dataclass(frozen=True)
class _Segment:
    """The layers of one placement: all of a part, or its first N^length."""

    scheme: Scheme
    part: SchemePart
    depth: str
    placement: Placement
    degrees: Degrees
    length: Fraction

    @cached_property
    def laws(self) -> list[tuple[Sublayer, SublayerLaw]]:
        own = dict.fromkeys(self.scheme.layer_of(self.part.name))
        spec, gated = norm(self.scheme.norm), self.scheme.gate is not None
        return [(s, sublayer_law(self.placement, s, spec, gated)) for s in own]

    def size(self, scalar: Any, sublayer: Sublayer, stream: Power | None = None) -> Power | None:
        """The size of a law's scalar at the scheme's constants."""
        values = {alpha: indexed(self.part.alpha), gate: indexed(self.scheme.gate or "1")}
        values |= {gain(m.name): indexed(self.part.gain(m.name)) for m in sublayer.matrices}
        powers = sp.sympify(scalar).as_powers_dict() if scalar != 0 else {}
        if scalar == 0:
            return None
        of_stream = Fraction(int(powers.get(X, 0)))
        rest = sp.cancel(scalar / X**of_stream.numerator) if of_stream else scalar
        value = sp.sympify(rest).xreplace(values)
        if value.has(X):
            value = sp.simplify(value)
        found = (
            None if value in (0, sp.nan, sp.zoo) else size_of(value.xreplace({X: 1}), self.depth)
        )
        return found if found is None or stream is None else found.times(stream.to(of_stream))

    @cached_property
    def stream(self) -> Power:
        """X at layer l; refused where the stream explodes or vanishes."""
        if any(law.stream is None for _, law in self.laws):
            return Power.of()
        first = size_of(indexed(self.part.embedding), self.depth)
        assert first is not None
        shrunk = Power.of(index=self._drift())
        if any(law.homogeneous for _, law in self.laws):
            growth = self.weights(2, first)
            if growth is not None and growth > 0:
                raise Refusal(
                    f"the stream of the scheme {self.scheme.name!r} explodes: its equation "
                    f"{self.placement.equation!r} has no norm, and S*r^2 grows as "
                    f"{self.depth}^({growth})"
                )
            return first.times(shrunk)
        squared = first.to(2)
        for sublayer, law in self.laws:
            added = self.size(law.added, sublayer)
            if added is not None:
                squared = squared.plus(added.times(shrunk.to(-1)).to(2).summed())
        return squared.to(Fraction(1, 2)).times(shrunk)

    def _drift(self) -> Fraction:
        """The exponent in l of the product of what the layers multiply the stream by."""
        times = self.laws[0][1].stream.xreplace({alpha: indexed(self.part.alpha)})
        if times == 1:
            return Fraction(0)
        symbol = index if times.has(index) else DEPTHS[self.depth]
        log = sp.limit(symbol * (times - 1), symbol, sp.oo) * len(self.laws)
        if not log.is_finite:
            way = "explodes" if log > 0 else "vanishes"
            raise Refusal(
                f"a sublayer of the scheme {self.scheme.name!r}, {self.placement.equation}, "
                f"multiplies the stream by {times}, which no norm takes back: the stream {way} "
                "with depth"
            )
        return Fraction(str(sp.nsimplify(log))) if symbol == index else Fraction(0)

    def weights(self, power: int, stream: Power | None = None) -> Fraction | None:
        """The exponent of the sum of r^power over the sublayers."""
        return _most(
            self._total(size.to(power))
            for sublayer, law in self.laws
            if (size := self.size(law.weight, sublayer, stream or self.stream)) is not None
        )

    def _total(self, size: Power) -> Fraction:
        return size.summed().at(self.length)

    @cached_property
    def steps(self) -> list[tuple[Sublayer, str, Role, Power, Power, Power | None]]:
        """Every parameter that has a gradient: G, the update's size, and its own size."""
        return list(self._steps())

    def _steps(self) -> Iterator[tuple[Sublayer, str, Role, Power, Power, Power | None]]:
        p, q = (Fraction(int(d.p), int(d.q)) for d in (self.degrees.p, self.degrees.q))
        end = Power.of(self.stream.last) if self._unnormalised else Power.of()
        for sublayer, law in self.laws:
            for parameter in law.parameters:
                response = self.size(parameter.response, sublayer, self.stream)
                if response is None:
                    continue
                gradient = response.times(self.stream.to(-1)).times(end)
                own = self._own(sublayer, parameter.name, parameter.role)
                rate = size_of(indexed(self.scheme.rate_of(parameter.role)), self.depth)
                assert rate is not None
                update = gradient.to(p).times(rate)
                if own is not None:
                    update = update.times(own.to(q))
                yield sublayer, parameter.name, parameter.role, gradient, update, own

    @property
    def _unnormalised(self) -> bool:
        """Whether the part's output is as large as its stream."""
        ends_in_norm = self.scheme.final_norm or self.scheme.placement.normalises_sum
        return not ends_in_norm

    def _own(self, sublayer: Sublayer, name: str, role: Role) -> Power | None:
        """The size of a parameter at initialisation, None where it is 0."""
        if role in STARTS_AT_ZERO:
            return None
        if role is Role.RESIDUAL_GAIN:
            return size_of(indexed(self.scheme.gate or "1"), self.depth)
        matrices = {m.name for m in sublayer.matrices}
        text = self.part.gain(name) if name in matrices else "1"
        return size_of(indexed(text), self.depth)

    @cached_property
    def moved(self) -> list[Moved]:
        """What every parameter that has a gradient does."""
        return list(self._moved())

    def _moved(self) -> Iterator[Moved]:
        for sublayer, name, role, gradient, update, own in self.steps:
            relative = None if own is None else update.times(own.to(-1)).cut(self.length).largest
            total = self._total(gradient.times(update))
            yield Moved(sublayer.name, name, role, total, relative)

    def relatives(self, role: Role) -> list[Fraction | None]:
        """ρ of every parameter of a role."""
        return [m.relative for m in self.moved if m.role is role]

    def orders(self) -> list[Fraction | None]:
        """The exponent of each order: k scaled matrices of a branch moved at once."""
        found: list[list[Fraction]] = []
        for sublayer, _ in self.laws:
            scaled = [
                (gradient.times(update), update, own)
                for s, _, role, gradient, update, own in self.steps
                if s is sublayer and role is Role.SCALED
            ]
            for count in range(1, len(sublayer.scaled) + 1):
                found += [[]] * (count > len(found))
                found[count - 1] = found[count - 1] + [
                    self._total(_moved_at_once(one))
                    for one in combinations(scaled, count)
                    if sum(own is None for *_, own in one) < 2
                ]
        return [max(order, default=None) for order in found]


def _moved_at_once(matrices: tuple[tuple[Power, Power, Power | None], ...]) -> Power:
    """The product of one matrix's change with the relative updates of the others."""
    first, *others = sorted(matrices, key=lambda m: m[2] is not None)  # a matrix at 0 goes first
    change = first[0]
    for _, update, own in others:
        assert own is not None
        change = change.times(update).times(own.to(-1))
    return change
