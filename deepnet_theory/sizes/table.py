r"""One table of a rule: a row for every kind of sublayer and one for every parameter.

Everything that follows from a rule is a query here: shares, learning-rate, ε and decay multipliers,
the orders of an update, the closures compared and what closures have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, partial
from math import comb
from typing import Any

from deepnet_theory.definitions.rule import KNOBS, ParameterConstants, Rule, RuleEntry, number
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import MATRICES, ROUTER, Role, role_name
from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.laws import DEPTHS
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.rule import Balanced, DerivedRule, Kind, solve_rule, written
from deepnet_theory.sizes.update import UpdateSize

STABLE, LAZY, UNSTABLE = "stable", "lazy", "unstable"

Shape = tuple[Monomial, Monomial]
Known = tuple[str, str, str]  # part, sublayer and parameter
D = Monomial.of("d")
HEAD: Shape = (D, ONE)  # of the head, and of a router: as many outputs at every width
COLUMN: Shape = (ONE, D)  # of a gain, a bias or an embedding, which a one-hot vector enters
SQUARE: Shape = (D, D)

# An update of degree q > 0 gives a parameter at 0 no step at all; libraries then take its ratio
# as 1, which is degree 0, as done here.
STARTS_AT_ZERO = frozenset(Role) - MATRICES - {Role.NORM_GAIN}


@dataclass(frozen=True)
class Place:
    """Where a parameter stands, the depth that its part grows by, and its shape (n_in, n_out).

    ``kind`` is what an initialisation does with it, ``averaged`` how many outputs are averaged.
    """

    part: str
    depth: str
    sublayer: str
    parameter: str
    kind: Role
    shape: Shape = COLUMN
    averaged: Monomial = ONE

    @property
    def role(self) -> str:
        """Its public name."""
        return role_name(self.parameter).replace("_", "-")

    @property
    def is_matrix(self) -> bool:
        return self.kind in MATRICES

    @property
    def starts_at_zero(self) -> bool:
        return self.kind in STARTS_AT_ZERO or self.parameter == "lora_b"

    @property
    def known(self) -> Known:
        """What it is known by, whatever its shape."""
        return self.part, self.sublayer, self.parameter

    @property
    def reads(self) -> bool:
        """Whether its inputs grow, and its outputs do not."""
        return self.shape[0] != ONE and self.shape[1] == ONE

    @property
    def is_table(self) -> bool:
        """Whether it is stored with a row a token, as ``nn.Embedding`` has it."""
        return self.kind is Role.EMBEDDING


def places_of(part: Part, law: laws.Law) -> Iterator[Place]:
    """Every parameter of one kind of sublayer of a part."""
    for name, role in parameters(law):
        shape = SQUARE if role in MATRICES else COLUMN
        shape = HEAD if name == ROUTER and law.sublayer.experts > 1 else shape
        yield Place(part.name, part.depth, law.sublayer.name, name, role, shape)


@dataclass(frozen=True)
class SublayerRow:
    r"""One kind of sublayer of a part at the rule.

    One update moves all m matrices of a branch at once, each by ηρ of itself (one that enters
    squared counts twice), so that S branches of weight r change the output by

    .. math:: A S r\,\bigl((1+\eta\rho)^m - 1\bigr) = A S r \sum_k \binom mk (\eta\rho)^k ;

    ``orders`` are the terms, in units of η^k. ``failing`` is how the largest stable learning rate
    scales in the worst case, all updates aligned: :math:`\rho^{1/m-1}` where ρ grows, else 1.
    """

    of: Balanced
    kind: Kind

    @cached_property
    def orders(self) -> tuple[Monomial, ...]:
        # the branches of experts add up at random, what one step makes of them in line
        together = Monomial.number(self.kind.law.sublayer.chosen) ** Fraction(1, 2)
        first, degree = self.of.amplification * self.aligned * together, self.kind.degree
        return tuple(
            first * Monomial.number(comb(degree, order)) * self.kind.relative**order
            for order in range(1, degree + 1)
        )

    @property
    def aligned(self) -> Monomial:
        """S·r: branches aligned with the stream."""
        return self.of.count * self.kind.weight

    @property
    def failing(self) -> Monomial:
        """How the largest stable learning rate scales, worst case."""
        rho = self.kind.relative
        if rho.exponent(self.of.part.depth) <= 0:
            return ONE
        return rho ** (Fraction(1, self.kind.degree) - 1)

    @property
    def state(self) -> str:
        powers = [order.exponent(depth) for order in self.orders for depth in DEPTHS]
        if any(power > 0 for power in powers):
            return UNSTABLE
        return LAZY if any(power < 0 for power in powers) else STABLE


@dataclass(frozen=True)
class ParameterRow:
    """What one parameter starts and steps with, in depth, in width or in both.

    ``init`` is its size at the start, None where it is 0: in depth over Xavier's, in width the root
    mean square of its entries. ``gradient`` and ``update`` are of one such parameter, per η.
    ``refused`` says why a ``rate`` is None. In depth ``share`` is the output change of all such
    parameters, relative to the scaled matrices. In width ``multiplier`` is c, ``action`` c times
    what an update adds to an output.
    """

    place: Place
    init: Monomial | None
    gradient: Monomial | None = None
    update: Monomial | None = None
    rate: Monomial | None = None  # what its learning rate is multiplied with
    epsilon: Monomial | None = None
    decay: Monomial | None = None
    share: Monomial | None = None
    multiplier: Monomial | None = None
    action: Monomial | None = None
    coupled_decay: Monomial | None = None
    memory: Monomial | None = None  # what 1 - beta is multiplied with
    memory_rate: Monomial | None = None  # the rate where it is
    refused: str | None = None
    coupled_refused: str | None = None
    step: UpdateSize | None = None  # the update's law, in its own gradient, size and counts

    @property
    def role(self) -> str:
        return self.place.role

    @property
    def texts(self) -> dict[str, str]:
        """What it starts and steps with, by the names that constants have."""
        values = zip(KNOBS, (self.init, self.rate, self.epsilon, self.decay), strict=True)
        return {knob: str(value or 0) for knob, value in values}

    def at(self, **depth: int) -> ParameterConstants:
        return ParameterConstants(*(number(text, **depth) for text in self.texts.values()))

    def told(self, *names: str, written: Callable[[Monomial], str] = str) -> dict[str, Any]:
        """Its place, these sizes as texts, and why it has none, as the JSON of a table has them."""
        sizes = ((name, getattr(self, name)) for name in names)
        texts = {name: None if size is None else written(size) for name, size in sizes}
        at = {"part": self.place.part, "sublayer": self.place.sublayer or None, "role": self.role}
        return {**at, **texts, "refused": self.refused}

    def to_dict(self) -> dict[str, str]:
        at = self.place
        where = {"part": at.part, "sublayer": at.sublayer, "name": at.parameter}
        return {**where, "role": at.kind, **self.texts}

    @property
    def starved(self) -> Monomial | None:
        """Its share where that falls with the depth: its rate stays, since more is a choice."""
        return self.share if self.exponent < 0 else None

    @property
    def exponent(self) -> Fraction:
        """The exponent of its share in the part's own depth."""
        return self.share.exponent(self.place.depth) if self.share else Fraction(0)

    @property
    def standing(self) -> str:
        """Whether it is negligible, equal or dominant beside the scaled matrices."""
        if self.exponent > 0:
            return "dominant"
        return "equal" if self.share and not self.exponent else "negligible"

    @property
    def balancing(self) -> Monomial:
        """The learning-rate multiplier that gives it the weight of the scaled matrices."""
        return ONE / self.share if self.share else ONE


