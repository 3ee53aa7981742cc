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

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import DEPTH
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.growth import growth
from deepnet_theory.symbolic.algebra.monomial import exponents, simplified, text
from deepnet_theory.symbolic.algebra.symbols import alpha
from deepnet_theory.symbolic.laws.placement import P, norm_arguments


@dataclass(frozen=True)
class Divided:
    """What a norm divides, where it falls with the depth: its place, and its size squared.

    ``squared`` is a text in N and M; ``of_branch`` says whether the branch makes it, or the stream.
    """

    place: str
    squared: str
    of_branch: bool


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
            by = (Fraction(str(powers.get(alpha, 0))), Fraction(str(powers.get(P, 0))) * matrices)
            try:
                power = sum(
                    (p * growth(knob, depth) for knob, p in zip((of_alpha, of_beta), by, strict=True)),
                    Fraction(0),
                )
            except InputError:
                return
            sizes.append((power, by))
        power, (a, b) = max(sizes)
        if power < 0:
            yield Divided(place, _squared(((of_alpha, 2 * a), (of_beta, 2 * b))), b != 0)


def with_norm_epsilon(selection: Selection, rule: Rule) -> Rule:
    """A rule of one's own with the ε that its norms need.

    An entry for kinds of several numbers of matrices takes the smallest, which fits all of them.
    """
    entries = []
    for entry in rule.entries:
        part = next(p for p in selection.the_stack.parts if p.name == entry.part)
        most = max(len(s.scaled) for s in part.layer if entry.sublayer in ("*", s.name))
        of = (selection.the_placement, most, entry.alpha, entry.beta, part.depth)
        found = tuple((norm.place, norm.squared) for norm in falling(*of))
        entries.append(replace(entry, norm_epsilon=found))
    return replace(rule, entries=tuple(entries))


def _squared(factors: tuple[tuple[str, Fraction], ...]) -> str:
    written = "*".join(f"({knob})**({power})" for knob, power in factors if power)
    try:
        tidy = text(simplified(depth_expression(written)))
        DEPTH.parse(tidy)
    except (ValueError, InputError):  # no monomial, or no exponent that the grammar takes
        return written
    return tidy
