r"""The growth of ‖ΔF‖ with depth, at any constants under any optimizer, as exact exponents.

The stream of an identity path is :math:`X_l^2 = X_0^2 + \sum_{k<l} b_k^2`, b the size of what a
branch adds, so that a change made at layer l arrives relative to :math:`X_l`. The output moves by

.. math:: \sum_l G_l^{1+p}\,|\theta|^q\,\kappa, \qquad G_l = \gamma_l / X_l,

γ the response of a sublayer's output to a parameter. The constants are texts, of a rule, derived or
of one's own, or of a published scheme, in the depth and the layer's index; the laws are the rule's.

Source: derived here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property, reduce
from itertools import combinations

from deepnet_theory.definitions.expression import INDEXED
from deepnet_theory.definitions.measurement import Prediction, Predictions
from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.rule import Rule
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role
from deepnet_theory.sizes import table, update
from deepnet_theory.sizes.growth import CONSTANT, ZERO, Power, growth, value_at
from deepnet_theory.sizes.laws import BETA, LATER, Law, common_gains, factors, law
from deepnet_theory.sizes.monomial import ONE, Monomial, parse
from deepnet_theory.sizes.rule import solve_rule

RIVALS = ("sgd", "adam", "lamb")
STEPPED = {"matrices": frozenset({Role.SCALED, Role.UNSCALED}), "all": frozenset(Role)}


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
    """One part of a stack under one optimizer, judged at the part's own output.

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

    def share(self, roles: frozenset[Role]) -> Fraction:
        """The exponent of the change through all parameters of some roles."""
        return max(m.total for m in self.moved if m.role in roles)

    @property
    def first(self) -> Fraction:
        """The exponent of the first order, over all that a scheme speaks of."""
        return self.share(STEPPED["matrices"])

    @property
    def growing(self) -> tuple[Moved, ...]:
        """The parameters whose share of the change grows with depth."""
        return tuple(m for m in self.moved if m.total > 0)


def most(values: Iterable[Fraction | None]) -> Fraction | None:
    return max((v for v in values if v is not None), default=None)


# ---- layers at constants ----


@dataclass(frozen=True)
class Branch:
    """A sublayer at constants: the sizes of α and of its gains, None where one is 0, and rates."""

    law: Law
    sizes: Mapping[str, Power | None]
    rates: Mapping[Role, Power]


@dataclass(frozen=True)
class _Step:
    """A parameter that has a gradient: G, the update's size, and its own, None where it is 0."""

    branch: Branch
    name: str
    role: Role
    gradient: Power
    update: Power
    start: Power | None

    @property
    def relative(self) -> Power | None:
        return None if self.start is None else self.update * self.start**-1


