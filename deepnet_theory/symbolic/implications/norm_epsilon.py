r"""Norms on what falls with the depth: their epsilon, and where a fixed one overtakes the branch.

The entries of a branch have a variance of :math:`c\,s^2` at most, s the product of its gains. In c
Xavier's matrices have the usual hidden width, φ leaves half of the second moment (ReLU exactly,
GELU and SiLU at most), and a softmax average is as large as one token at most. Where this is ε,
less than half of the variance that a norm should have comes out of it.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import sympy as sp

from deepnet_theory.spec.constants import Architecture
from deepnet_theory.spec.expression import DEPTH, OperatorAlgebra, evaluate, fold
from deepnet_theory.spec.norm import EPSILON
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Matrix, Sublayer
from deepnet_theory.symbolic.algebra.depth import depth_expression, rational
from deepnet_theory.symbolic.algebra.monomial import simplified, solve, text
from deepnet_theory.symbolic.algebra.symbols import DEPTHS
from deepnet_theory.symbolic.implications.beyond.of_kind import DEPTH_POINTS, SECTION, OfKind, value
from deepnet_theory.symbolic.laws.norm_epsilon import falling
from deepnet_theory.symbolic.laws.placement import P, norm_arguments
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.problem import Problem

WORDS = {
    "output": "the norm on the branch's output",
    "sum": "the norm on the residual sum",
    "input": "the norm on the branch's input",
    "stream": "the norm on the stream",
}


@dataclass(frozen=True)
class Sinking:
    """A norm whose ε must fall with the depth, in every sublayer of one entry of a rule.

    ``epsilon`` is what keeps it below the variance, as a factor on the ε of a shallow model, and
    ``depths`` where a fixed 1e-5 overtakes what the norm divides, at the latest, by the name of the
    sublayer.
    """

    part: str
    sublayer: str
    place: str
    epsilon: str
    depths: tuple[tuple[str, sp.Expr], ...]

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "stack": self.part,
            "sublayer": self.sublayer,
            "norm": self.place,
            "epsilon": self.epsilon,
            "fixed_epsilon": EPSILON,
            "sinks_from": {name: str(depth) for name, depth in self.depths},
        }


def norm_epsilon_steps(problem: Problem, balanced: Balanced) -> Iterator[Step]:
    """One step for every norm of a kind that divides what falls with the depth."""
    placement = problem.selection.the_placement
    for kind in balanced.kinds:
        of = OfKind(problem, balanced, kind)
        alpha, beta = (text(balanced.value(knob)) for knob in (kind.alpha, kind.beta))
        for norm in falling(placement, kind.matrices, alpha, beta, balanced.part.depth):
            (scalar,) = dict(norm_arguments(placement))[norm.place]
            size = scalar.xreplace({P: kind.beta**kind.matrices, **kind.own})
            yield SECTION.equal(
                f"norm-epsilon-{of.tag}-{norm.place}",
                size**2,
                depth_expression(norm.squared),
                (
                    f"{WORDS[norm.place]} is z/sqrt(var(z) + epsilon), and var(z) falls with the "
                    "depth as the square of the product of the gains: epsilon keeps its share "
                    "under the root where it is multiplied by the same"
                ),
                uses=of.at_rule,
                checks=(Check("the share of epsilon under the root", partial(_share_kept, of)),),
            )


def _share_kept(of: OfKind, step: Step) -> bool:
    """ε beside the variance of an explicit branch, one matrix after the other, at many depths."""
    shares = []
    for point in DEPTH_POINTS:
        numbers = of.numbers(point)
        entry = sp.Rational(7, 10)
        for _ in of.kind.sublayer.scaled:
            entry *= numbers[of.kind.beta]
        shares.append([value(side, numbers) / value(entry**2, numbers) for side in (step.lhs, step.rhs)])
    first = shares[0][0]
    return all(abs(share / first - 1) < 1e-12 for row in shares for share in row)


def sinking(selection: Selection, rule: Rule) -> Iterator[Sinking]:
    """Every norm under ``rule`` whose ε must fall with the depth."""
    for part in selection.the_stack.parts:
        depth = DEPTHS[part.depth]
        for entry in (e for e in rule.entries if e.part == part.name):
            own = {s.name: s for s in part.layer if entry.sublayer in ("*", s.name)}
            for place, times in entry.norm_epsilon:
                found = []
                for name, of in own.items():
                    variance = rational(branch_variance(of)) * depth_expression(times)
                    solved = solve([(variance, sp.Rational(str(EPSILON)))], [depth])
                    if solved is not None and solved.unique:
                        found.append((name, simplified(solved.values[depth])))
                yield Sinking(part.name, entry.sublayer, place, times, tuple(found))


def told(found: Sequence[Sinking], depth: dict[str, int]) -> str:
    """What each norm's ε needs, and from which depth on a fixed one is too large, in sentences."""
    sentences = []
    for one in found:
        whose = one.part if one.sublayer == "*" else f"{one.part}, {one.sublayer}"
        shown = f" = {evaluate(DEPTH.parse(one.epsilon), **depth):.4g}" if depth else ""
        sentence = (
            f"{WORDS[one.place].capitalize()} ({whose}) divides what falls with the depth: multiply "
            f"its epsilon by {one.epsilon}{shown}."
        )
        if one.depths:
            sinks = ", ".join(f"{_layers(at)} on in {name}" for name, at in one.depths)
            sentence += (
                f" Left at {EPSILON:g} it is larger than the branch's variance from {sinks}, at "
                "the latest, and one learning rate serves no deeper model."
            )
        sentences.append(sentence)
    return " ".join(sentences)


def _layers(depth: sp.Expr) -> str:
    """A depth as a number of layers where it is one, else as its formula."""
    return f"{depth} layers" if depth.free_symbols else f"{math.ceil(float(depth))} layers"


def branch_variance(sublayer: Sublayer) -> Fraction:
    """c: the variance of a branch's entries at gain 1, on an input whose entries have variance 1.

    Exact for uncorrelated matrices and a ReLU, at most this for other activations and attention.
    """
    found: Fraction = fold(sublayer.expression.root, _Variance(sublayer))
    return found


class _Variance(OperatorAlgebra[Fraction]):
    """Variances multiply: a matrix gives fan_in times that of its entries."""

    def __init__(self, sublayer: Sublayer) -> None:
        self.names = {"x": Fraction(1), "memory": Fraction(1)}
        self.names |= {v.name: Fraction(0) for v in sublayer.vectors}
        self.names |= {m.name: _of_matrix(m) for m in sublayer.matrices}

    def number(self, value: Fraction) -> Fraction:
        return value * value

    def name(self, name: str) -> Fraction:
        return self.names[name]

    def power(self, base: Fraction, exponent: Fraction) -> Fraction:
        raise TypeError("a branch holds a power of a matrix")

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
