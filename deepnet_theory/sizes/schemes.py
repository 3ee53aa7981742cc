r"""A scheme under an optimizer: the exponents in depth of r, ρ and every order of one update.

The stream of an identity path is :math:`X_l^2 = X_0^2 + \sum_{k<l} b_k^2`, b the size of what a
branch adds, so that a change made at layer l arrives relative to :math:`X_l`. The output moves by

.. math:: \sum_l G_l^{1+p}\,|\theta|^q\,\kappa, \qquad G_l = \gamma_l / X_l,

γ the response of a sublayer's output to a parameter. The laws are those of every rule, with a gain
of its own for every matrix and constants that may depend on the layer's index l. Source: derived
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.entries import number
from deepnet_theory.sizes.laws import Law, Scalar
from deepnet_theory.sizes.layers import ONE, Power, size_of
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.table import STARTS_AT_ZERO, parameters
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.norm import norm
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.scheme import INDEXED, Scheme, SchemePart
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.sublayer import MATRICES, Role, Sublayer

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

    Raises :class:`Refusal` where streams have no equation, where the scheme changes in time, its
    stream explodes, or where its equation or the update has no law.
    """
    if scheme.streams > 1:
        raise Refusal(
            f"the scheme {scheme.name!r} carries {scheme.streams} residual streams, and the law "
            "of two streams is missing: its residual equation has one identity path"
        )
    scheme = scheme.of_one_stream
    if scheme.schedule:
        raise Refusal(
            f"the scheme {scheme.name!r} multiplies its branch by {scheme.schedule} in the step t "
            "of training, and the law of a residual equation that changes in time is missing"
        )
    of = update.law(optimizer)
    return tuple(_part_trial(scheme, part, of) for part in scheme.parts)


def _part_trial(scheme: Scheme, part: SchemePart, of: update.Update) -> PartTrial:
    depth = next(p.depth for p in stack(scheme.stack).parts if p.name == part.name)
    segments = [_Segment(scheme, part, depth, None, of, ONE)]
    if scheme.first_placement is not None:
        length = size_of(scheme.first_layers, depth)
        assert length is not None
        segments.append(_Segment(scheme, part, depth, scheme.first_placement, of, length.last))
    return PartTrial(
        part=part.name,
        depth=depth,
        moved=tuple(_together([m for segment in segments for m in segment.moved])),
        aligned=_most(segment.weights(1) for segment in segments),
        independent=_most(segment.weights(2) for segment in segments),
        relative=_most(s for segment in segments for s in segment.relatives(Role.SCALED)),
        stream=max(segment.growth for segment in segments),
        orders=_orders([segment.orders() for segment in segments]),
    )


def _most(values: Iterable[Fraction | None]) -> Fraction | None:
    return max((v for v in values if v is not None), default=None)


def _together(moved: list[Moved]) -> Iterator[Moved]:
    for key in dict.fromkeys((m.sublayer, m.name) for m in moved):
        same = [m for m in moved if (m.sublayer, m.name) == key]
        yield Moved(*key, same[0].role, max(m.total for m in same), _most(m.relative for m in same))


def _orders(of: list[list[Fraction | None]]) -> tuple[Fraction | None, ...]:
    longest = max(map(len, of))
    return tuple(_most(orders[k] for orders in of if k < len(orders)) for k in range(longest))


@dataclass(frozen=True)
class _Step:
    """A parameter that has a gradient: G, the update's size, and its own, None where it is 0."""

    sublayer: str
    name: str
    role: Role
    gradient: Power
    update: Power
    own: Power | None