@dataclass(frozen=True)
class Segment:
    """:math:`N^{layers}` layers of a part."""

    branches: tuple[Branch, ...]
    update: update.Update
    layers: Fraction
    uses: Power  # n, how often each layer is used
    as_large: bool  # whether the part's output is as large as its stream
    drift: Fraction = ZERO  # of l, in what the layers multiply the stream by
    embedding: Power = CONSTANT
    fed: Power | None = None  # the stream that a branch without a norm is fed with, where not X

    def size(self, branch: Branch, monomial: Monomial, stream: Power | None = None) -> Power | None:
        """The size of a law's monomial at the constants; None where a factor is 0."""
        total = CONSTANT
        for base, power in monomial.items:
            factor: Power | None
            if base.isdigit():
                continue
            if base == "stream":
                factor = stream or CONSTANT
            elif base == LATER:
                later = self.weights(2, stream)
                factor = None if later is None else Power.of(later / 2)
            else:
                factor = branch.sizes.get(base)  # a learnt multiplier that starts at 0 has none
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
                each = added * shrunk**-1
                alike = self.uses.largest() > 0  # what the uses of one layer add, adds up
                squared = squared + (each.summed() ** 2 if alike else (each**2).summed())
        return squared ** Fraction(1, 2) * shrunk

    def weights(self, power: int, stream: Power | None = None) -> Fraction | None:
        """The exponent of the sum of r^power over the sublayers; n uses of one add alike."""
        return most(self.summed_weight(b, power, stream or self.stream) for b in self.branches)

    def summed_weight(
        self, branch: Branch, power: int, stream: Power | None = None
    ) -> Fraction | None:
        size = self.size(branch, branch.law.weight, stream)
        return None if size is None else self.total(size**power * self.uses ** (power - 1))

    def total(self, size: Power) -> Fraction:
        """The exponent of the sum over the layers."""
        return (size * Power.of(index=1)).largest(self.layers)

    @cached_property
    def steps(self) -> list[_Step]:
        steps = []
        end = Power.of(self.stream.at(self.layers)) if self.as_large else CONSTANT
        for branch in self.branches:
            for name, role in table.parameters(branch.law):
                paths = branch.law.responses.get(name, ())
                sizes = [self.size(branch, path, self.fed or self.stream) for path in paths]
                if not (reached := [size for size in sizes if size is not None]):
                    continue
                response = reduce(operator.add, reached)
                gradient = response * self.stream**-1 * end
                start = self._start(branch, name, role)
                moved = self.update.stepped(gradient * self.uses, start, branch.rates[role])
                steps.append(_Step(branch, name, role, gradient, moved, start))
        return steps

    def _start(self, branch: Branch, name: str, role: Role) -> Power | None:
        """The size of a parameter at initialisation, None where it is 0."""
        if role in table.STARTS_AT_ZERO:
            return None
        if name in branch.law.starts:
            start = branch.law.starts[name]
            return None if start is None else self.size(branch, start)
        return branch.sizes[name] if role in MATRICES else CONSTANT

    @cached_property
    def moved(self) -> tuple[Moved, ...]:
        return tuple(
            Moved(
                step.branch.law.sublayer.name,
                step.name,
                step.role,
                self.total(step.gradient * step.update),
                None if step.relative is None else step.relative.largest(self.layers),
            )
            for step in self.steps
        )

    def relative(self, branch: Branch) -> Fraction | None:
        """The exponent of ρ, the largest of a sublayer's scaled matrices."""
        name = branch.law.sublayer.name
        return most(m.relative for m in self.moved if (m.sublayer, m.role) == (name, Role.SCALED))

    def orders(self) -> list[Fraction | None]:
        """The exponent of each order: k scaled matrices of a branch moved at once."""
        sizes: dict[int, list[Fraction]] = {}
        for branch in self.branches:
            scaled = [s for s in self.steps if s.branch is branch and s.role is Role.SCALED]
            often = [s for name in factors(branch.law.sublayer) for s in scaled if s.name == name]
            for count in range(1, len(often) + 1):
                sizes.setdefault(count, []).extend(
                    self.total(_moved_at_once(several))
                    for several in combinations(often, count)
                    if sum(s.start is None for s in several) < 2
                )
        return [most(sizes[count]) for count in sorted(sizes)]


def _moved_at_once(matrices: tuple[_Step, ...]) -> Power:
    first, *others = sorted(matrices, key=lambda s: s.start is not None)  # a matrix at 0 goes first
    change = first.gradient * first.update
    for step in others:
        assert step.relative is not None
        change = change * step.relative
    return change


def trial(part: str, depth: str, segment: Segment) -> PartTrial:
    """What one update does to a part."""
    moved = tuple(segment.moved)
    return PartTrial(
        part=part,
        depth=depth,
        moved=moved,
        aligned=segment.weights(1),
        independent=segment.weights(2),
        relative=most(m.relative for m in moved if m.role is Role.SCALED),
        stream=segment.stream.at(segment.layers) - segment.stream.at(ZERO),
        orders=tuple(segment.orders()),
    )


