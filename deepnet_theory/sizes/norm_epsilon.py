r"""How a norm's epsilon must scale in depth: as the square of what the norm divides.

.. math:: \mathrm{norm}(z) = z/\sqrt{\mathrm{var}(z) + \varepsilon}

Where z falls with the depth as s, only :math:`\varepsilon \propto s^2` keeps its share under the
root. At a fixed one a branch of variance v puts out :math:`f = (1 + \varepsilon/v)^{-1/2}` of its
size. The response to a matrix within it and the matrix's gradient shrink by f each, so that one
update of degree p in g moves the output by :math:`f^{1+p}` of what it should.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from deepnet_theory.definitions.expression import DEPTH, evaluate
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import Rule, RuleEntry
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.growth import growth
from deepnet_theory.sizes.monomial import Monomial, parse

WORDS = {
    "output": "the norm on the branch's output",
    "sum": "the norm on the residual sum",
    "input": "the norm on the branch's input",
    "stream": "the norm on the stream",
}
R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class Falling:
    """A norm on what falls with the depth, in every sublayer of one entry of a rule.

    ``epsilon`` is what its ε must be multiplied by, as a text in N and M.
    """

    part: str
    sublayer: str
    place: str
    epsilon: str

    def to_dict(self) -> dict[str, object]:
        names = {"part": "stack", "sublayer": "sublayer", "place": "norm", "epsilon": "epsilon"}
        return {name: getattr(self, field) for field, name in names.items()}


def falling(
    of: laws.Law, knobs: Mapping[str, str], gains: Mapping[str, Monomial], depth: str
) -> Iterator[tuple[str, str]]:
    """Where the norms of a sublayer stand that divide what falls, and its square as a text.

    What grows with the depth needs no other ε, and nothing is said of knobs whose growth is not
    seen, as that of a layer's index.
    """
    try:
        powers = {knob: growth(text, depth) for knob, text in knobs.items()}
    except InputError:
        return
    for norm in of.norms:
        sizes = [term.put(gains) for term in (norm.stream, norm.branch) if term is not None]

        def power(size: Monomial) -> object:
            return sum(size.exponent(knob) * powers[knob] for knob in knobs)

        size = max(sizes, key=power)  # type: ignore[arg-type]  # the term that falls slowest
        if power(size) < 0:  # type: ignore[operator]
            yield norm.where, _squared(size, knobs)


def _squared(size: Monomial, knobs: Mapping[str, str]) -> str:
    try:
        value = size.put({knob: parse(text) for knob, text in knobs.items()}) ** 2
        return DEPTH.parse(str(value)).text
    except (ValueError, InputError):  # no monomial, or no exponent that the grammar takes
        factors = (f"({t})**({2 * p})" for k, t in knobs.items() if (p := size.exponent(k)))
        return "*".join(factors)


def of_entry(selection: Selection, entry: RuleEntry) -> Iterator[Falling]:
    """The norms on what falls, under one entry of a rule, in the part's own depth.

    An entry for kinds of several numbers of matrices takes the smallest size, which fits all.
    """
    part = next(p for p in selection.the_stack.parts if p.name == entry.part)
    governed = [s for s in part.layer if entry.sublayer in ("*", s.name)]
    sublayer = max(governed, key=lambda s: len(laws.factors(s)))
    knobs = {"alpha": entry.alpha, "beta": entry.beta}
    placed = laws.law(selection.the_placement, sublayer)
    for place, epsilon in falling(placed, knobs, laws.common_gains(sublayer), part.depth):
        yield Falling(part.name, entry.sublayer, place, epsilon)


def with_norm_epsilon(selection: Selection, rule: R) -> R:
    entries = (
        replace(e, norm_epsilon=tuple((n.place, n.epsilon) for n in of_entry(selection, e)))
        for e in rule.entries
    )
    return replace(rule, entries=tuple(entries))


def in_words(norms: Sequence[Falling], depth: dict[str, int]) -> str:
    """What each norm's ε needs, a sentence each."""
    sentences = []
    for one in norms:
        whose = one.part if one.sublayer == "*" else f"{one.part}, {one.sublayer}"
        shown = f" = {evaluate(DEPTH.parse(one.epsilon), **depth):.4g}" if depth else ""
        sentences.append(
            f"{WORDS[one.place].capitalize()} ({whose}) divides what falls with the depth: "
            f"multiply its epsilon by {one.epsilon}{shown}."
        )
    return " ".join(sentences)
