"""The growth of ‖ΔF‖ with depth under a rule, derived or custom, and under its rivals'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property

from deepnet_theory.definitions.measurement import Prediction, Predictions
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.rule import Rule
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import STEPPED, Role
from deepnet_theory.sizes import table, update
from deepnet_theory.sizes.growth import CONSTANT, ZERO
from deepnet_theory.sizes.laws import law
from deepnet_theory.sizes.layers import Knobs, Layers, positive, stacked
from deepnet_theory.sizes.rule import solve_rule

RIVALS = ("sgd", "adam", "lamb")


@dataclass(frozen=True)
class Exponents:
    """The exponents of a rule, derived or of your own, in the network of a selection.

    Raises :class:`Refusal` where the stream explodes.
    """

    selection: Selection
    rule: Rule

    @cached_property
    def update(self) -> update.Update:
        return update.law(self.selection.the_optimizer)

    @cached_property
    def parts(self) -> dict[tuple[str, str], Layers]:
        """The layers by part and growing depth; those of one depth do not count in another."""
        stack = self.selection.the_stack
        return {(p.name, v): self._layers(p, v) for v in stack.depths for p in stack.parts}

    def _layers(self, part: Part, variable: str) -> Layers:
        placement, given = self.selection.the_placement, []
        for sublayer in dict.fromkeys(part.layer):
            entry = self.rule.entry(part.name, sublayer.name)
            gains = {m.name: entry.beta if m in sublayer.scaled else "1" for m in sublayer.matrices}
            rates = dict.fromkeys(Role, self.rule.eta)
            rates[Role.SCALED] = f"({self.rule.eta})*({entry.rate})"
            for text in (entry.alpha, entry.beta, entry.rate, self.rule.eta):
                positive(text, variable)
            of = law(placement, sublayer, self.selection.the_norm)
            given.append((of, Knobs(entry.alpha, gains, rates)))
        return stacked(
            part.name,
            variable,
            given,
            self.update,
            placement,
            part.uses,
            count=Fraction(part.depth == variable),
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
        layers = self.parts[later.name, variable]
        crossing = next((b for b in layers.branches if b.law.sublayer.reads_memory), None)
        if crossing is None:
            raise Refusal("nothing passes from the encoder to a decoder without cross-attention")
        weight = layers.size(crossing, crossing.law.weight)
        assert weight is not None
        # independent ones, but those of one shared layer are alike
        count = layers.count if aligned else (layers.count + layers.uses.largest()) / 2
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
                shares[part.name] = self.parts[part.name, variable].share(STEPPED[step])
            if len(stack.parts) > 1:
                shares[stack.parts[0].name] += self.amplification(variable, aligned)
            exponents[variable, "all"] = max(shares.values())
            if len(stack.parts) > 1:
                exponents |= {(variable, name): share for name, share in shares.items()}
        return exponents

    def unstable(self) -> str:
        """Where ρ grows with a depth, in one sentence; empty where it does not.

        Empty too where one matrix a branch does not feel it. What a later part multiplies the
        gradient by is left out.
        """
        growing = [
            f"{variable}^({rho}) in {branch.law.sublayer.name} of the {part}"
            for (part, variable), layers in self.parts.items()
            for branch in layers.branches
            if (rho := layers.relative_of(branch) or ZERO) > 0
            and len(branch.law.sublayer.scaled) > 1
        ]
        if not growing:
            return ""
        return (
            f"Unstable in depth: rho scales as {', '.join(growing)}, and with it the higher orders."
        )

    def warnings(self) -> Iterator[str]:
        """Where S·r² grows, and with it the distance from the identity, a sentence each."""
        for layers in self.parts.values():
            yield from layers.far_from_identity()


@cache
def rival_rules(selection: Selection) -> Mapping[str, Rule]:
    """The default rules of SGD, Adam and LAMB for the same network, besides the selected one."""
    rules: dict[str, Rule] = {}
    for name in RIVALS:
        if name == selection.optimizer:
            continue
        other = replace(selection, optimizer=name, update=None, closure=None)
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


def cross_table(names: Iterable[str]) -> dict[tuple[str, str], Fraction]:
    """The exponent in N of every rule, the first name, under every optimizer, in post-LN encoders.

    Raises :class:`Refusal` where an optimizer has no rule.
    """
    selections = [Selection(optimizer=name) for name in names]
    rules = {s.optimizer: table.texts(solve_rule(s)) for s in selections}
    return {
        (str(name), str(under.optimizer)): Exponents(under, rule).all()["N", "all"]
        for under in selections
        for name, rule in rules.items()
    }
