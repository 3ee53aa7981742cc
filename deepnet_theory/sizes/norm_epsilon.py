r"""How a norm's epsilon must scale in depth: as the square of what the norm divides.

.. math:: \mathrm{norm}(z) = z/\sqrt{\mathrm{var}(z) + \varepsilon}

Where z falls with the depth as s, only :math:`\varepsilon \propto s^2` keeps its share under the
root. At a fixed one a branch of variance v puts out :math:`f = (1 + \varepsilon/v)^{-1/2}` of its
size. The response to a matrix within it and the matrix's gradient shrink by f each, so that one
update of degree p in g changes the output by :math:`f^{1+p}` of what it should.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deepnet_theory.definitions.rule import RuleEntry, number
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.monomial import Monomial

WORDS = {
    "output": "the norm on the branch's output",
    "sum": "the norm on the residual sum",
    "input": "the norm on the branch's input",
    "stream": "the norm on the stream",
}


def falling(
    of: laws.Law, alpha: Monomial, beta: Monomial, depth: str
) -> Iterator[tuple[str, Monomial]]:
    """Where the norms of a sublayer stand that divide what falls with the depth, and its square."""
    gains = laws.common_gains(of.sublayer)

    def at_rule(size: Monomial) -> Monomial:
        size = size.put(gains)
        return alpha ** size.exponent("alpha") * beta ** size.exponent("beta")

    for norm in of.norms:
        sizes = [at_rule(term) for term in (norm.stream, norm.branch) if term is not None]
        size = max(sizes, key=lambda size: size.exponent(depth))  # the term that falls slowest
        if size.exponent(depth) < 0:
            yield norm.where, size**2


def in_words(entries: Sequence[RuleEntry], **depth: int) -> str:
    """What each norm's ε needs, a sentence each."""
    sentences = []
    for entry in entries:
        whose = entry.part if entry.sublayer == "*" else f"{entry.part}, {entry.sublayer}"
        for place, epsilon in entry.norm_epsilon.items():
            shown = f" = {number(epsilon, **depth):.4g}" if depth else ""
            sentences.append(
                f"{WORDS[place].capitalize()} ({whose}) divides what falls with the depth: "
                f"multiply its epsilon by {epsilon}{shown}."
            )
    return " ".join(sentences)
