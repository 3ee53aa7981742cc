"""Equivalent rules: what a change of a matrix's scale asks of its optimizer.

The steps prove :func:`deepnet_theory.sizes.equivalence.powers`: at W = cW', the factor c moved into
the forward pass, each update moves W by c times as much as W'. It is exact where the update is
homogeneous with its constants, and holds up to ε where ε is left as it is. What is left alone is r,
the forward pass being so, and the share ηρ of a matrix that one update moves: **S·r and ηρ are the
invariants of a class of rules**.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction

import sympy as sp
from sympy.core.function import AppliedUndef

from deepnet_theory.sizes.entries import DIGITS, Value, entries
from deepnet_theory.sizes.equivalence import carries_alpha, powers
from deepnet_theory.sizes.update import law, practised
from deepnet_theory.spec.expression import Node
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra import Branch, alpha, eta, exponents, rational
from deepnet_theory.symbolic.laws.explicit_matrices import agree
from deepnet_theory.symbolic.laws.optimizer import decimal
from deepnet_theory.symbolic.laws.placement import P, residual, x
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.rule import Problem

SECTION = Section("Equivalent rules")
c = sp.Symbol("c", positive=True)
_W = sp.Symbol("W'", positive=True)
_u = sp.Function("u")
_L = sp.Function("L")
# what an update is a function of; m and v are running means of g and g²
_OF = {
    "eta": eta,
    **{name: sp.Symbol(name, positive=True) for name in ("g", "theta")},
    **{name: sp.Symbol(f"{name}_t", positive=True) for name in ("m", "v")},
    "epsilon": sp.Symbol("epsilon", positive=True),
    "decay": sp.Symbol("omega", positive=True),
}
# an update is run on these numbers, for a parameter of two entries
_AT = {
    "g": ("3/7", "-5/11"),
    "theta": ("-17/5", "23/9"),
    "m": ("2/9", "-7/4"),
    "v": ("6", "1/5"),
    "eta": ("1/3",),
    "decay": ("3/13",),
}
_EPSILONS = ("1/50", "7")  # below the gradient, and above it
_WORDS = {"epsilon": "epsilon", "decay": "the weight decay"}
_GIVEN = {"g": 1, "theta": -1, "m": 1, "v": 2}  # what W = cW' does to them, as powers of c


def equivalence_steps(problem: Problem) -> Iterator[Step]:
    """W = cW' for the update, for its epsilon and weight decay, for its memory, and for α."""
    optimizer, of_c = problem.selection.the_optimizer, powers(problem.selection.the_optimizer)
    own, running = practised(optimizer), optimizer.running
    yield SECTION.equal(
        "moved-gradient",
        sp.Derivative(_L(c * _W), _W),
        c * _OF["g"],
        "W = c*W' with c in the forward pass: g is the gradient of the loss at W",
        establishes=(c, _W, *_OF.values()),
        checks=(Check("losses differentiated", _differentiated),),
    )
    yield _left_alone(
        "moved-update",
        problem.degrees.reduced,
        optimizer,
        ("eta", "g", "theta"),
        f"by the degrees, c*c^({of_c['eta']})*c^({problem.degrees.p})"
        f"*c^({-problem.degrees.q}) = 1: W moves as it did, and so does the share eta*rho of it; "
        "the forward pass is the same, and with it r: S*r and eta*rho are all that a class of "
        "equivalent rules has in common",
        ("degrees", "moved-gradient"),
    )
    if own.constants:
        yield _left_alone(
            "moved-constants",
            own.reduced,
            optimizer,
            ("eta", "g", "theta", *own.constants),
            "; ".join(
                f"{_WORDS[name]} takes c^({of_c[name]}): the sum that it stands in is "
                f"homogeneous where it is of degree {d.exponent('g')} in g and "
                f"{d.exponent('theta')} in theta"
                for name, d in own.constants.items()
            ),
            ("moved-update",),
        )
    if running is not None and running.expression.names & {"m", "v"}:
        yield _left_alone(
            "moved-history",
            running.expression.root,
            optimizer,
            tuple(name for name in _OF if name in running.expression.names | {"theta"}),
            "a running mean of g is of degree 1 in it and one of its square of degree 2: where all "
            "updates so far were c times as large in W as in W', so is the next one, and the whole "
            "trajectory is left alone",
            ("moved-update",),
        )
    if carries_alpha(problem.selection.the_placement):
        yield weights_step(problem.selection, of_c["eta"])