def drift(branch: Law, alpha: str, depth: str, whose: str) -> Fraction:
    """The exponent in l of the product of what a sublayer multiplies the stream by.

    Raises :class:`Refusal` where the stream explodes or vanishes.
    """
    if branch.keeps_stream:
        return ZERO
    assert branch.multiplied is not None
    root = INDEXED.parse(alpha).root
    symbol = "l" if "l" in INDEXED.parse(alpha).names else depth

    def excess(power: int) -> Decimal:
        """What the stream is multiplied by at layer or depth 10^power, less 1."""
        place = Decimal(10) ** power
        values = {**dict.fromkeys(("N", "M", "l"), place.sqrt()), symbol: place}
        scalar, total = value_at(root, values), Decimal(-1)
        assert branch.multiplied is not None
        for exponent, coefficient in branch.multiplied.terms:
            to = Decimal(exponent.numerator) / exponent.denominator
            total += Decimal(coefficient.numerator) / coefficient.denominator * scalar**to
        return total if abs(total) > Decimal(10) ** -180 else Decimal(0)

    # S factors of 1 + c/l or closer to 1 have a power of l or a number as their product. What they
    # differ by from 1 may stand behind leading terms that cancel, so that numbers tell its power.
    with localcontext(prec=200):
        near, far = excess(40), excess(80)
        if far == 0:
            return ZERO
        falls = (far / near).ln() / (Decimal(10).ln() * 40) if near * far > 0 else Decimal(0)
        if falls < Decimal("-1.0001"):
            return ZERO
        if falls < Decimal("-0.9999"):
            tends = Fraction(far * Decimal(10) ** 80).limit_denominator(10**6)
            return tends if symbol == "l" else ZERO
    raise Refusal(
        f"a sublayer of {whose} multiplies the stream by {branch.multiplied}, which no norm takes "
        f"back: the stream {'explodes' if far > 0 else 'vanishes'} with depth; the coefficient of "
        "x must be 1"
    )


# ---- a rule, derived or of one's own ----