@dataclass(frozen=True)
class _Segment:
    """The layers of one placement: all of a part, or its first N^length."""

    scheme: Scheme
    part: SchemePart
    depth: str
    first: Placement | None  # of the first layers, where they have another
    of: update.Update
    length: Fraction

    @cached_property
    def uses(self) -> Power:
        """n, how often each layer is used."""
        found = self.text(self.scheme.uses)
        assert found is not None
        return found

    @cached_property
    def laws(self) -> list[tuple[Sublayer, laws.Law]]:
        own = dict.fromkeys(self.scheme.layer_of(self.part.name))
        placed = ((s, self.first or self.scheme.placed(s)) for s in own)
        return [(s, laws.law(where, s, norm(self.scheme.norm))) for s, where in placed]

    @property
    def placement(self) -> Placement:
        """That of all sublayers without one of their own."""
        return self.first or self.scheme.placement

    def text(self, text: str) -> Power | None:
        return size_of(text, self.depth)

    def size(self, of: Monomial, stream: Power | None = None) -> Power | None:
        """The size of a law's monomial at the scheme's constants; None where a factor is 0."""
        total = Power.of()
        for base, power in of.items:
            if base.isdigit():
                continue
            if base == "stream":
                factor = stream or Power.of()
            elif base in self.placement.learnt:  # it starts at 0
                return None
            elif base == laws.LATER:
                later = self.weights(2, stream)
                if later is None:
                    return None
                factor = Power.of(later / 2)
            else:
                found = self.text({"alpha": self.part.alpha}.get(base, self.part.gain(base)))
                if found is None:
                    return None
                factor = found
            total = total * factor**power
        return total

    @cached_property
    def stream(self) -> Power:
        """X at layer l; refused where the stream explodes or vanishes."""
        if any(law.normalised for _, law in self.laws):
            return Power.of()
        first = self.text(self.part.embedding)
        assert first is not None
        shrunk = Power.of(index=self._drift())
        if any(law.added.exponent("stream") for _, law in self.laws):
            growth = self.weights(2, first)
            if growth is not None and growth > 0:
                raise Refusal(
                    f"the stream of the scheme {self.scheme.name!r} explodes: its equation "
                    f"{self.placement.equation!r} has no norm, and S*r^2 grows as "
                    f"{self.depth}^({growth})"
                )
            return first * shrunk
        squared = first**2
        for _, law in self.laws:
            added = self.size(law.added)
            if added is not None:
                each = added * shrunk**-1
                alike = self.uses.largest > 0  # what the uses of one layer add, adds up
                squared = squared + (each.summed() ** 2 if alike else (each**2).summed())
        return squared ** Fraction(1, 2) * shrunk

    @property
    def growth(self) -> Fraction:
        kept = self.stream.cut(self.length)
        return kept.last - kept.nodes[0][1]

    def _drift(self) -> Fraction:
        """The exponent in l of the product of what the layers multiply the stream by."""
        times = self.laws[0][1].multiplied
        assert times is not None
        symbol = "l" if "l" in INDEXED.parse(self.part.alpha).names else self.depth
        with localcontext(prec=200):
            near, far = (self._excess(times, symbol, Decimal(10) ** n) for n in (40, 80))
            if far == 0:
                return Fraction(0)
            power = (far / near).ln() / (Decimal(10).ln() * 40) if near * far > 0 else Decimal(0)
            if power < Decimal("-1.0001"):
                return Fraction(0)
            if power < Decimal("-0.9999"):
                tends = Fraction(far * Decimal(10) ** 80 * len(self.laws)).limit_denominator(10**6)
                return tends if symbol == "l" else Fraction(0)
        raise Refusal(
            f"a sublayer of the scheme {self.scheme.name!r}, {self.placement.equation}, "
            f"multiplies the stream by {times}, which no norm takes back: the stream "
            f"{'explodes' if far > 0 else 'vanishes'} with depth"
        )

    def _excess(self, times: Scalar, symbol: str, at: Decimal) -> Decimal:
        """What the stream is multiplied by at a layer or depth, less 1."""
        values = {**dict.fromkeys(("N", "M", "l"), at.sqrt()), symbol: at}
        alpha = number(INDEXED.parse(self.part.alpha).root, values)
        total = Decimal(-1)
        for power, coefficient in times.terms:
            to = Decimal(power.numerator) / power.denominator
            total += Decimal(coefficient.numerator) / coefficient.denominator * alpha**to
        return total if abs(total) > Decimal(10) ** -180 else Decimal(0)

    def weights(self, power: int, stream: Power | None = None) -> Fraction | None:
        """The exponent of the sum of r^power over the sublayers; n uses of one add alike."""
        alike = self.uses ** (power - 1)
        sizes = (self.size(law.weight, stream or self.stream) for _, law in self.laws)
        return _most(self._total(size**power * alike) for size in sizes if size is not None)

    def _total(self, size: Power) -> Fraction:
        return size.summed().at(self.length)

    @cached_property
    def steps(self) -> list[_Step]:
        return list(self._steps())

    def _steps(self) -> Iterator[_Step]:
        end = Power.of(self.stream.at(self.length)) if self._unnormalised else Power.of()
        for sublayer, law in self.laws:
            for name, role in parameters(law):
                paths = [
                    size
                    for path in law.responses.get(name, ())
                    if (size := self.size(path, self.stream)) is not None
                ]
                if not paths:
                    continue
                response = paths[0]
                for other in paths[1:]:
                    response = response + other
                gradient = response * self.stream**-1 * end
                own, rate = self._own(law, name, role), self.text(self.scheme.rate_of(role))
                assert rate is not None
                moved = (gradient * self.uses) ** self.of.p * rate
                if own is not None:
                    moved = moved * own**self.of.q
                yield _Step(sublayer.name, name, role, gradient, moved, own)

    @property
    def _unnormalised(self) -> bool:
        """Whether the part's output is as large as its stream."""
        return not (self.scheme.final_norm or self.scheme.placement.normalises_sum)

    def _own(self, law: Law, name: str, role: Role) -> Power | None:
        """The size of a parameter at initialisation, None where it is 0."""
        if role in STARTS_AT_ZERO:
            return None
        if name in law.starts:
            start = law.starts[name]
            return None if start is None else self.size(start)
        return self.text(self.part.gain(name) if role in MATRICES else "1")

    @cached_property
    def moved(self) -> list[Moved]:
        return [
            Moved(
                step.sublayer,
                step.name,
                step.role,
                self._total(step.gradient * step.update),
                None if step.own is None else (step.update * step.own**-1).cut(self.length).largest,
            )
            for step in self.steps
        ]

    def relatives(self, role: Role) -> list[Fraction | None]:
        return [m.relative for m in self.moved if m.role is role]

    def orders(self) -> list[Fraction | None]:
        """The exponent of each order: k scaled matrices of a branch moved at once."""
        found: dict[int, list[Fraction]] = {}
        for sublayer, _ in self.laws:
            scaled = [
                s for s in self.steps if s.sublayer == sublayer.name and s.role is Role.SCALED
            ]
            for count in range(1, len(sublayer.scaled) + 1):
                found.setdefault(count, []).extend(
                    self._total(_moved_at_once(several))
                    for several in combinations(scaled, count)
                    if sum(s.own is None for s in several) < 2
                )
        return [max(found[count], default=None) for count in sorted(found)]


def _moved_at_once(matrices: tuple[_Step, ...]) -> Power:
    first, *others = sorted(matrices, key=lambda s: s.own is not None)  # a matrix at 0 goes first
    change = first.gradient * first.update
    for step in others:
        assert step.own is not None
        change = change * step.update * step.own**-1
    return change
