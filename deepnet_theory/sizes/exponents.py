r"""The predicted growth of ‖ΔF‖ with depth, for any rule under any optimizer.

A part of S sublayers moves the output by :math:`A\sum_l \gamma^{1+p}|\theta|^q`; the exponent of
that sum in the depth is what the laboratory's slope is held against. A rule of one's own is no
monomial, and its exponents are those of its leading terms (:mod:`~deepnet_theory.sizes.growth`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from deepnet_theory.sizes import laws, table, update
from deepnet_theory.sizes.growth import growth, leading_term
from deepnet_theory.sizes.monomial import Monomial, parse
from deepnet_theory.sizes.rule import normalises, shrinkage, solve_rule
from deepnet_theory.spec.errors import Refusal, shown
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.results.measurement import Prediction, Predictions
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Role, Sublayer

RIVALS = ("sgd", "adam", "lamb")
MATRICES = frozenset({Role.SCALED, Role.UNSCALED})


@dataclass(frozen=True)
class Exponents:
    """The exponents of a rule, derived or of one's own, in the network of a selection."""

    selection: Selection
    rule: Rule

    @cached_property
    def update(self) -> update.Update:
        return update.law(self.selection.the_optimizer)

    @property
    def kinds(self) -> list[tuple[Part, Sublayer]]:
        """Every kind of sublayer of every part."""
        parts = self.selection.the_stack.parts
        return [(part, sublayer) for part in parts for sublayer in dict.fromkeys(part.layer)]

    def law(self, sublayer: Sublayer) -> laws.Law:
        return laws.law(self.selection.placed(sublayer), sublayer, self.selection.the_norm)

    def of(self, size: Monomial, part: Part, sublayer: Sublayer, variable: str) -> Fraction:
        """The exponent in ``variable`` of a size in α and the gains, at the rule."""
        entry = self.rule.entry(part.name, sublayer.name)
        size = size.put(laws.common_gains(sublayer))
        alpha, beta = (growth(text, variable) for text in (entry.alpha, entry.beta))
        return size.exponent("alpha") * alpha + size.exponent("beta") * beta

    def weight(self, part: Part, sublayer: Sublayer, variable: str) -> Fraction:
        return self.of(self.law(sublayer).weight, part, sublayer, variable)

    def independent(self, part: Part, sublayer: Sublayer, variable: str) -> Fraction:
        count = Fraction(part.depth == variable)
        return count + self.uses(part, variable) + 2 * self.weight(part, sublayer, variable)

    def uses(self, part: Part, variable: str) -> Fraction:
        """The exponent of n, how often a layer is used."""
        return parse(part.uses).exponent(variable)

    def relative(self, part: Part, sublayer: Sublayer, variable: str) -> Fraction:
        """The exponent of ρ of a scaled matrix, where no later part multiplies its gradient."""
        entry = self.rule.entry(part.name, sublayer.name)
        rates = sum(growth(text, variable) for text in (entry.rate, self.rule.eta))
        rates += self.update.p * self.uses(part, variable)
        return self.of(self.relative_size(sublayer), part, sublayer, variable) + rates

    def relative_size(self, sublayer: Sublayer) -> Monomial:
        responses, gains = self.law(sublayer).responses, laws.common_gains(sublayer)
        (response,) = {responses[m.name][0].put(gains) for m in sublayer.scaled}
        return response**self.update.p * Monomial.of("beta") ** (self.update.q - 1)

    def share(self, part: Part, variable: str, roles: frozenset[Role]) -> Fraction:
        """The exponent of the part's own share of ‖ΔF‖, at the part's output."""
        candidates = []
        for sublayer in dict.fromkeys(part.layer):
            law, entry = self.law(sublayer), self.rule.entry(part.name, sublayer.name)
            grown = self.independent(part, sublayer, variable)
            # the sum over l of (1 + l r²)^{-(1+p)/2}: S where the stream does not grow
            shrunk = shrinkage(normalises(self.selection, part), self.update, grown)
            repeated = Fraction(part.depth == variable) - shrunk
            for name, role in table.parameters(law):
                if role not in roles:
                    continue
                start = law.starts.get(name, Monomial())
                at_zero = role in table.STARTS_AT_ZERO or start is None
                q = Fraction(0) if at_zero else self.update.q
                size = Monomial.of("beta") if role is Role.SCALED else start or Monomial()
                rate = growth(entry.rate, variable) if role is Role.SCALED else 0
                for response in law.responses.get(name, ()):
                    later = (1 + self.update.p) * response.exponent(laws.LATER) * grown / 2
                    moved = response ** (1 + self.update.p) * size**q
                    of = self.of(moved, part, sublayer, variable) + later
                    candidates.append(repeated + of + rate)
        together = self.update.p * self.uses(part, variable)  # all uses of a matrix step it
        return max(candidates) + together + growth(self.rule.eta, variable)

    def amplification(self, variable: str, aligned: bool) -> Fraction:
        r"""The exponent of what the later part multiplies the first part's share with.

        M cross-attentions of weight c carry a change of the encoder's output to the decoder's.
        Their value and output matrices are independent at initialisation, so that they add as
        :math:`A = \sqrt M c` (``aligned``: :math:`Mc`), once forward and p times through the
        gradient, whichever convention the rule was balanced with.

        Source: derived here.
        """
        later = self.selection.the_stack.parts[-1]
        crossing = next((s for s in later.layer if s.reads_memory), None)
        if crossing is None:
            raise Refusal("nothing passes from the encoder to a decoder without cross-attention")
        count = Fraction(later.depth == variable) * (1 if aligned else Fraction(1, 2))
        count += 0 if aligned else self.uses(later, variable) / 2  # those of one layer are alike
        return (1 + self.update.p) * (count + self.weight(later, crossing, variable))

    def all(self, step: str = "matrices", aligned: bool = False) -> dict[tuple[str, str], Fraction]:
        """Exponents by (variable, share); share is ``all`` or a part's name.

        ``step`` is ``matrices`` (what the published rules speak of) or ``all`` parameters;
        ``aligned`` takes the cross-attentions as all aligned instead of independent. Raises
        :class:`Refusal` where the stream explodes.
        """
        self.refuse_without_stream()
        parts = self.selection.the_stack.parts
        roles = MATRICES if step == "matrices" else frozenset(Role)
        found: dict[tuple[str, str], Fraction] = {}
        for variable in self.selection.the_stack.depths:
            values = {part.name: self.share(part, variable, roles) for part in parts}
            if len(parts) > 1:
                values[parts[0].name] += self.amplification(variable, aligned)
                found |= {(variable, name): value for name, value in values.items()}
            found[(variable, "all")] = max(values.values())
        keys = [(v, s) for v in self.selection.the_stack.depths for s in ("all", *values)]
        return {key: found[key] for key in keys if key in found}

    def refuse_without_stream(self) -> None:
        """A stream that no norm takes back must be multiplied by 1, or it explodes or vanishes."""
        for part, sublayer in self.kinds:
            law, placement = self.law(sublayer), self.selection.placed(sublayer)
            if law.keeps_stream or law.multiplied is None:
                continue
            entry = self.rule.entry(part.name, sublayer.name)
            own = [leading_term(entry.alpha, d) for d in self.selection.the_stack.depths]
            one = all(term.whole and term.coefficient == 1 and not term.powers for term in own)
            if not one or not law.multiplied.is_one_at_one:
                raise Refusal(
                    f"a sublayer of the placement {placement.name!r}, {placement.equation}, "
                    f"multiplies the stream by {law.multiplied}, which no norm takes back: at "
                    f"alpha = {shown(entry.alpha)} the stream explodes or vanishes with depth; "
                    "the coefficient of x must be 1"
                )

    def unstable(self) -> str:
        """Where ρ grows with a depth, in one sentence; empty where it does not.

        Empty too where one matrix a branch does not feel it. Raises :class:`Refusal` where the
        stream explodes.
        """
        self.refuse_without_stream()
        found = [
            f"{variable}^({power}) in {sublayer.name} of the {part.name}"
            for part, sublayer in self.kinds
            for variable in self.selection.the_stack.depths
            if (power := self.relative(part, sublayer, variable)) > 0 and len(sublayer.scaled) > 1
        ]
        if not found:
            return ""
        return (
            f"Unstable in depth: rho scales as {', '.join(found)}, and with it the higher orders."
        )

    def warnings(self) -> Iterator[str]:
        """Where S·r² grows, and with it the distance from the identity, a sentence each."""
        depths = self.selection.the_stack.depths
        for part, sublayer in self.kinds:
            # a part's constants may depend on the other part's depth: judged in every depth
            size = {v: self.independent(part, sublayer, v) for v in depths}
            powers = "*".join(f"{v}^({power})" for v, power in size.items() if power)
            if grows := " and ".join(v for v, power in size.items() if power > 0):
                yield (
                    f"the {part.name}'s {part.squares} grows as {powers} in {grows} "
                    f"({sublayer.name}): "
                    "the near-identity assumption fails, and with it the orders that the "
                    "prediction rests on"
                )