@dataclass(frozen=True)
class Exponents:
    """The exponents of a rule, derived or of one's own, in the network of a selection.

    Raises :class:`Refusal` where the stream explodes.
    """

    selection: Selection
    rule: Rule

    @cached_property
    def update(self) -> update.Update:
        return update.law(self.selection.the_optimizer)

    @cached_property
    def segments(self) -> dict[tuple[str, str], Segment]:
        """The layers by part and growing depth; those of one depth do not count in another."""
        stack = self.selection.the_stack
        return {(p.name, v): self._segment(p, v) for v in stack.depths for p in stack.parts}

    def _segment(self, part: Part, variable: str) -> Segment:
        branches, drifts, placement = [], ZERO, self.selection.the_placement
        for sublayer in dict.fromkeys(part.layer):
            branch = law(placement, sublayer, self.selection.the_norm)
            entry = self.rule.entry(part.name, sublayer.name)
            alpha, beta, rate = (growth(t, variable) for t in (entry.alpha, entry.beta, entry.rate))
            gains = {
                m.name: Power.of(beta if m in sublayer.scaled else 0) for m in sublayer.matrices
            }
            eta = growth(self.rule.eta, variable)
            rates = dict.fromkeys(Role, Power.of(eta)) | {Role.SCALED: Power.of(eta + rate)}
            branches.append(Branch(branch, {"alpha": Power.of(alpha), **gains}, rates))
            whose = f"the placement {placement.name!r}, {placement.equation},"
            drifts += drift(branch, entry.alpha, variable, whose)
        return Segment(
            tuple(branches),
            self.update,
            layers=Fraction(part.depth == variable),
            uses=Power.of(parse(part.uses).exponent(variable)),
            as_large=not (placement.final_norm or placement.normalises_sum),
            drift=drifts,
            # scores that grow with the stream saturate a softmax, and a norm behind forgets them
            fed=CONSTANT,
        )

    def amplification(self, variable: str, aligned: bool) -> Fraction:
        r"""The exponent of what the later part multiplies the first part's share with.

        M cross-attentions of weight c carry a change of the encoder's output to the decoder's.
        Their value and output matrices are independent at initialisation, so that they add as
        :math:`A = \sqrt M c` (``aligned``: :math:`Mc`), once forward and p times through the
        gradient, whichever convention the rule was balanced with.

        Source: derived here.
        """
        later = self.selection.the_stack.parts[-1]
        segment = self.segments[later.name, variable]
        crossing = next((b for b in segment.branches if b.law.sublayer.reads_memory), None)
        if crossing is None:
            raise Refusal("nothing passes from the encoder to a decoder without cross-attention")
        weight = segment.size(crossing, crossing.law.weight)
        assert weight is not None
        # independent ones, but those of one shared layer are alike
        count = segment.layers if aligned else (segment.layers + segment.uses.largest()) / 2
        return (1 + self.update.p) * (count + weight.largest())

    def all(self, step: str = "matrices", aligned: bool = False) -> dict[tuple[str, str], Fraction]:
        """Exponents by (variable, share); share is ``all`` or a part's name.

        ``step`` is ``matrices`` (what the published rules speak of) or ``all`` parameters;
        ``aligned`` takes the cross-attentions as all aligned instead of independent.
        """
        stack, exponents = self.selection.the_stack, {}
        for variable in stack.depths:
            shares = {}
            for part in stack.parts:
                moved = self.segments[part.name, variable].moved
                shares[part.name] = max(m.total for m in moved if m.role in STEPPED[step])
            if len(stack.parts) > 1:
                shares[stack.parts[0].name] += self.amplification(variable, aligned)
            exponents[variable, "all"] = max(shares.values())
            if len(stack.parts) > 1:
                exponents |= {(variable, name): share for name, share in shares.items()}
        return exponents

    def _kinds(self) -> Iterator[tuple[Part, str, dict[str, tuple[Segment, Branch]]]]:
        """Every kind of sublayer of every part, in every growing depth."""
        for part in self.selection.the_stack.parts:
            segments = {v: self.segments[part.name, v] for v in self.selection.the_stack.depths}
            for index, sublayer in enumerate(dict.fromkeys(part.layer)):
                yield part, sublayer.name, {v: (s, s.branches[index]) for v, s in segments.items()}

    def unstable(self) -> str:
        """Where ρ grows with a depth, in one sentence; empty where it does not.

        Empty too where one matrix a branch does not feel it. What a later part multiplies the
        gradient by is left out.
        """
        growing = []
        for part, name, at_depths in self._kinds():
            for variable, (segment, branch) in at_depths.items():
                rho = segment.relative(branch)
                if rho is not None and rho > 0 and len(branch.law.sublayer.scaled) > 1:
                    growing.append(f"{variable}^({rho}) in {name} of the {part.name}")
        if not growing:
            return ""
        return (
            f"Unstable in depth: rho scales as {', '.join(growing)}, and with it the higher orders."
        )

    def warnings(self) -> Iterator[str]:
        """Where S·r² grows, and with it the distance from the identity, a sentence each."""
        for part, name, at_depths in self._kinds():
            # a part's constants may depend on the other part's depth: judged in every depth
            sizes = {v: s.summed_weight(b, 2) or ZERO for v, (s, b) in at_depths.items()}
            powers = "*".join(f"{v}^({power})" for v, power in sizes.items() if power)
            if grows := " and ".join(v for v, power in sizes.items() if power > 0):
                yield (
                    f"the {part.name}'s {part.squares} grows as {powers} in {grows} ({name}): the "
                    "near-identity assumption fails, and with it the orders that the prediction "
                    "rests on"
                )


