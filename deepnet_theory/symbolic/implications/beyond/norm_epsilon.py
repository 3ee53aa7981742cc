"""Norms on what falls with the depth: their epsilon, held against an explicit sum."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import mpmath
import sympy as sp

from deepnet_theory.sizes.norm_epsilon import WORDS, of_entry
from deepnet_theory.spec.rule import RuleEntry
from deepnet_theory.symbolic.algebra.depth import depth_expression, in_sympy, rational
from deepnet_theory.symbolic.algebra.monomial import simplified, text
from deepnet_theory.symbolic.implications.beyond.of_kind import DIGITS, SECTION, OfKind, value
from deepnet_theory.symbolic.proof.step import Check, Step


def norm_epsilons(of: OfKind) -> Iterator[Step]:
    """One step for every norm of a kind that divides what falls with the depth."""
    kind, part = of.kind, of.balanced.part
    alpha, beta = (text(of.balanced.value(knob)) for knob in (kind.alpha, kind.beta))
    for norm in of_entry(of.problem.selection, RuleEntry(part.name, kind.name, alpha, beta)):
        powers = (rational(norm.size.exponent(knob)) for knob in ("alpha", "beta"))
        size = sp.Mul(*(k**p for k, p in zip((kind.alpha, kind.beta), powers, strict=True)))
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
