r"""From a selection to its rule: one linear solve in logarithms for each part of the stack.

One update through a scaled matrix moves the output by :math:`\gamma^{1+p}|\theta|^q`, γ the
response of the sublayer's output. Balance: the S sublayers of a part together move it by η, each
by η/S. A matrix that n sublayers use has n times the gradient: its update is :math:`n^p` times as
large. A closure is one more condition for each kind of sublayer. A part that a later one reads
is multiplied by A on its way (:class:`Amplification`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations

from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.monomial import ONE, Monomial, Solution, parse, read, solve
from deepnet_theory.spec.closure import Closure, closure, closures
from deepnet_theory.spec.errors import InputError, Refusal, shown
from deepnet_theory.spec.expression import DEPTH, MAX_EXPONENT
from deepnet_theory.spec.selection import AMPLIFICATIONS, Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Role, Sublayer, letters

ETA = "eta"  # the learning rate's factor where it is a knob


@dataclass(frozen=True)
class Kind:
    """Sublayers of a part that share α, β and κ; sizes in its own symbols of these."""

    name: str  # "*" where every sublayer of the part behaves alike
    members: tuple[str, ...]
    law: laws.Law
    gains: dict[str, Monomial]  # what stands for α and every gain
    alpha: str
    beta: str
    rate: str
    increment: Monomial  # of one sublayer, per η
    weight: Monomial  # r
    relative: Monomial  # ‖ΔW‖/(η‖W‖) of a scaled matrix, κ left out

    @property
    def matrices(self) -> int:
        """m_s, the number of scaled matrices of a branch."""
        return len(self.law.sublayer.scaled)


@dataclass(frozen=True)
class Amplification:
    r"""A, how the later part's K cross-attentions magnify a change of this one's output.

    :math:`A = Kc` where all are aligned, :math:`\sqrt K c` in independent directions. The published
    form counts it once, and not at all where it does not grow, since the part must be balanced at
    its own output too; the others take it 1 + p times, forward and back through the gradient.
    """

    form: str
    size: Monomial
    factor: Monomial  # what the balance is multiplied with
    backward: Monomial  # the share of it that comes with the update
    upstream: Monomial  # and with the gradient


@dataclass(frozen=True)
class Balanced:
    part: Part
    kinds: tuple[Kind, ...]
    closure: Closure
    values: dict[str, Monomial]
    amplification: Amplification | None
    joined: tuple[Closure, ...] = ()  # the closures whose conditions picked the rule
    rated: tuple[str, ...] = ()  # the kinds that κ is a knob of

    @property
    def count(self) -> Monomial:
        """S, the residual sublayers of the part."""
        return Monomial.number(self.part.sublayers_per_layer) * Monomial.of(self.part.depth)

    @property
    def uses(self) -> Monomial:
        """n, how many of them use one matrix."""
        return parse(self.part.uses)

    def squares(self, kind: Kind) -> Monomial:
        """S·n·r²: the n uses of a branch add alike, S/n distinct ones as independent directions."""
        return self.count * self.uses * self.weight(kind) ** 2

    def count_of(self, parameter: str, on_sum: bool) -> Monomial:
        """How many of a parameter there are, one in a sublayer or in a normalised sum."""
        if on_sum and parameter in laws.OF_NORMS:
            own = zip(self.part.shares, self.part.parallel, strict=True)
            sums = sum((share for share, joins in own if not joins), Fraction(0))
            return Monomial.number(sums) * Monomial.of(self.part.depth)
        return self.count

    @property
    def eta(self) -> Monomial:
        return self.values.get(ETA, ONE)

    @property
    def factor(self) -> Monomial:
        """What the later part multiplies this part's increment with."""
        return self.amplification.factor if self.amplification else ONE

    @property
    def backward(self) -> Monomial:
        """What it multiplies the updates of this one with."""
        return self.amplification.backward if self.amplification else ONE

    @property
    def upstream(self) -> Monomial:
        """What it multiplies the gradients of this one with."""
        return self.amplification.upstream if self.amplification else ONE

    def at(self, size: Monomial) -> Monomial:
        """A size in the knobs of a kind, with the solved values put in."""
        return size.put(self.values)

    def alpha(self, kind: Kind) -> Monomial:
        return self.values[kind.alpha]

    def beta(self, kind: Kind) -> Monomial:
        return self.values[kind.beta]

    def rate(self, kind: Kind) -> Monomial:
        """κ, the learning-rate multiplier of a kind's scaled matrices."""
        return self.values.get(kind.rate, ONE)

    def weight(self, kind: Kind) -> Monomial:
        """r, the branch's weight beside the identity path."""
        return self.at(kind.weight)

    def relative(self, kind: Kind) -> Monomial:
        """ρ = ‖ΔW‖/(η‖W‖) of a scaled matrix, κ and what comes with the gradient included."""
        return self.at(kind.relative) * self.eta * self.rate(kind) * self.backward

    def kind_of(self, sublayer: str) -> Kind:
        return next(kind for kind in self.kinds if sublayer in kind.members)


