"""The growth of ‖ΔF‖ with depth: under a rule, under a published scheme, and under their rivals.

A scheme has a gain for every matrix, and constants that may depend on the layer's index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import permutations
from typing import Any

from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.measurement import Predictions, prediction
from deepnet_theory.definitions.optimizer import Optimizer, optimizer
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.record import written
from deepnet_theory.definitions.rule import PUBLISHED, Rule
from deepnet_theory.definitions.scheme import Scheme
from deepnet_theory.definitions.selection import Part, Selection, stack
from deepnet_theory.definitions.sublayer import STEPPED, Role, norm
from deepnet_theory.sizes import table, update
from deepnet_theory.sizes.laws import law
from deepnet_theory.sizes.layers import Layers, SublayerSizes, positive
from deepnet_theory.sizes.rule import solve_rule

BEST_KNOWN = ("sgd", "adam", "lamb")  # the rivals, and what a class of optimizers is called by

# ---- a rule ----


@dataclass(frozen=True)
class Exponents:
    """The exponents of a rule, derived or of your own, in the network of a selection.

    Raises :class:`Refusal` where the stream explodes.
    """

    selection: Selection
    rule: Rule

    @cached_property
    def parts(self) -> dict[tuple[str, str], Layers]:
        """The layers by part and growing depth; those of one depth do not count in another."""
        stack = self.selection.the_stack
        return {(p.name, v): self._layers(p, v) for v in stack.depths for p in stack.parts}

    def _layers(self, part: Part, variable: str) -> Layers:
        placement, branches, eta = self.selection.the_placement, [], self.rule.eta
        for sublayer in dict.fromkeys(part.layer):
            entry = self.rule.entry(part.name, sublayer.name)
            rates = {**dict.fromkeys(Role, eta), Role.SCALED: f"({eta})*({entry.rate})"}
            positive(entry.alpha, variable, "alpha = ")
            positive(entry.beta, variable, "beta = ")
            of = law(placement, sublayer, self.selection.the_norm)
            branches.append(SublayerSizes.at(of, variable, entry, rates))
        degrees, count = update.law(self.selection.the_optimizer), Fraction(part.depth == variable)
        return Layers(part.name, variable, tuple(branches), degrees, placement, count=count)

    def amplification(self, variable: str) -> Fraction:
        r"""The exponent of what the later part multiplies the first part's share with.

        M cross-attentions of weight c carry a change of the encoder's output to the decoder's.
        Their value and output matrices are independent at initialisation, so that they add as
        :math:`A = \sqrt M c`, once forward and p times through the gradient, whichever convention
        the rule was balanced with. A growing stream divides them all by its size at the end, so
        that c is the last one's weight.

        Source: derived here.
        """
        later = self.selection.the_stack.parts[-1]
        layers = self.parts[later.name, variable]
        crossing = next((b for b in layers.branches if b.law.sublayer.reads_memory), None)
        if crossing is None:
            raise Refusal("nothing passes from the encoder to a decoder without cross-attention")
        *_, (_, weight) = layers.weight(crossing)
        return (1 + layers.law.p) * (layers.count / 2 + weight)

    def all(self, step: str = "matrices") -> dict[tuple[str, str], Fraction]:
        """Exponents by (variable, share); share is ``all`` or a part's name.

        ``step`` is ``matrices`` (what the published rules speak of) or ``all`` parameters.
        """
        stack, exponents = self.selection.the_stack, {}
        for variable in stack.depths:
            names = [part.name for part in stack.parts]
            shares = {name: self.parts[name, variable].share(STEPPED[step]) for name in names}
            if len(names) > 1:
                shares[names[0]] += self.amplification(variable)
            exponents[variable, "all"] = max(shares.values())
            if len(names) > 1:
                exponents |= {(variable, name): share for name, share in shares.items()}
        return exponents

    @property
    def unstable(self) -> str:
        """Where ρ grows with a depth, in sentences; empty where it does not."""
        found = (why for layers in self.parts.values() for why in layers.unstable())
        return " ".join(f"{why[0].upper()}{why[1:]}." for why in found)

    def warnings(self) -> Iterator[str]:
        """Where S·r² grows, and with it the distance from the identity, a sentence each."""
        for layers in self.parts.values():
            yield from table.far(layers.part, layers.depth, layers.independent)


@cache
def rival_rules(selection: Selection) -> Mapping[str, Rule]:
    """The published rules of SGD, Adam and LAMB for the same network, besides the selected one."""
    rules: dict[str, Rule] = {}
    for name in BEST_KNOWN:
        if name != selection.optimizer:
            other = replace(selection, optimizer=name, update=None, closure=PUBLISHED)
            with suppress(Refusal):
                rules[name] = table.texts(solve_rule(other))
    return rules


@cache
def predictions(selection: Selection, rule: Rule, step: str = "matrices") -> Predictions:
    """The predicted exponents of a rule, with those of its rivals, for the laboratory.

    Raises :class:`Refusal` where the update has no degrees, :class:`InputError` where a rule
    that the user typed has no growth exponent.
    """
    exponents = Exponents(selection, rule)
    rivals = {n: Exponents(selection, r).all(step) for n, r in rival_rules(selection).items()}
    rows = (
        prediction(*key, exponent, [(name, other[key]) for name, other in rivals.items()])
        for key, exponent in exponents.all(step).items()
    )
    return Predictions(tuple(rows), warnings=tuple(exponents.warnings()))


def cross_table(names: Iterable[str]) -> dict[tuple[str, str], Fraction]:
    """The exponent in N of published rules, the first name, under optimizers, in post-LN encoders.

    Raises :class:`Refusal` where an optimizer has no rule.
    """
    selections = [Selection(optimizer=name, closure=PUBLISHED) for name in names]
    rules = {s.optimizer: table.texts(solve_rule(s)) for s in selections}
    return {
        (str(name), str(under.optimizer)): Exponents(under, rule).all()["N", "all"]
        for under in selections
        for name, rule in rules.items()
    }


# ---- a published scheme ----


@dataclass(frozen=True, repr=False)
class Judgement(Displayed):
    """What every part of a scheme does under an optimizer."""

    scheme: Scheme
    under: str
    parts: tuple[Layers, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user of the scheme should know, each a sentence."""
        return tuple(why for part in self.parts for why in part.warnings())

    def to_dict(self) -> dict[str, Any]:
        """Plain data; exponents as texts such as ``"1/2"``, null where there is nothing."""
        balanced = all(part.first == 0 for part in self.parts)
        return {
            "schema": "deepnet-theory/scheme/1",
            "scheme": written(self.scheme),
            "optimizer": self.under,
            "judged": {"balanced": balanced, "parts": [part.to_dict() for part in self.parts]},
            "warnings": list(self.warnings),
        }