def relative_updates(selection: Selection, rule: Rule) -> dict[str, str]:
    """ρ = ‖ΔW‖/(η‖W‖) of the scaled matrices at a rule of one's own, by kind of sublayer.

    Texts in N and M, of a stack of one part, where no later one multiplies the gradients.
    """
    degrees, (part,) = update.law(selection.the_optimizer), selection.the_stack.parts
    uses, texts = parse(part.uses) ** degrees.p, {}
    for sublayer in dict.fromkeys(part.layer):
        entry = rule.entry(part.name, sublayer.name)
        response = law(selection.the_placement, sublayer).responses[sublayer.scaled[0].name][0]
        size = degrees.stepped(response.put(common_gains(sublayer)), BETA, ONE) / BETA
        knobs = {"alpha": entry.alpha, "beta": entry.beta}
        try:
            values = {knob: parse(text) for knob, text in knobs.items()}
            rho = str(uses * size.put(values) * parse(entry.rate) * parse(rule.eta))
        except ValueError:  # no monomial
            factors = [f"({text})**({p})" for k, text in knobs.items() if (p := size.exponent(k))]
            factors += [f"({text})" for text in (str(uses), entry.rate, rule.eta) if text != "1"]
            rho = "*".join(factors) or "1"
        texts[sublayer.name] = rho
    return texts


@cache
def rival_rules(selection: Selection) -> Mapping[str, Rule]:
    """The default rules of SGD, Adam and LAMB for the same network, besides the selected one."""
    rules: dict[str, Rule] = {}
    for name in RIVALS:
        if name == selection.optimizer:
            continue
        other = replace(
            selection, optimizer=name, update=None, regime=(), closure=None, one_alpha=False
        )  # fmt: skip
        try:
            rules[name] = table.texts(solve_rule(other))
        except Refusal:
            continue
    return rules


@cache
def predictions(selection: Selection, rule: Rule, step: str = "matrices") -> Predictions:
    """The predicted exponents of a rule, with those of its rivals, for the laboratory.

    Raises :class:`Refusal` where the update has no degrees, :class:`InputError` where a rule
    that the user typed has no growth exponent.
    """
    exponents = Exponents(selection, rule)
    rivals = {
        name: Exponents(selection, other).all(step)
        for name, other in rival_rules(selection).items()
    }
    parts = selection.the_stack.parts
    # which amplification is real is a question to the laboratory
    aligned = exponents.all(step, aligned=True) if len(parts) > 1 else {}
    rows = []
    for key, exponent in exponents.all(step).items():
        beside = [(name, other[key]) for name, other in rivals.items()]
        if key[1] == parts[0].name and len(parts) > 1:
            beside.append(("aligned cross-attentions", aligned[key]))
        rows.append(Prediction(*key, exponent=exponent, rivals=tuple(beside)))
    return Predictions(tuple(rows), warnings=tuple(exponents.warnings()))


# ---- every rule under every optimizer ----


@dataclass(frozen=True)
class Cell:
    """The exponents of one optimizer's rule under another optimizer, by depth symbol."""

    rule: str
    optimizer: str
    exponents: dict[str, Fraction]

    @property
    def balanced(self) -> bool:
        """Whether the update stays of order η at any depth."""
        return all(e == 0 for e in self.exponents.values())


@dataclass(frozen=True)
class CrossTable:
    """All pairs; ``refused`` holds the sentence where an optimizer has no rule here."""

    select: Selection
    rules: dict[str, Rule]
    cells: tuple[Cell, ...]
    refused: dict[str, str]

    def cell(self, rule: str, optimizer: str) -> Cell:
        return next(c for c in self.cells if (c.rule, c.optimizer) == (rule, optimizer))


def cross_table(names: tuple[str, ...] | None = None, base: Selection | None = None) -> CrossTable:
    """Every rule under every optimizer, for the network of ``base`` (default: post-LN encoder)."""
    chosen = names or tuple(optimizers())
    start = base or Selection(optimizer=chosen[0])
    rules: dict[str, Rule] = {}
    refused: dict[str, str] = {}
    selections = {n: replace(start, optimizer=n, update=None, regime=()) for n in chosen}
    for name, selection in selections.items():
        try:
            rules[name] = table.texts(solve_rule(selection))
        except Refusal as refusal:
            refused[name] = str(refusal)
    cells = []
    for under in rules:
        for name, rule in rules.items():
            exponents = Exponents(selections[under], rule).all()
            whole = {v: e for (v, share), e in exponents.items() if share == "all"}
            cells.append(Cell(name, under, whole))
    return CrossTable(start, rules, tuple(cells), refused)