@dataclass(frozen=True)
class Attempt:
    """Closures joined to the balance, the kinds whose κ is a knob, and what comes of it."""

    joined: tuple[Closure, ...]
    rated: tuple[Kind, ...]
    solution: Solution | None
    broken: str | None  # the premise that the solution breaks

    @property
    def holds(self) -> bool:
        return self.solution is not None and not self.solution.free and self.broken is None


def constant(method: str, matrices: int, of: update.Update) -> Monomial:
    r"""What a route keeps of the number of matrices.

    The probe route drops it. The lemma takes all matrices of a branch as one vector, so that
    gradient and parameter are :math:`\sqrt m` times one matrix's: :math:`m^{(1+p+q)/2}`.
    """
    if method == "probe":
        return ONE
    return Monomial.number(matrices) ** ((1 + of.p + of.q) / 2)


def default_closure(method: str, of: update.Update, law: laws.Law) -> Closure:
    """The closure that is taken where none is asked for, from (p, q) and the placement's law."""
    gains, scaled = laws.common_gains(law.sublayer), law.sublayer.scaled[0].name
    if not law.has_alpha:
        (response,) = {r.put(gains) for r in law.responses[scaled]}
        # what a step does feels no knob behind a norm within the branch: κ is left to balance
        name = "unit-residual" if response.exponent("beta") or of.q else "complete"
    elif not law.weight.put(gains).exponent("beta"):
        # before the next case: with α = 1 a branch that does not feel β has no knob left
        name = "unit-init"
    elif method != "probe":
        name = "parameter-norm"
    elif of.p == 0 and of.q == 1:
        name = "unit-residual"
    else:
        name = "symmetric"
    return closure(name)


@dataclass(frozen=True)
class Rule:
    """A selection and all its parts at the rule."""

    selection: Selection
    update: update.Update
    closure: Closure
    parts: tuple[Balanced, ...]

    def part(self, name: str) -> Balanced:
        return next(part for part in self.parts if part.part.name == name)


def solve_rule(selection: Selection) -> Rule:
    """The rule of a selection, cached.

    Raises :class:`Refusal` where no rule exists or a law is missing; the sentence says which.
    """
    return _solve_rule(selection, selection.named)


@cache
def _solve_rule(selection: Selection, _named: tuple[object, ...]) -> Rule:
    # by what its names stand for, since a folder of values may change
    problem = _Problem(selection)
    parts = problem.solved
    return Rule(selection, problem.update, problem.closure, parts)


def at_sizes(selection: Selection, of: Rule) -> Rule:
    r"""The rule of a selection at the sizes α and β of another optimizer's rule.

    The learning rate alone is left to balance, :math:`\eta\kappa = (SA\,\mathrm{increment})^{-1}`.
    Raises :class:`Refusal` where the update has no law, or breaks a premise there.
    """
    problem = _Problem(selection)
    parts = problem.at(of)
    return Rule(selection, problem.update, of.closure, parts)


