r"""From a selection to its rule: one linear solve in logarithms for each part of the stack.

One update through a scaled matrix changes the output by :math:`\gamma^{1+p}|\theta|^q`, γ the
response of the sublayer's output. Balance: the S sublayers of a part together move it by η, each
by η/S. A matrix that n sublayers use has n times the gradient: its update is :math:`n^p` times as
large. A closure is one more condition for each kind of sublayer. A part that a later one reads
is multiplied by A on its way (:meth:`_Problem.amplification`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations

from deepnet_theory.definitions.expression import DEPTH, MAX_EXPONENT
from deepnet_theory.definitions.outcome import InputError, Refusal, shown
from deepnet_theory.definitions.rule import CLOSURES, COMPLETE, PUBLISHED, Closure, closure
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import Sublayer, letters
from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.monomial import ONE, Monomial, read, solve

ETA = "eta"  # the learning rate's factor where it is a knob


@dataclass(frozen=True)
class Kind:
    """Sublayers of a part that share α, β and κ.

    Until the rule is solved these are symbols of the kind's own, and every size a monomial in
    them and in ``eta``; :meth:`put` makes the kind at a rule.
    """

    name: str  # "*" where every sublayer of the part behaves alike
    members: tuple[str, ...]
    law: laws.Law
    alpha: Monomial
    beta: Monomial
    rate: Monomial  # κ, the learning-rate multiplier of the scaled matrices
    weight: Monomial  # r, the branch beside the identity path
    moved: Monomial  # the output change by S such sublayers, in units of the user's η
    relative: Monomial  # ρ = ‖ΔW‖/(η‖W‖) of a scaled matrix

    def put(self, values: Mapping[str, Monomial]) -> Kind:
        sizes = ("alpha", "beta", "rate", "weight", "moved", "relative")
        moved = {size: getattr(self, size).put(values) for size in sizes}
        return replace(self, **moved)

    @property
    def matrices(self) -> int:
        """m_s, the number of scaled matrices of a branch."""
        return len(self.law.sublayer.scaled)

    @property
    def degree(self) -> int:
        """How many of its factors in a branch are scaled matrices; one may be there twice."""
        return len(laws.factors(self.law.sublayer))


@dataclass(frozen=True)
class Balanced:
    """A part: its kinds before the rule is solved, and at the rule."""

    part: Part
    kinds: tuple[Kind, ...]
    closure: Closure
    amplification: Monomial = ONE  # by the cross-attentions of the later part
    eta: Monomial = ONE
    joined: tuple[Closure, ...] = ()  # the closures whose conditions picked the rule
    rated: tuple[str, ...] = ()  # the kinds that κ is a knob of

    def at(self, values: Mapping[str, Monomial], rated: tuple[Kind, ...]) -> Balanced:
        """The part at values of its knobs, κ among them for the kinds that are ``rated``."""
        kinds, names = tuple(kind.put(values) for kind in self.kinds), (k.name for k in rated)
        return replace(self, kinds=kinds, eta=values.get(ETA, ONE), rated=tuple(names))

    @cached_property
    def count(self) -> Monomial:
        """S, the residual sublayers of the part."""
        return Monomial.number(len(self.part.layer)) * Monomial.of(self.part.depth)

    def squares(self, kind: Kind) -> Monomial:
        """S·r²: branches add as independent directions."""
        return self.count * kind.weight**2

    def kind_of(self, sublayer: str) -> Kind:
        return next(kind for kind in self.kinds if sublayer in kind.members)


@dataclass(frozen=True)
class DerivedRule:
    """A selection and all its parts at the rule."""

    selection: Selection
    update: update.Update
    closure: Closure
    parts: tuple[Balanced, ...]

    def kind(self, part: str, sublayer: str) -> Kind:
        return next(p for p in self.parts if p.part.name == part).kind_of(sublayer)


@cache
def solve_rule(selection: Selection) -> DerivedRule:
    """The rule of a selection: that of the closure ``complete`` where none is named.

    Where ``complete`` has none, the source's. Raises :class:`Refusal` where no rule exists.
    """
    if selection.closure is None:
        source = solve_rule(replace(selection, closure=PUBLISHED))  # no rule at all without one
        with suppress(Refusal):
            return solve_rule(replace(selection, closure=COMPLETE.name))
        return source
    problem = _Problem(selection)
    parts = problem.solved()
    for kind in (kind for part in parts for kind in part.kinds):
        for value in (kind.alpha, kind.beta, kind.rate, kind.relative):
            written(value, selection)  # refused here where it cannot be
    return DerivedRule(selection, problem.update, problem.closure, parts)


def at_sizes(selection: Selection, sized: DerivedRule) -> DerivedRule:
    r"""The rule of a selection at the sizes α and β of another optimizer's rule.

    The learning rate alone is left to balance, :math:`\eta\kappa = (SA\,\mathrm{increment})^{-1}`.
    Raises :class:`Refusal` where the update has no law, or breaks a premise there.
    """
    problem = _Problem(selection)
    parts: list[Balanced] = []
    for other in reversed(sized.parts):
        bare = problem.bare(other.part, parts[-1] if parts else None, grouped=False)
        values: dict[str, Monomial] = {}
        for kind in bare.kinds:
            theirs = other.kind_of(kind.name)
            values |= {str(kind.alpha): theirs.alpha, str(kind.beta): theirs.beta}
        alone = values | {ETA: ONE} | {str(kind.rate): ONE for kind in bare.kinds}
        rates = {str(kind.rate): kind.moved.put(alone) ** -1 for kind in bare.kinds}
        eta = [*rates.values()][-1] if "eta" in sized.closure.knobs else ONE
        values |= {ETA: eta} | {name: rate / eta for name, rate in rates.items()}
        balanced = replace(bare, closure=sized.closure).at(values, rated=bare.kinds)
        if (broken := problem.broken_premise(balanced)) is not None:
            raise Refusal(broken)
        parts.append(balanced)
    return DerivedRule(selection, problem.update, sized.closure, tuple(reversed(parts)))


def default_closure(method: str, of_update: update.Update, law: laws.Law) -> Closure:
    """The closure that the source of the method takes, from (p, q) and the placement's law."""
    gains = laws.common_gains(law.sublayer)
    if not law.has_alpha:
        (response,) = {r.put(gains) for r in law.responses[law.sublayer.scaled[0].name]}
        # behind a norm within the branch no knob changes a step's effect: κ is left to balance
        name = "unit-residual" if response.exponent("beta") or of_update.q else "complete"
    elif not law.weight.put(gains).exponent("beta"):
        # before the next case: with α = 1 a branch that β does not change has no knob left
        name = "unit-init"
    elif method != "probe":
        name = "parameter-norm"
    elif of_update.p == 0 and of_update.q == 1:
        name = "unit-residual"
    else:
        name = "symmetric"
    return closure(name)


