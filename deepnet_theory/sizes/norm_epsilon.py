r"""How a norm's epsilon must scale in depth: as the square of what the norm divides.

.. math:: \mathrm{norm}(z) = z/\sqrt{\mathrm{var}(z) + \varepsilon}

Where z falls with the depth as s, only :math:`\varepsilon \propto s^2` keeps its share under the
root. At a fixed one a branch of variance v puts out :math:`f = (1 + \varepsilon/v)^{-1/2}` of its
size. The response to a matrix within it and the matrix's gradient shrink by f each, so that one
update of degree p in g moves the output by :math:`f^{1+p}` of what it should.

The entries of a branch have a variance of :math:`c\,s^2` at most, s the product of its gains. In c
Xavier's matrices have the usual hidden width, φ leaves half of the second moment (ReLU exactly,
GELU and SiLU at most), and a softmax average is as large as one token at most.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from deepnet_theory.definitions.constants import Architecture
from deepnet_theory.definitions.expression import DEPTH, OperatorAlgebra, evaluate, fold
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import Rule, RuleEntry
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import EPSILON, Matrix, Sublayer
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.growth import growth
from deepnet_theory.sizes.monomial import Monomial, parse
from deepnet_theory.sizes.update import law

LOST = Fraction(1, 20)  # of what one update moves: from there on a fixed ε is said to matter
WORDS = {
    "output": "the norm on the branch's output",
    "sum": "the norm on the residual sum",
    "input": "the norm on the branch's input",
    "stream": "the norm on the stream",
}


R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class Falling:
    """A norm on what falls with the depth: where it stands, and the size in α and the gains.

    The size is that of the term that falls slowest; ``squared`` is its square as a text in N and
    M, with its ``value`` where that is a monomial. ``of_branch`` says whether the branch makes it,
    or the stream.
    """

    place: str
    size: Monomial
    of_branch: bool
    squared: str
    value: Monomial | None

    def sinks_from(
        self, sublayers: Iterable[Sublayer], depth: str, p: Fraction
    ) -> Iterator[tuple[str, Monomial]]:
        """The depth where a fixed ε loses :data:`LOST` of an update, by the sublayer's name."""
        beside = float(1 - LOST) ** (-2 / abs(1 + p)) - 1  # ε over the variance
        fixed = Fraction(str(EPSILON)) / Fraction(beside).limit_denominator(1000)
        for sublayer in sublayers if self.value else ():
            assert self.value is not None
            entries = branch_variance(sublayer) if self.of_branch else Fraction(1)
            variance, power = Monomial.number(entries) * self.value, self.value.exponent(depth)
            rest = variance / Monomial.of(depth) ** power
            yield sublayer.name, (Monomial.number(fixed) / rest) ** (1 / power)


def falling(
    of: laws.Law, knobs: Mapping[str, str], gains: Mapping[str, Monomial], depth: str
) -> Iterator[Falling]:
    """The norms of a sublayer on what falls with the depth, at the texts of its knobs.

    What grows with the depth needs no other ε, and nothing is said of knobs whose growth is not
    seen, as that of a layer's index.
    """
    try:
        powers = {knob: growth(text, depth) for knob, text in knobs.items()}
    except InputError:
        return
    for norm in of.norms:
        sizes = []
        for term, of_branch in ((norm.stream, False), (norm.branch, True)):
            if term is not None:
                size = term.put(gains)
                power = sum(size.exponent(knob) * powers[knob] for knob in knobs)
                sizes.append((power, size, of_branch))
        power, size, of_branch = max(sizes, key=lambda term: term[0])
        if power < 0:
            yield Falling(norm.where, size, of_branch, *_squared(size, knobs))


def _squared(size: Monomial, knobs: Mapping[str, str]) -> tuple[str, Monomial | None]:
    try:
        value = size.put({knob: parse(text) for knob, text in knobs.items()}) ** 2
        return DEPTH.parse(str(value)).text, value
    except (ValueError, InputError):  # no monomial, or no exponent that the grammar takes
        factors = (f"({t})**({2 * p})" for k, t in knobs.items() if (p := size.exponent(k)))
        return "*".join(factors), None


def of_entry(selection: Selection, entry: RuleEntry) -> Iterator[Falling]:
    """The norms on what falls, under one entry of a rule, in the part's own depth.

    An entry for kinds of several numbers of matrices takes the smallest size, which fits all.
    """
    part, sublayers = _governed(selection, entry)
    sublayer = max(sublayers, key=lambda s: len(laws.factors(s)))
    knobs = {"alpha": entry.alpha, "beta": entry.beta}
    placed = laws.law(selection.placed(sublayer), sublayer)
    return falling(placed, knobs, laws.common_gains(sublayer), part.depth)


def _governed(selection: Selection, entry: RuleEntry) -> tuple[Part, list[Sublayer]]:
    part = next(p for p in selection.the_stack.parts if p.name == entry.part)
    distinct = {s.name: s for s in part.layer if entry.sublayer in ("*", s.name)}
    return part, list(distinct.values())