def closure_of(selection: Selection) -> Closure:
    """The closure asked for, or the default."""
    return _Problem(selection).closure


@dataclass(frozen=True)
class _Problem:
    selection: Selection

    @cached_property
    def update(self) -> update.Update:
        """The law of the update; refused where it does not go down the gradient."""
        return update.descending(self.selection.the_optimizer, self.selection.allow_ascent)

    @cached_property
    def closure(self) -> Closure:
        if self.selection.the_closure is not None:
            return self.selection.the_closure
        if len(self.selection.placements) > 1:  # a condition on α is not one on all kinds
            return closure("complete")
        every = [
            default_closure(self.selection.method, self.update, self.law(s))
            for s in self.selection.the_stack.parts[0].layer
        ]
        # the first sublayer's, unless another one leaves κ alone to balance
        return next((c for c in every if "rate" in c.knobs), every[0])

    def law(self, sublayer: Sublayer) -> laws.Law:
        return laws.law(self.selection.placed(sublayer), sublayer)

    @cached_property
    def solved(self) -> tuple[Balanced, ...]:
        """Every part, solved from the last on: nothing amplifies the last."""
        parts = self.selection.the_stack.parts
        if len(self.selection.placements) > 1 and self.selection.method != "probe":
            raise Refusal(
                f"the {self.selection.method} route runs through sublayers of one residual "
                "equation, and here there are several; use the method probe"
            )
        for sublayer in self.selection.the_stack.sublayers:
            require_one_gain(sublayer)
            if self.selection.method != "probe":
                require_one_expert(sublayer, self.selection.method)
            if self.selection.method == "moments":
                require_moments(sublayer)
        if self.selection.method != "probe" and any(part.period > 1 for part in parts):
            raise Refusal(
                f"the {self.selection.method} route runs through layers that are alike, and here "
                "some lack a sublayer; use the method probe"
            )
        if self.selection.method != "probe" and any(map(self._unbounded, parts)):
            raise Refusal(
                f"the {self.selection.method} route has no law for the placement "
                f"{self.selection.placement!r}: a stream that no norm takes back needs a branch "
                "that one does; use the method probe"
            )
        if len(self.selection.placements) > 1 and len(parts) > 1:
            raise Refusal(
                "how a decoder of several placements amplifies its encoder has no law here"
            )
        _ = self.update
        if len(parts) > 1 and "eta" in self.closure.knobs:
            raise Refusal(
                "one learning rate cannot balance the encoder and the decoder at once; "
                "use another closure, or balance each part of the stack by itself"
            )
        if len(parts) > 1 and not parts[-1].crossings:
            raise Refusal(
                "the decoder's layer has no cross-attention, so the encoder does not reach the "
                "output and no rule follows for it; use the stack decoder"
            )
        found: list[Balanced] = []
        for part in reversed(parts):
            found.append(self.balance(part, found[-1] if found else None))
        return tuple(reversed(found))

    def kinds(self, part: Part) -> tuple[Kind, ...]:
        """The kinds of sublayers of a part; one kind ``"*"`` where all behave alike."""
        distinct = list({s.name: s for s in part.layer}.values())
        groups = {s.name: self.kind(part, (s,), s.name) for s in distinct}
        alike = {self._signature(kind) for kind in groups.values()}
        if len(alike) == 1:
            return (self.kind(part, tuple(distinct), "*"),)
        return tuple(groups.values())

    def _signature(self, kind: Kind) -> tuple[object, ...]:
        bare = {kind.alpha: Monomial.of("alpha"), kind.beta: Monomial.of("beta")}
        return (
            self.selection.placed(kind.law.sublayer),
            kind.increment.put(bare),
            kind.weight.put(bare),
            kind.matrices,
        )

    def kind(self, part: Part, of: tuple[Sublayer, ...], name: str) -> Kind:
        law = self.law(of[0])
        alpha = f"alpha {part.name} {'*' if self.selection.has_one_alpha(part) else name}"
        beta = f"beta {part.name} {name}"
        own = {"alpha": Monomial.of(alpha), "beta": Monomial.of(beta)}
        gains = {g: m.put(own) for g, m in laws.common_gains(of[0]).items()}
        gains["alpha"] = own["alpha"]
        scaled = of[0].scaled[0].name
        (response,) = {r.put(gains) for r in law.responses[scaled]}
        size = own["beta"]
        times = constant(self.selection.method, len(of[0].scaled), self.update)
        reached = response * law.reached(scaled)
        moved = (parse(part.uses) * reached) ** self.update.p * size**self.update.q
        return Kind(
            name=name,
            members=tuple(s.name for s in of),
            law=law,
            gains=gains,
            alpha=alpha,
            beta=beta,
            rate=f"rate {part.name} {name}",
            increment=times * response * moved,
            weight=law.weight.put(gains),
            relative=moved / size,
        )

    # ---- the balance of one part ----

    def balance(self, part: Part, later: Balanced | None) -> Balanced:
        kinds = self.kinds(part)
        amplified = None if later is None else self.amplification(later)
        bare = Balanced(part, kinds, self.closure, {}, amplified)
        attempt = self.attempt(bare, self.closure)
        solution = attempt.solution
        if solution is None:
            raise self._no_solution(bare)
        if solution.free:
            free = ", ".join(_symbol(u, self.selection) for u in solution.free)
            raise Refusal(
                f"the closure {self.closure.name!r} leaves {free} undetermined in the "
                f"{part.name}: the balance under {self._named} does not depend on it",
                lambda: self._alternatives(bare),
            )
        if attempt.broken is not None:
            raise Refusal(attempt.broken, lambda: self._alternatives(bare))
        rated = tuple(kind.name for kind in attempt.rated)
        return replace(bare, values=solution.values, joined=attempt.joined, rated=rated)

    def at(self, of: Rule) -> tuple[Balanced, ...]:
        """Every part at the sizes of another rule, balanced by κ, and by η where that is a knob."""
        found: list[Balanced] = []
        for sized in reversed(of.parts):
            part = sized.part
            kinds = tuple(self.kind(part, (s,), s.name) for s in dict.fromkeys(part.layer))
            amplified = self.amplification(found[-1]) if found else None
            at = Balanced(
                part, kinds, of.closure, {}, amplified, rated=tuple(k.name for k in kinds)
            )
            values = {kind.beta: sized.beta(sized.kind_of(kind.name)) for kind in kinds}
            values |= {kind.alpha: sized.alpha(sized.kind_of(kind.name)) for kind in kinds}
            rates = [ONE / (at.count * at.factor * k.increment.put(values)) for k in kinds]
            eta = rates[-1] if "eta" in of.closure.knobs else ONE
            values |= {k.rate: rate / eta for k, rate in zip(kinds, rates, strict=True)}
            at = replace(at, values={**values, ETA: eta})
            if (broken := self.broken_premise(at)) is not None:
                raise Refusal(broken)
            found.append(at)
        return tuple(reversed(found))

    def attempt(self, bare: Balanced, chosen: Closure) -> Attempt:
        """The first attempt that has one solution and keeps the premises; else the first of all."""
        first = None
        for joined, rated in self._attempts(bare.kinds, chosen):
            unknowns = [u for kind in bare.kinds for u in (kind.alpha, kind.beta)]
            unknowns += [ETA] * ("eta" in chosen.knobs) + [kind.rate for kind in rated]
            solution = solve(self._conditions(bare, joined, rated), list(dict.fromkeys(unknowns)))
            broken = None
            if solution is not None and not solution.free:
                broken = self.broken_premise(replace(bare, closure=chosen, values=solution.values))
            attempt = Attempt(joined, rated, solution, broken)
            if attempt.holds:
                return attempt
            first = first or attempt
        assert first is not None
        return first

    def _attempts(
        self, kinds: tuple[Kind, ...], chosen: Closure
    ) -> Iterator[tuple[tuple[Closure, ...], tuple[Kind, ...]]]:
        """Closures to be joined, and the kinds whose κ is a knob.

        Without a κ before one; where every point of a curve does, the default closure's point.
        One matrix a branch has no order beyond the first, so that any closure does without κ.
        """
        yield (chosen,), ()
        if "rate" not in chosen.knobs:
            return
        # the point of a curve is the same by any route
        default = default_closure("probe", self.update, kinds[0].law)
        yield (chosen, default), ()
        if all(kind.matrices == 1 for kind in kinds):
            yield (default,), ()
        for several in range(1, len(kinds) + 1):
            for rated in combinations(reversed(kinds), several):
                yield (chosen,), rated
                yield (chosen, default), rated

    def _conditions(
        self, bare: Balanced, joined: tuple[Closure, ...], rated: tuple[Kind, ...]
    ) -> Iterator[Monomial]:
        """Balance and closure of every kind, each a monomial that must be 1."""
        eta = Monomial.of(ETA) if "eta" in joined[0].knobs else ONE
        for index, kind in enumerate(bare.kinds):
            own = eta * (Monomial.of(kind.rate) if kind in rated else ONE)
            yield bare.count * bare.factor * own * kind.increment
            names = {
                "alpha": Monomial.of(kind.alpha),
                "beta": Monomial.of(kind.beta),
                "m": Monomial.number(kind.matrices),
                "rho": kind.relative * own * bare.backward,
            }
            for one in joined:
                # one α for all kinds is picked by the first one's condition; ρ is of each kind
                one_alpha = self.selection.has_one_alpha(bare.part)
                if index and one_alpha and "rate" not in one.knobs:
                    continue
                for left, right in one.expressions:
                    yield read(left.root, names) / read(right.root, names)
            if not kind.law.has_alpha:
                yield Monomial.of(kind.alpha)

    def amplification(self, later: Balanced) -> Amplification:
        form = self.selection.amplification
        if form == "independent" and later.part.uses != "1":
            raise Refusal(
                "cross-attentions of one shared layer are alike, and the amplification "
                "'independent' takes them as independent directions: a law of both is missing; "
                "use published or worst-case"
            )
        factor, size = self.amplifies(later, form)
        times = Fraction(0) if form == "published" else self.update.p
        upstream = ONE if form == "published" else size
        return Amplification(form, size, factor, size**times, upstream)

    def amplifies(self, later: Balanced, form: str) -> tuple[Monomial, Monomial]:
        reading = next(s.name for s in later.part.layer if s.reads_memory)
        count = Monomial.number(later.part.crossings) * Monomial.of(later.part.depth)
        weight = later.weight(later.kind_of(reading))
        size = (count ** Fraction(1, 2) if form == "independent" else count) * weight
        if form != "published":
            return size ** (1 + self.update.p), size
        return (size if size.exponent(later.part.depth) > 0 else ONE), size

    # ---- refusals ----

    def _alternatives(self, bare: Balanced) -> str:
        """The closures that do balance, found by solving with each; in words."""
        others = (c for c in closures().values() if c.name != self.closure.name)
        works = [other.name for other in others if self.attempt(bare, other).holds]
        return f"use the closure {' or '.join(works)}" if works else "no closure balances"

    def _no_solution(self, bare: Balanced) -> Refusal:
        felt = [
            name
            for name in ("alpha", "beta")
            if any(
                kind.increment.exponent(getattr(kind, name))
                for kind in bare.kinds
                if name != "alpha" or kind.law.has_alpha
            )
        ]
        text, where = self.selection.the_optimizer.update, self._named
        if not felt:
            return Refusal(
                f"under the update {text!r} (degree p = {self.update.p}, q = {self.update.q}) one "
                "step changes the output by an amount that neither alpha nor beta can change with "
                f"placement {where!r}; the learning rate can: use the closure learning-rate"
            )
        return Refusal(
            f"the closure {self.closure.name!r} leaves no knob that balances the "
            f"{bare.part.name} under the update {text!r} with placement {where!r}: the increment "
            f"depends on {' and '.join(felt)} alone, or on a product that the closure fixes",
            lambda: self._alternatives(bare),
        )

    # ---- premises, judged at the rule ----

    def broken_premise(self, at: Balanced) -> str | None:
        for kind in at.kinds:
            for judge in (self._stream_size, self._far_from_identity, self._end_of_regime):
                if (broken := judge(at, kind)) is not None:
                    return broken
        return None

    @property
    def _named(self) -> str:
        return " and ".join(placement.name for placement in self.selection.placements)

    def _placed(self, kind: Kind) -> str:
        placement = self.selection.placed(kind.law.sublayer)
        return f"of the placement {placement.name!r}, {placement.equation}"

    def _stream_size(self, at: Balanced, kind: Kind) -> str | None:
        """A stream that no norm takes back keeps its size only where its coefficient is 1."""
        if kind.law.keeps_stream:
            return None
        assert kind.law.multiplied is not None
        times = kind.law.multiplied.leading.put({"alpha": at.alpha(kind)})
        if times == ONE and len(kind.law.multiplied.terms) == 1:
            return None
        growth = times.exponent(at.part.depth)
        explodes = growth > 0 or (growth == 0 and not times.symbols and times.at() > 1)
        return (
            f"with the closure {at.closure.name!r} a sublayer {self._placed(kind)} multiplies the "
            f"stream by {times}, and no norm takes it back: after {at.count} sublayers "
            f"the stream is ({times})**({at.count}), which "
            f"{'explodes' if explodes else 'vanishes'} with depth; the coefficient of x must be 1"
        )

    def _unbounded(self, part: Part) -> bool:
        """Whether a branch feels the size of a stream that no norm takes back."""
        added = (self.law(s).added.exponent("stream") for s in part.layer)
        return any(added) and not normalises(self.selection, part)

    def _far_from_identity(self, at: Balanced, kind: Kind) -> str | None:
        """Where S·r² grows the stack leaves the neighbourhood of the identity."""
        depth = at.part.depth
        growth, squares = at.squares(kind).exponent(depth), at.part.squares
        if growth <= 0:
            return None
        if "eta" not in at.closure.knobs or self._unbounded(at.part):
            return (
                f"the closure {at.closure.name!r} makes {squares} grow as {depth}^({growth}): the "
                "stack leaves the neighbourhood of the identity, where alone the orders of "
                "magnitude hold, and the law beyond it is missing"
            )
        shrunk = shrinkage(normalises(self.selection, at.part), self.update, growth)
        if shrunk == 0:
            return None  # the balance still holds; the remarks say that the premises fail
        return (
            f"the closure {at.closure.name!r} makes {squares} grow as {depth}^({growth}), and with "
            f"it the stream {self._placed(kind)}, which no norm takes back before the last: the "
            f"sublayers' changes shrink by {depth}^({shrunk}), so that they do not add to "
            f"{at.count} equal ones, which the balance rests on"
        )

    def _end_of_regime(self, at: Balanced, kind: Kind) -> str | None:
        """A stated regime holds at the rule in every depth, or where it ends is known."""
        stepped = (*kind.law.sublayer.scaled, *kind.law.sublayer.unscaled)
        for regime in self.update.regimes:
            if regime.is_floor:
                continue  # the depth where the rule reaches it is computed, and said
            for matrix in stepped:
                size = at.beta(kind) if matrix.role is Role.SCALED else ONE
                sizes = {"eta": at.eta, "theta": size}
                sizes["g"] = at.at(kind.law.responses[matrix.name][0].put(kind.gains))
                sides = regime.larger_degree.put(sizes), regime.smaller_degree.put(sizes)
                for depth in self.selection.the_stack.depths:
                    large, small = (side.exponent(depth) for side in sides)
                    if large < small:
                        return (
                            f"the stated regime {regime} ends: the closure {at.closure.name!r} "
                            f"leads to a rule where, for the {matrix.name} of the "
                            f"{at.part.name}, {regime.larger} scales as {depth}^({large}) and "
                            f"{regime.smaller} as {depth}^({small}), so that the latter is the "
                            "larger one in depth and the update another"
                        )
        return None