def relative_updates(selection: Selection, rule: Rule) -> dict[str, str]:
    """ρ = ‖ΔW‖/(η‖W‖) of the scaled matrices at a rule of one's own, by kind of sublayer.

    Texts in N and M, of a stack of one part, where no later one multiplies the gradients.
    """
    of, (part,) = Exponents(selection, rule), selection.the_stack.parts
    found = {}
    for sublayer in dict.fromkeys(part.layer):
        entry = rule.entry(part.name, sublayer.name)
        size = of.relative_size(sublayer)
        uses = parse(part.uses) ** of.update.p
        knobs = {"alpha": entry.alpha, "beta": entry.beta}
        try:
            values = {knob: parse(text) for knob, text in knobs.items()}
            found[sublayer.name] = str(
                uses * size.put(values) * parse(entry.rate) * parse(rule.eta)
            )
        except ValueError:  # no monomial
            factors = [f"({knobs[k]})**({p})" for k in knobs if (p := size.exponent(k))]
            rates = [f"({text})" for text in (str(uses), entry.rate, rule.eta) if text != "1"]
            found[sublayer.name] = "*".join(factors + rates) or "1"
    return found


def rival_rules(selection: Selection) -> dict[str, Rule]:
    """The default rules of SGD, Adam and LAMB for the same network, besides the selected one."""
    rules: dict[str, Rule] = {}
    for name in RIVALS:
        if name == selection.optimizer:
            continue
        other = replace(
            selection, optimizer=name, update=None, regime=(), closure=None, one_alpha=False,
            allow_ascent=False,
        )  # fmt: skip
        try:
            rules[name] = table.texts(solve_rule(other))
        except Refusal:
            continue
    return rules