@dataclass(frozen=True)
class Table:
    rule: DerivedRule

    @cached_property
    def sublayers(self) -> tuple[SublayerRow, ...]:
        return tuple(SublayerRow(b, kind) for b in self.rule.parts for kind in b.kinds)

    @cached_property
    def parameters(self) -> tuple[ParameterRow, ...]:
        selection, found = self.rule.selection, list[ParameterRow]()
        for part in self.rule.parts:
            for sublayer in dict.fromkeys(part.part.layer):
                law = laws.law(selection.the_placement, sublayer, selection.the_norm)
                found += [self._parameter(part, law, at) for at in places_of(part.part, law)]
        return tuple(found)

    @property
    def state(self) -> str:
        states = {row.state for row in self.sublayers}
        return next(state for state in (UNSTABLE, LAZY, STABLE) if state in states)

    def far_from_identity(self) -> Iterator[str]:
        """Where S·r² grows with a depth, a sentence each.

        It does not where the stream, which no norm takes back, grows with what is added to it.
        """
        selection = self.rule.selection
        for depth in selection.the_stack.depths:
            for part in self.rule.parts if selection.the_placement.normalises_sum else ():
                grows = max(part.squares(kind).exponent(depth) for kind in part.kinds)
                yield from far(part.part.name, depth, grows)

    def at(self, **depth: int) -> dict[tuple[str, str], dict[str, ParameterConstants]]:
        """What every parameter starts and steps with at a depth, by part and sublayer."""
        found: dict[tuple[str, str], dict[str, ParameterConstants]] = {}
        for row in self.parameters:
            at = row.place
            found.setdefault((at.part, at.sublayer), {})[at.parameter] = row.at(**depth)
        return found

    def _parameter(self, part: Balanced, law: laws.Law, place: Place) -> ParameterRow:
        name, role = place.parameter, place.kind
        selection, degrees = self.rule.selection, self.rule.update
        kind = part.kind_of(law.sublayer.name)
        gains = laws.common_gains(law.sublayer, kind.alpha, kind.beta)
        size = laws.initial(name, role, gains)
        assert size is not None
        start = None if place.starts_at_zero else size
        kappa = kind.rate if role is Role.SCALED else ONE
        gradient = moved = share = None
        needed: dict[str, Monomial] = {}  # what each constant is beside, where anything moves
        if response := law.response(name, gains, part.part.depth):
            gradient = response * law.reached(name)
            moved = degrees.stepped(gradient, start, part.eta * kappa)
            count = part.count
            if name in laws.OF_NORMS and selection.the_placement.normalises_sum:
                count = Monomial.number(len(part.part.sums)) * Monomial.of(part.part.depth)
            share = count * part.amplification * response * moved
            own = {"g": gradient, "theta": size}
            for constant, degree in update.practised(selection.the_optimizer).items():
                needed[constant] = degree.put(own)
        # what moves more than the matrices do in depth would unbalance the rule: it steps less;
        # what moves less is left alone, since a larger rate for it is a choice and no necessity
        dominant = share is not None and share.exponent(part.part.depth) > 0
        rate = kappa / share if share and dominant else kappa
        decay, epsilon = None, needed.get("epsilon", ONE)
        if place.is_matrix:
            shrunk = ONE if gradient is None else degrees.stepped(gradient, size, ONE) / size
            decay = needed.get("decay", ONE) / (part.eta * rate * shrunk)
        return ParameterRow(place, start, gradient, moved, rate, epsilon, decay, share)