def _differentiated(step: Step) -> bool:
    """For powers of W, which make every loss by sums: a derivative is linear in the loss."""
    for power in (sp.S.Half, sp.Integer(2), sp.Integer(5)):
        found = step.lhs.xreplace({_L(c * _W): (c * _W) ** power}).doit()
        g = power * (c * _W) ** (power - 1)
        if exponents(step.rhs.xreplace({_OF["g"]: g}) / found):
            return False
    return True


def _left_alone(
    name: str,
    root: Node,
    optimizer: Optimizer,
    of: tuple[str, ...],
    because: str,
    uses: tuple[str, ...],
) -> Step:
    of_c = powers(optimizer)
    still = _u(*(_OF[each] for each in of))

    def run(step: Step) -> bool:
        """The update as W has it against c times that of W', the powers read off the step."""
        (moved,) = step.lhs.atoms(AppliedUndef)
        times = {each: argument / _OF[each] for each, argument in zip(of, moved.args, strict=True)}
        given = all(times.get(each, c**power) == c**power for each, power in _GIVEN.items())
        return (
            given
            and bool(step.rhs == still)
            and all(
                _moves_alike(root, times, step.lhs / moved, scale, epsilon)
                for scale in (sp.Integer(3), sp.Rational(2, 7))
                for epsilon in _EPSILONS
            )
        )

    return SECTION.equal(
        name,
        c * _u(*(c ** rational(of_c[each]) * _OF[each] for each in of)),
        still,
        because,
        uses=uses,
        assumptions=(
            ("stated-regime",) if law(optimizer).regimes or practised(optimizer).regimes else ()
        ),
        checks=(Check("the update on entries, at several c", run),),
    )


def _moves_alike(
    root: Node, times: Mapping[str, sp.Expr], outer: sp.Expr, scale: sp.Rational, epsilon: str
) -> bool:
    def values(times: Mapping[str, Decimal]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name, texts in {**_AT, "epsilon": (epsilon,)}.items():
            first, *second = (times.get(name, 1) * decimal(Fraction(text)) for text in texts)
            found[name] = (first, second[0]) if second else first
        return found

    with localcontext(prec=2 * DIGITS):
        at = {each: decimal(power.xreplace({c: scale})) for each, power in times.items()}
        own, other = (entries(root, values(by)) for by in ({}, at))
        least, outer = Decimal(10) ** -DIGITS, decimal(outer.xreplace({c: scale}))
        return any(own) and all(
            abs(outer * b - a) <= least * abs(a) for a, b in zip(own, other, strict=True)
        )


# ---- α in initial sizes and learning rates alone ----


def weights_step(selection: Selection, power: Fraction) -> Step:
    """α in the branch's last matrix, W = αW': both forms, on explicit matrices."""
    placement = selection.the_placement
    lasts = dict.fromkeys(s.last_map[0] for s in selection.the_stack.sublayers)
    divided = sp.Symbol("divided", positive=True)
    moved = residual(placement, lambda y: P / divided * Branch(y), rescale=False)
    return SECTION.equal(
        "weights-form",
        residual(placement, lambda y: P * Branch(y), rescale=False),
        moved.xreplace({alpha: sp.Integer(1)}).xreplace({divided: alpha}),
        f"alpha can go into the last matrix of a branch ({', '.join(lasts)}), which starts at "
        f"beta/alpha and learns at alpha^({power}) times its rate: no forward pass is "
        "touched (a norm's epsilon stands beside a variance that is alpha^2 times smaller)",
        uses=("moved-update",),
        establishes=(P, alpha, x),
        checks=(agree(),),
    )
