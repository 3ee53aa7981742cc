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
from dataclasses import replace
from typing import TypeVar

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import Rule, RuleEntry, number
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.growth import growth
from deepnet_theory.sizes.monomial import Monomial, product

WORDS = {
    "output": "the norm on the branch's output",
    "sum": "the norm on the residual sum",
    "input": "the norm on the branch's input",
    "stream": "the norm on the stream",
}
R = TypeVar("R", bound=Rule)


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
            yield norm.where, product(*((t, 2 * size.exponent(k)) for k, t in knobs.items()))


def of_entry(selection: Selection, entry: RuleEntry) -> Iterator[tuple[str, str]]:
    """The norms on what falls, under one entry of a rule, in the part's own depth.

    An entry for kinds of several numbers of matrices takes the smallest size, which fits all.
    """
    part = next(p for p in selection.the_stack.parts if p.name == entry.part)
    governed = [s for s in part.layer if entry.sublayer in ("*", s.name)]
    sublayer = max(governed, key=lambda s: len(laws.factors(s)))
    knobs = {"alpha": entry.alpha, "beta": entry.beta}
    placed = laws.law(selection.the_placement, sublayer)
    return falling(placed, knobs, laws.common_gains(sublayer), part.depth)


def with_norm_epsilon(selection: Selection, rule: R) -> R:
    entries = (replace(e, norm_epsilon=tuple(of_entry(selection, e))) for e in rule.entries)
    return replace(rule, entries=tuple(entries))


def in_words(entries: Sequence[RuleEntry], **depth: int) -> str:
    """What each norm's ε needs, a sentence each."""
    sentences = []
    for entry in entries:
        whose = entry.part if entry.sublayer == "*" else f"{entry.part}, {entry.sublayer}"
        for place, epsilon in entry.norm_epsilon:
            shown = f" = {number(epsilon, **depth):.4g}" if depth else ""
            sentences.append(
                f"{WORDS[place].capitalize()} ({whose}) divides what falls with the depth: "
                f"multiply its epsilon by {epsilon}{shown}."
            )
    return " ".join(sentences)
