r"""How a norm's epsilon must scale in depth: as the square of what the norm divides.

.. math:: \mathrm{norm}(z) = z/\sqrt{\mathrm{var}(z) + \varepsilon}

Where z falls with the depth as s, only :math:`\varepsilon \propto s^2` keeps its share under the
root. A fixed one is the larger of the two from some depth on, and the norm then divides by
:math:`\sqrt\varepsilon`, which gives the branch its falling size back.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from deepnet_theory.sizes.growth import growth
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import DEPTH
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.rule import RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.monomial import exponents, simplified, text
from deepnet_theory.symbolic.algebra.symbols import alpha
from deepnet_theory.symbolic.laws.placement import P, norm_arguments


@dataclass(frozen=True)
class Divided:
    """What a norm divides, where it falls with the depth: its place, and its size.

    The size is α and β to their powers, of the term that falls slowest; ``squared`` is its square
    as a text in N and M, and ``of_branch`` says whether the branch makes it, or the stream.
    """

    place: str
    alpha: Fraction
    beta: Fraction
    of_branch: bool
    squared: str


def falling(
    placement: Placement, matrices: int, of_alpha: str, of_beta: str, depth: str
) -> Iterator[Divided]:
    """Every norm of a sublayer on what falls in its own ``depth``, N or M, at α and β.

    ``matrices`` is the number of scaled matrices of its branch. What grows with the depth needs no
    other ε, and nothing is said of an α or β whose growth is not seen.
    """
    for place, terms in norm_arguments(placement):
        sizes = []
        for term in terms:
            powers = exponents(term)
            a, b = (Fraction(str(powers.get(symbol, 0))) for symbol in (alpha, P))
            b *= matrices
            try:
                power = a * growth(of_alpha, depth) + b * growth(of_beta, depth)
            except InputError:
                return
            sizes.append((power, a, b))
        power, a, b = max(sizes)
        if power < 0:
            squared = _squared(((of_alpha, 2 * a), (of_beta, 2 * b)))
            yield Divided(place, a, b, b != 0, squared)


def of_entry(selection: Selection, entry: RuleEntry) -> tuple[Divided, ...]:
    """The norms on what falls, under one entry of a rule.

    One for kinds of several numbers of matrices takes the smallest size, which fits all of them.
    """
    part = next(p for p in selection.the_stack.parts if p.name == entry.part)
    most = max(len(s.scaled) for s in part.layer if entry.sublayer in ("*", s.name))
    return tuple(falling(selection.the_placement, most, entry.alpha, entry.beta, part.depth))


def with_norm_epsilon(selection: Selection, entry: RuleEntry) -> RuleEntry:
    """An entry of a rule with the ε that its norms need."""
    found = of_entry(selection, entry)
    return replace(entry, norm_epsilon=tuple((norm.place, norm.squared) for norm in found))


def _squared(factors: tuple[tuple[str, Fraction], ...]) -> str:
    written = "*".join(f"({knob})**({power})" for knob, power in factors if power)
    try:
        tidy = text(simplified(depth_expression(written)))
        DEPTH.parse(tidy)
    except (ValueError, InputError):  # no monomial, or no exponent that the grammar takes
        return written
    return tidy