def judge(scheme: Scheme, under: Optimizer | None = None) -> Judgement:
    """Judge a scheme under an optimizer, its own by default.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where a law is missing, the stream
    explodes, or the update does not go down the gradient.
    """
    by, found = under or optimizer(scheme.optimizer), []
    degrees, rates = update.descending(by), {Role(r): text for r, text in scheme.rates.items()}
    for entry, part in zip(scheme.parts, stack(scheme.stack).parts, strict=True):
        depth, kinds = part.depth, dict.fromkeys(scheme.layer_of(part.name))
        placed = (law(scheme, kind, norm(scheme.norm)) for kind in kinds)
        branches = tuple(SublayerSizes.at(one, depth, entry, rates) for one in placed)
        embedding = positive(entry.embedding, depth)
        found.append(Layers(part.name, depth, branches, degrees, scheme, embedding))
    return Judgement(scheme, by.name, tuple(found))


def scheme_predictions(scheme: Scheme, selection: Selection) -> Predictions:
    """The judged exponents of a scheme, for the laboratory.

    Their rivals are the rules derived for the same placement, where it has a name. Encoder and
    decoder each have the exponent of their own share in their own depth. In the other depth,
    which lies between a stack and the output, nothing is predicted of a share.
    """
    judged = judge(scheme, selection.the_optimizer)
    if len(judged.parts) > 1:
        rows = [prediction(part.depth, part.part, part.first) for part in judged.parts]
        pairs = permutations(judged.parts, 2)
        rows += [prediction(one.depth, other.part, None) for one, other in pairs]
    else:
        (part,) = judged.parts
        rules = rival_rules(selection) if scheme.named_placement else {}
        rivals = (
            (name, Exponents(selection, rule).all()[part.depth, "all"])
            for name, rule in rules.items()
        )
        rows = [prediction(part.depth, "all", part.first, rivals)]
    return Predictions(tuple(rows), warnings=judged.warnings)