MOMENTS_OF = ("ffn", "attention", "cross")


def require_one_expert(sublayer: Sublayer, method: str) -> None:
    """Raise :class:`Refusal` where a route has no law for experts that a router chooses."""
    if sublayer.experts > 1:
        raise Refusal(
            f"the method {method!r} has no law for the mixture of experts {sublayer.name!r}; use "
            "the method probe"
        )


def require_moments(sublayer: Sublayer) -> None:
    """Raise :class:`Refusal` where the moment route has no second moment of a branch."""
    if sublayer.name not in MOMENTS_OF:
        raise Refusal(
            f"the moment route has no second moment of the branch {sublayer.name!r}: it is no "
            "product of two matrices around a mask, so that a change of its input does not pass it "
            f"by the factor of its size (it has the moments of {', '.join(MOMENTS_OF)}); "
            "use the method probe or lemma"
        )


def require_one_gain(sublayer: Sublayer) -> None:
    """Raise :class:`Refusal` where no one gain β balances the scaled matrices of a branch."""
    jet = laws.branch(sublayer)
    gains = laws.common_gains(sublayer)
    if len({jet.moved[m.name].size.put(gains) for m in sublayer.scaled}) != 1:
        raise laws.no_one_gain(sublayer)


def normalises(selection: Selection, part: Part) -> bool:
    """Whether a norm stands on the stream in every layer, so that it does not grow."""
    return any(laws.law(selection.placed(s), s).normalised for s in part.everywhere)


