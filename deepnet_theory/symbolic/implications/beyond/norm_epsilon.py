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

import mpmath
import sympy as sp

from deepnet_theory.spec.constants import Architecture
from deepnet_theory.spec.expression import DEPTH, OperatorAlgebra, evaluate, fold
from deepnet_theory.spec.norm import EPSILON
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Matrix, Sublayer
from deepnet_theory.symbolic.algebra.depth import depth_expression, in_sympy, rational
from deepnet_theory.symbolic.algebra.monomial import simplified, solve, text
from deepnet_theory.symbolic.algebra.symbols import DEPTHS
from deepnet_theory.symbolic.implications.beyond.of_kind import DIGITS, SECTION, OfKind, value
from deepnet_theory.symbolic.laws.norm_epsilon import falling, of_entry
from deepnet_theory.symbolic.proof.step import Check, Step

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


def norm_epsilons(of: OfKind) -> Iterator[Step]:
    """One step for every norm of a kind that divides what falls with the depth."""
    kind, part = of.kind, of.balanced.part
    alpha, beta = (text(of.balanced.value(knob)) for knob in (kind.alpha, kind.beta))
    placement = of.problem.selection.the_placement
    for norm in falling(placement, kind.matrices, alpha, beta, part.depth):
        size = kind.alpha ** rational(norm.alpha) * kind.beta ** rational(norm.beta)
        what = "the branch, as the product of its gains" if norm.of_branch else "the stream"
        yield SECTION.equal(
            f"norm-epsilon-{of.tag}-{norm.place}",
            size**2,
            depth_expression(norm.squared),
            (
                f"{WORDS[norm.place]} is z/sqrt(var(z) + epsilon), and z falls with the depth as "
                f"{what}: epsilon keeps its share under the root where it goes as the square"
            ),
            uses=of.at_rule,
            checks=(
                Check("holds once the solution is put in", partial(_put_in, of)),
                Check(
                    "its share under the root at two depths", partial(_share_kept, of, norm.place)
                ),
            ),
        )


def _put_in(of: OfKind, step: Step) -> bool:
    return bool(simplified(of.balanced.at_solution(step.lhs) / step.rhs) == 1)


def _share_kept(of: OfKind, place: str, step: Step) -> bool:
    """ε beside the variance of an explicit sum, its gains multiplied one by one."""
    placement = of.problem.selection.the_placement
    stream, branch = sp.symbols("stream branch")
    shares = []
    with mpmath.workdps(DIGITS):
        for layers in (10**100, 10**200):
            depths = of.depths((layers, 7))
            at = {s: value(v, depths) for s, v in of.balanced.values.items()}
            gain = mpmath.fprod(at[of.kind.beta] for _ in of.kind.sublayer.scaled)
            divided: list[sp.Expr] = []

            def norm(z: sp.Expr, divided: list[sp.Expr] = divided) -> sp.Expr:
                divided.append(sp.expand(z))
                return stream

            numbers = {"x": stream, "alpha": sp.Float(str(at[of.kind.alpha]), DIGITS)}
            times = sp.Float(str(gain), DIGITS) * branch
            in_sympy(placement.expression, numbers, {"norm": norm, "branch": lambda _, t=times: t})
            z = divided[placement.places.index(place)]
            variance = sum(value(z.coeff(s) ** 2, depths) for s in (stream, branch))
            shares.append(value(step.rhs, depths) / variance)
    first, second = shares
    return bool(abs(second / first - 1) < mpmath.mpf("1e-6"))


def sinking(selection: Selection, rule: Rule) -> Iterator[Sinking]:
    """Every norm under ``rule`` whose ε must fall with the depth."""
    for entry in rule.entries:
        part = next(p for p in selection.the_stack.parts if p.name == entry.part)
        depth = DEPTHS[part.depth]
        own = {s.name: s for s in part.layer if entry.sublayer in ("*", s.name)}
        for norm in of_entry(selection, entry):
            found = []
            for name, of in own.items():
                entries = rational(branch_variance(of)) if norm.of_branch else sp.Integer(1)
                variance = entries * depth_expression(norm.squared)
                solved = solve([(variance, sp.Rational(str(EPSILON)))], [depth])
                if solved is not None and solved.unique:
                    found.append((name, simplified(solved.values[depth])))
            yield Sinking(part.name, entry.sublayer, norm.place, norm.squared, tuple(found))


def told(found: Sequence[Sinking], depth: dict[str, int]) -> str:
    """What each norm's ε needs, and from which depth on a fixed one is too large, in sentences."""
    sentences = []
    for one in found:
        whose = one.part if one.sublayer == "*" else f"{one.part}, {one.sublayer}"
        shown = f" = {evaluate(DEPTH.parse(one.epsilon), **depth):.4g}" if depth else ""
        sentence = (
            f"{WORDS[one.place].capitalize()} ({whose}) divides what falls with the depth: "
            f"multiply its epsilon by {one.epsilon}{shown}."
        )
        if one.depths:
            alike: dict[str, list[str]] = {}
            for name, at in one.depths:
                alike.setdefault(_layers(at), []).append(name)
            sinks = ", ".join(f"{at} layers on in {' and '.join(n)}" for at, n in alike.items())
            sentence += (
                f" Left at {EPSILON:g}, epsilon is larger than the variance at the latest from "
                f"{sinks}, and one learning rate serves no deeper model."
            )
        sentences.append(sentence)
    return " ".join(sentences)


def _layers(depth: sp.Expr) -> str:
    """A depth as a number where it is one, else as its formula."""
    return str(depth if depth.free_symbols else math.ceil(float(depth)))


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