def with_norm_epsilon(selection: Selection, rule: R) -> R:
    entries = (
        replace(e, norm_epsilon=tuple((n.place, n.squared) for n in of_entry(selection, e)))
        for e in rule.entries
    )
    return replace(rule, entries=tuple(entries))


@dataclass(frozen=True)
class Sinking:
    """A norm whose ε must fall with the depth, in every sublayer of one entry of a rule.

    ``epsilon`` is what keeps it below the variance, as a factor on the ε of a shallow model, and
    ``depths`` where a fixed 1e-5 loses a twentieth of what one update moves, at the latest, by the
    name of the sublayer; a monomial in the other part's depth where that matters.
    """

    part: str
    sublayer: str
    place: str
    epsilon: str
    depths: tuple[tuple[str, Monomial], ...]

    def to_dict(self) -> dict[str, object]:
        return {
            "stack": self.part,
            "sublayer": self.sublayer,
            "norm": self.place,
            "epsilon": self.epsilon,
            "fixed_epsilon": EPSILON,
            "lost": float(LOST),
            "loses_from": {name: _layers(depth) for name, depth in self.depths},
        }


def sinking(selection: Selection, rule: Rule) -> Iterator[Sinking]:
    """Every norm under ``rule`` whose ε must fall with the depth."""
    p = law(selection.the_optimizer).p
    for entry in rule.entries:
        part, sublayers = _governed(selection, entry)
        for norm in of_entry(selection, entry):
            depths = tuple(norm.sinks_from(sublayers, part.depth, p))
            yield Sinking(part.name, entry.sublayer, norm.place, norm.squared, depths)


def in_words(norms: Sequence[Sinking], depth: dict[str, int]) -> str:
    """What each norm's ε needs, and the depth where a fixed one becomes too large, in sentences."""
    sentences = []
    for one in norms:
        whose = one.part if one.sublayer == "*" else f"{one.part}, {one.sublayer}"
        shown = f" = {evaluate(DEPTH.parse(one.epsilon), **depth):.4g}" if depth else ""
        sentence = (
            f"{WORDS[one.place].capitalize()} ({whose}) divides what falls with the depth: "
            f"multiply its epsilon by {one.epsilon}{shown}."
        )
        if one.depths:
            alike: dict[str, list[str]] = {}
            for name, deep in one.depths:
                alike.setdefault(_layers(deep), []).append(name)
            sinks = ", ".join(f"{n} layers on in {' and '.join(of)}" for n, of in alike.items())
            sentence += (
                f" Left at {EPSILON:g}, it takes {float(LOST):.0%} of what one update moves from "
                f"{sinks}, and more in deeper models; attention over many different tokens, whose "
                "average is small, loses it sooner."
            )
        sentences.append(sentence)
    return " ".join(sentences)


def _layers(depth: Monomial) -> str:
    """A depth as a number where it is one, else as its formula."""
    return str(depth) if depth.symbols else str(math.ceil(depth.at()))


def branch_variance(sublayer: Sublayer) -> Fraction:
    """c: the variance of a branch's entries at gain 1, on an input whose entries have variance 1.

    Exact for uncorrelated matrices and a ReLU, at most this for other activations and attention.
    """
    variance: Fraction = fold(sublayer.expression.root, _Variance(sublayer))
    return variance / sublayer.chosen  # independent experts, each weighed by 1/k


class _Variance(OperatorAlgebra[Fraction]):
    """Variances multiply: a matrix gives fan_in times that of its entries."""

    def __init__(self, sublayer: Sublayer) -> None:
        self.names = {"x": Fraction(1), "memory": Fraction(1)}
        self.names |= {v.name: Fraction(0) for v in sublayer.vectors}
        self.names |= {m.name: _of_matrix(m) for m in sublayer.matrices if m.name != "router"}
        self.names["router"] = Fraction(1)  # whose softmax is a share

    def number(self, value: Fraction) -> Fraction:
        return value * value

    def name(self, name: str) -> Fraction:
        return self.names[name]

    def power(self, base: Fraction, exponent: Fraction) -> Fraction:
        if exponent != 2:
            raise TypeError("a branch holds a power that is no square")
        return 6 * base * base  # of a rectified normal entry: E h⁴ = 3s²/2 where E h² = s/2

    def call(self, function: str, arguments: tuple[Fraction, ...]) -> Fraction:
        first, *others = arguments
        match function:
            case "phi":
                return first / 2
            case "softmax" | "norm":
                return Fraction(1)
            case "hadamard":
                return first * others[0]
            case _:  # a transpose
                return first


def _of_matrix(matrix: Matrix) -> Fraction:
    fans = {"d": Fraction(1), "hidden": Fraction(Architecture().ffn_ratio)}
    fan_in, fan_out = fans[matrix.fan_in], fans[matrix.fan_out]
    return 2 * fan_in / (fan_in + fan_out)