def shrinkage(normalised: bool, of: update.Update, growth: Fraction) -> Fraction:
    r"""By what exponent a stream that grows, :math:`\|x_l\|^2 \sim 1 + l r^2`, shrinks the sum.

    ``growth`` is the exponent of :math:`S r^2`. The final norm's Jacobian and the gradient that
    comes back through it are both of order :math:`1/\|x_S\|`. A stream that is normalised in
    every layer does not grow.

    Source: derived here; the growth is that of the Pre/Post norm note.
    """
    if normalised or growth <= 0:
        return Fraction(0)
    return growth * min(Fraction(1), (1 + of.p) / 2)


def _symbol(unknown: str, selection: Selection) -> str:
    """An unknown as people write it: ``alpha``, or ``alpha_e`` where there are two parts."""
    name, part, kind = unknown.split(" ")
    suffix = "" if len(selection.the_stack.parts) == 1 else f"_{part[0]}"
    return name + suffix + ("" if kind == "*" else "_" + letters(kind))


def written(value: Monomial, selection: Selection) -> str:
    """A value in the grammar of depths, whose exponents are bounded.

    Raises :class:`Refusal` where an exponent is beyond the grammar.
    """
    text = str(value)
    try:
        DEPTH.parse(text)
    except InputError:
        raise Refusal(
            f"the rule of the update {shown(selection.the_optimizer.update)} would be "
            f"{shown(text)}, and no rule is written with an exponent whose numerator or "
            f"denominator is beyond {MAX_EXPONENT}; give the update powers of smaller denominators"
        ) from None
    return text


def amplifications(rule: Rule) -> tuple[tuple[str, Monomial], ...]:
    """What the first part's balance would be multiplied with in each form."""
    problem = _Problem(rule.selection)
    return tuple((f, problem.amplifies(rule.parts[-1], f)[0]) for f in AMPLIFICATIONS)