def predictions(selection: Selection, rule: Rule, step: str = "matrices") -> Predictions:
    """The predicted exponents of a rule, with those of its rivals, for the laboratory.

    Raises :class:`Refusal` where the update has no degrees, :class:`InputError` where a rule
    that the user typed has no growth exponent.
    """
    own = Exponents(selection, rule)
    others = {
        name: Exponents(selection, other).all(step)
        for name, other in rival_rules(selection).items()
    }
    parts = selection.the_stack.parts
    # which amplification is real is a question to the laboratory
    aligned = own.all(step, aligned=True) if len(parts) > 1 else {}
    rows = []
    for key, exponent in own.all(step).items():
        rivals = [(name, other[key]) for name, other in others.items()]
        if key[1] == parts[0].name and len(parts) > 1:
            rivals.append(("aligned cross-attentions", aligned[key]))
        rows.append(Prediction(*key, exponent=exponent, rivals=tuple(rivals)))
    return Predictions(tuple(rows), warnings=tuple(own.warnings()))


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
    cells = [
        Cell(name, under, {v: e for (v, share), e in found.items() if share == "all"})
        for under in rules
        for name, rule in rules.items()
        if (found := Exponents(selections[under], rule).all())
    ]
    return CrossTable(start, rules, tuple(cells), refused)