def parameters(law: laws.Law) -> Iterator[tuple[str, Role]]:
    for parameter in law.sublayer.parameters:
        yield parameter.name, parameter.role
    for name, role in laws.OF_NORMS.items():
        if name in law.responses:
            yield name, role


def falling(
    of: laws.Law, alpha: Monomial, beta: Monomial, depth: str
) -> Iterator[tuple[str, Monomial]]:
    r"""Where norms divide what falls with the depth, and its square: what ε is multiplied by.

    .. math:: \mathrm{norm}(z) = z/\sqrt{\mathrm{var}(z) + \varepsilon}

    Where z falls as s, only :math:`\varepsilon \propto s^2` keeps its share under the root. At a
    fixed one a branch of variance v puts out :math:`f = (1 + \varepsilon/v)^{-1/2}` of its size.
    The response to a matrix within it and the matrix's gradient shrink by f each, so that one
    update of degree p in g changes the output by :math:`f^{1+p}` of what it should.

    Source: derived here.
    """
    gains = laws.common_gains(of.sublayer, alpha, beta)
    for norm in of.norms:
        sizes = [term.put(gains) for term in (norm.stream, norm.branch) if term is not None]
        size = max(sizes, key=lambda size: size.exponent(depth))  # the term that falls slowest
        if size.exponent(depth) < 0:
            yield norm.where, size**2


def far(part: str, depth: str, grows: Fraction | None) -> Iterator[str]:
    """A sentence where a part's S·r² grows as this power of a depth; nothing else."""
    if grows is not None and grows > 0:
        yield (
            f"the {part}'s S*r^2 grows as {depth}^({grows}): the near-identity assumption fails, "
            "and with it the orders of magnitude here"
        )


# ---- queries ----


@cache
def table(selection: Selection) -> Table:
    """The table of a selection's rule; raises :class:`Refusal` where there is none."""
    return Table(solve_rule(selection))


def texts(rule: DerivedRule) -> Rule:
    """The rule as texts in N and M, in the grammar of depths."""
    # A rule travels as text: into JSON, to other processes, to a model that knows torch alone.
    # Here it ends; nothing on the way to it is read back from text.
    text, entries = partial(written, selection=rule.selection), []
    for part in rule.parts:
        for kind in part.kinds:
            values = map(text, (kind.alpha, kind.beta, kind.rate, kind.relative))
            falls = falling(kind.law, kind.alpha, kind.beta, part.part.depth)
            epsilon = {where: text(size) for where, size in falls}
            entries.append(RuleEntry(part.part.name, kind.name, *values, norm_epsilon=epsilon))
    meaning = (
        "the powers of the depth are derived orders; the constant in front is the convention "
        f"of the balance '= 1' and of the closure '{rule.closure.name}'"
    )
    name, eta = rule.selection.optimizer or "custom", text(rule.parts[-1].eta)
    return Rule(name, tuple(entries), eta, meaning)