class BrokenPremise(Refusal):
    """A rule that balances, where what the balance rests on does not hold."""


@dataclass(frozen=True)
class _Problem:
    selection: Selection

    @cached_property
    def update(self) -> update.Update:
        """The law of the update; refused where it does not go down the gradient."""
        return update.descending(self.selection.the_optimizer)

    @cached_property
    def closure(self) -> Closure:
        if self.selection.the_closure is not None:
            return self.selection.the_closure
        defaults = [
            default_closure(self.selection.method, self.update, self.law(s))
            for s in self.selection.the_stack.parts[0].layer
        ]
        # the first sublayer's, unless another one leaves κ alone to balance
        return next((c for c in defaults if "rate" in c.knobs), defaults[0])

    def law(self, sublayer: Sublayer) -> laws.Law:
        return laws.law(self.selection.the_placement, sublayer)

    def solved(self) -> tuple[Balanced, ...]:
        """Every part, solved from the last on: nothing amplifies the last."""
        self.require_laws()
        parts: list[Balanced] = []
        # one part at a time: the later one's weights are numbers where the earlier one needs them
        for part in reversed(self.selection.the_stack.parts):
            found = self.attempt(self.bare(part, parts[-1] if parts else None), self.closure)
            if isinstance(found, Refusal):
                raise found
            parts.append(found)
        return tuple(reversed(parts))

    # ---- a part before its rule ----

    def bare(self, part: Part, later: Balanced | None = None, grouped: bool = True) -> Balanced:
        """A part with symbols for its knobs; one kind ``"*"`` where all sublayers behave alike."""
        bare = Balanced(part, (), self.closure, self.amplification(later))
        distinct = tuple({s.name: s for s in part.layer}.values())
        shared = [self.kind(bare, (s,), "*") for s in distinct]  # at the same symbols
        if grouped and len({(kind.moved, kind.weight, kind.matrices) for kind in shared}) == 1:
            return replace(bare, kinds=(self.kind(bare, distinct, "*"),))
        return replace(bare, kinds=tuple(self.kind(bare, (s,), s.name) for s in distinct))

    def kind(self, bare: Balanced, sublayers: tuple[Sublayer, ...], name: str) -> Kind:
        part, (first, *_) = bare.part, sublayers
        shared = "*" if self.selection.has_one_alpha(part) else name
        alpha = Monomial.of(f"alpha {part.name} {shared}")
        beta, rate = (Monomial.of(f"{knob} {part.name} {name}") for knob in ("beta", "rate"))
        law = self.law(first)
        gains, scaled = laws.common_gains(first, alpha, beta), first.scaled[0].name
        (response,) = {r.put(gains) for r in law.responses[scaled]}
        reached = response * law.reached(scaled)
        step = self.update.stepped(reached, beta, rate * Monomial.of(ETA))
        times = ONE  # the probe route drops the number of matrices
        if self.selection.method != "probe":
            # the lemma takes all m matrices of a branch as one vector, so that gradient and
            # parameter are sqrt(m) times one matrix's
            power = (1 + self.update.p + self.update.q) / 2
            times = Monomial.number(len(first.scaled)) ** power
        names, weight = tuple(s.name for s in sublayers), law.weight.put(gains)
        moved = bare.count * bare.amplification * times * response * step
        return Kind(name, names, law, alpha, beta, rate, weight, moved, step / beta)

    def amplification(self, later: Balanced | None) -> Monomial:
        r"""What the K cross-attentions of the later part multiply a part's share with.

        :math:`A = Kc`, all aligned, counted once as published. A part must be balanced at its own
        output too, so that A counts only where it grows. Nothing amplifies the last part.
        """
        if later is None:
            return ONE
        reading = next(s.name for s in later.part.layer if s.reads_memory)
        count = Monomial.number(later.part.crossings) * Monomial.of(later.part.depth)
        size = count * later.kind_of(reading).weight
        return size if size.exponent(later.part.depth) > 0 else ONE

    # ---- the balance of one part ----

    def attempt(self, bare: Balanced, chosen: Closure) -> Balanced | Refusal:
        """The first attempt that has one solution and keeps the premises.

        Else why the first does not that breaks one, which is the reason, and else the first of all.
        """
        refusals = []
        for joined, rated in self._attempts(bare.kinds, chosen):
            found = self._attempt(replace(bare, closure=chosen, joined=joined), rated)
            if isinstance(found, Balanced):
                return found
            refusals.append(found)
        return max(refusals, key=lambda refusal: isinstance(refusal, BrokenPremise))

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

    def _attempt(self, bare: Balanced, rated: tuple[Kind, ...]) -> Balanced | Refusal:
        knob = "eta" in bare.closure.knobs
        fixed = {str(kind.rate): ONE for kind in bare.kinds if kind not in rated}
        fixed |= {} if knob else {ETA: ONE}
        kinds = tuple(kind.put(fixed) for kind in bare.kinds)
        unknowns = [str(knob) for kind in kinds for knob in (kind.alpha, kind.beta)]
        unknowns += [ETA] * knob + [str(kind.rate) for kind in rated]
        conditions = self._conditions(bare.part, kinds, bare.joined)
        solution = solve(conditions, [*dict.fromkeys(unknowns)])
        if solution is None:
            return self._no_solution(bare)
        if solution.free:
            free = ", ".join(_symbol(u, self.selection) for u in solution.free)
            why = (
                f"the closure {self.closure.name!r} leaves {free} undetermined in the "
                f"{bare.part.name}: the balance under {self.selection.placement} does not depend "
                "on it"
            )
            return Refusal(why, lambda: self._alternatives(bare))
        balanced = replace(bare, kinds=kinds).at(solution.values, rated)
        if (broken := self.broken_premise(balanced)) is not None:
            return BrokenPremise(broken, lambda: self._alternatives(bare))
        return balanced

    def _conditions(
        self, part: Part, kinds: tuple[Kind, ...], joined: tuple[Closure, ...]
    ) -> Iterator[Monomial]:
        """Balance and closure of every kind, each a monomial that must be 1."""
        one_alpha = self.selection.has_one_alpha(part)
        for index, kind in enumerate(kinds):
            # Imposed and not proved: nothing says that an update should be constant in depth, nor
            # that this closure is the one. The powers follow from it, the constants are convention.
            yield kind.moved
            names = {"alpha": kind.alpha, "beta": kind.beta, "rho": kind.relative}
            names["m"] = Monomial.number(kind.matrices)
            for one in joined:
                # one α for all kinds is picked by the first one's condition; ρ is of each kind
                if index and one_alpha and "rate" not in one.knobs:
                    continue
                for left, right in one.expressions:
                    yield read(left.root, names) / read(right.root, names)
            if not kind.law.has_alpha:
                yield kind.alpha

    # ---- refusals ----

    def require_laws(self) -> None:
        """Raise :class:`Refusal` where a law that the selection needs is missing."""
        method, parts = self.selection.method, self.selection.the_stack.parts

        def by_probe_alone(why: str) -> Refusal:
            return Refusal(f"the {method} route {why}; use the method probe")

        for sublayer in self.selection.the_stack.sublayers:
            jet, gains = laws.branch(sublayer), laws.common_gains(sublayer)
            if len({jet.moved[m.name].size.put(gains) for m in sublayer.scaled}) != 1:
                raise laws.no_one_gain(sublayer)  # no one β balances the scaled matrices
            if method != "probe" and len(laws.factors(sublayer)) > len(sublayer.scaled):
                raise by_probe_alone(
                    f"has no law for {sublayer.name!r}, where a matrix is there more than once"
                )
            if method != "probe" and sublayer.experts > 1:
                raise Refusal(
                    f"the method {method!r} has no law for the mixture of experts "
                    f"{sublayer.name!r}; use the method probe"
                )
        if method != "probe" and any(map(self._unbounded, parts)):
            raise by_probe_alone(
                f"has no law for the placement {self.selection.placement!r}: a stream that no norm "
                "takes back needs a branch that one does"
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

    def _alternatives(self, bare: Balanced) -> str:
        """The closures that do balance, in words: a search that a refusal makes once it is read."""
        others = (c for c in CLOSURES.values() if c.name != self.closure.name)
        works = [c.name for c in others if isinstance(self.attempt(bare, c), Balanced)]
        return f"use the closure {' or '.join(works)}" if works else "no closure balances"

    def _no_solution(self, bare: Balanced) -> Refusal:
        with_alpha = [kind for kind in bare.kinds if kind.law.has_alpha]
        felt = ["alpha"] * any(k.moved.exponent(str(k.alpha)) for k in with_alpha)
        felt += ["beta"] * any(k.moved.exponent(str(k.beta)) for k in bare.kinds)
        text, where = self.selection.the_optimizer.update, self.selection.placement
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

    def broken_premise(self, balanced: Balanced) -> str | None:
        judges = (self._stream_size, self._far_from_identity)
        found = (judge(balanced, kind) for kind in balanced.kinds for judge in judges)
        return next(filter(None, found), None)

    @property
    def _placed(self) -> str:
        placement = self.selection.the_placement
        return f"of the placement {placement.name!r}, {placement.equation}"

    def _stream_size(self, balanced: Balanced, kind: Kind) -> str | None:
        """A stream that no norm takes back keeps its size only where its coefficient is 1."""
        if kind.law.keeps_stream:
            return None
        assert kind.law.multiplied is not None
        times = laws.leading(kind.law.multiplied).put({"alpha": kind.alpha})
        if times == ONE and kind.law.multiplied.rest is None:
            return None
        growth = times.exponent(balanced.part.depth)
        explodes = growth > 0 or (growth == 0 and not times.symbols and times.at() > 1)
        return (
            f"with the closure {balanced.closure.name!r} a sublayer {self._placed} "
            f"multiplies the stream by {times}, and no norm takes it back: after {balanced.count} "
            f"sublayers the stream is ({times})**({balanced.count}), which "
            f"{'explodes' if explodes else 'vanishes'} with depth; the coefficient of x must be 1"
        )

    def _normalised(self, part: Part) -> bool:
        """Whether the stream passes a norm in every layer, so that it does not grow."""
        return any(self.law(s).normalised for s in part.layer)

    def _unbounded(self, part: Part) -> bool:
        """Whether a branch depends on the size of a stream that no norm takes back."""
        added = (self.law(s).added.exponent("stream") for s in part.layer)
        return any(added) and not self._normalised(part)

    def _far_from_identity(self, balanced: Balanced, kind: Kind) -> str | None:
        r"""Where S·r² grows the stack leaves the neighbourhood of the identity.

        By what a stream that grows, :math:`\|x_l\|^2 \sim 1 + l r^2`, shrinks the sum: the final
        norm's Jacobian and the gradient that comes back through it are both of order
        :math:`1/\|x_S\|`.

        Source: derived here; the growth is that of the Pre/Post norm note.
        """
        part, depth = balanced.part, balanced.part.depth
        growth = balanced.squares(kind).exponent(depth)
        if growth <= 0:
            return None
        if "eta" not in balanced.closure.knobs or self._unbounded(part):
            return (
                f"the closure {balanced.closure.name!r} makes S*r^2 grow as "
                f"{depth}^({growth}): the stack leaves the neighbourhood of the identity, where "
                "alone the orders of magnitude hold, and the law beyond it is missing"
            )
        shrunk = growth * min(Fraction(1), (1 + self.update.p) / 2)
        if self._normalised(part) or shrunk == 0:
            return None  # the balance still holds; the remarks say that the premises fail
        return (
            f"the closure {balanced.closure.name!r} makes S*r^2 grow as {depth}^({growth}), "
            f"and with it the stream {self._placed}, which no norm takes back before the "
            f"last: the sublayers' changes shrink by {depth}^({shrunk}), so that they do not add "
            f"to {balanced.count} equal ones, which the balance rests on"
        )


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
