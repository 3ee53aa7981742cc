"""The recursion of the change through one sublayer, and the coefficient of ‖Δθ‖."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import sympy as sp

from deepnet_theory.symbolic.algebra.symbols import S
from deepnet_theory.symbolic.expectation.model import in_models, norm_of
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import IDENTITY, Check, Step
from deepnet_theory.symbolic.routes.moments.norm import (
    RECURSION,
    explicit_changes,
    input_term,
    jacobian,
    parameter_term,
)
from deepnet_theory.symbolic.routes.moments.setting import (
    CAKE,
    GaussianBranch,
    alpha,
    norm_dtheta,
    norm_dx,
    norm_dx_next,
    v,
    w,
)

gain = sp.sqrt(alpha**2 + v**2 * w**2)
both = sp.sqrt(v**2 + w**2)
norm_dx_last = norm_of("dx_last", r"\Delta x_{S+1}")
index = sp.Symbol("i", integer=True, positive=True)


class change(sp.Function):  # type: ignore[misc]  # noqa: N801  as SymPy names functions
    """‖Δθ_i‖ of sublayer i."""

    part = ""  # the initial of a part where the stack has two

    def _sympystr(self, printer: Any) -> str:
        tail = f"_{self.part}" if self.part else ""
        return f"norm_dtheta{tail}({printer._print(self.args[0])})"

    def _latex(self, printer: Any) -> str:
        part = f"{self.part}," if self.part else ""
        return rf"\|\Delta\theta_{{{part}{printer._print(self.args[0])}}}\|"

    def _mathml_presentation(self, printer: Any) -> Any:
        def element(tag: str, *content: Any) -> Any:
            made = printer.dom.createElement(tag)
            for piece in content:
                is_text = isinstance(piece, str)
                made.appendChild(printer.dom.createTextNode(piece) if is_text else piece)
            return made

        part = (element("mi", self.part), element("mo", ",")) if self.part else ()
        indices = element("mrow", *part, printer._print(self.args[0]))
        theta = element("msub", element("mi", "θ"), indices)
        return element("mrow", element("mo", "‖"), element("mi", "Δ"), theta, element("mo", "‖"))


COEFFICIENT = "moment-coefficient"


def _numerators(step: Step) -> bool:
    """Both sides are positive and rhs² − lhs² is a quotient of sums of positive terms."""
    return _at_most(step.lhs, step.rhs)


def _at_most(left: Any, right: Any) -> bool:
    top, bottom = sp.fraction(sp.together(right**2 - left**2))
    return bool(
        left.is_nonnegative
        and right.is_nonnegative
        and sp.expand(top).is_nonnegative
        and sp.expand(bottom).is_positive
    )


SQUARES = Check("rhs^2 - lhs^2 is a quotient of positive sums", _numerators)


def recursion_steps(branches: tuple[GaussianBranch, ...]) -> tuple[Step, ...]:
    """‖Δx_{l+1}‖ ≤ ‖Δx_l‖ + √(v²+w²)/√(α²+v²w²)·‖Δθ_l‖, then with α alone below."""
    of_input = tuple(f"{b.name}-input-term" for b in branches)
    of_theta = tuple(f"{b.name}-parameter-bound-in-theta" for b in branches)
    recursion = norm_dx + both / gain * norm_dtheta
    final = norm_dx + both / alpha * norm_dtheta
    return (
        Step(
            name="triangle-inequality",
            section=RECURSION,
            lhs=norm_dx_next,
            rhs=jacobian * (input_term + parameter_term),
            relation=Relation.AT_MOST,
            because=(
                "Δx_{l+1} = J(∂z/∂x Δx + ∂z/∂θ Δθ) to first order, ‖J a‖ ≤ ‖J‖₂‖a‖ and the "
                "triangle inequality; in mean square it is Minkowski's"
            ),
            source=CAKE,
            uses=("norm-jacobian",),
            assumptions=("linear-step",),
            establishes=(norm_dx_next, input_term, parameter_term),
            checks=(
                in_models(
                    "at explicit Jacobians and vectors, once with equality", explicit_changes
                ),
            ),
        ),
        Step(
            name="moments-put-in",
            section=RECURSION,
            lhs=(jacobian * (input_term + parameter_term)).subs(
                {jacobian: 1 / gain, input_term: gain * norm_dx, parameter_term: both * norm_dtheta}
            ),
            rhs=recursion,
            relation=Relation.EQUAL,
            because=(
                "√d/‖z‖ = 1/√(α²+v²w²), and the root mean squares of both terms: the factor of "
                "‖Δx‖ is exactly 1, because z and its change carry the same second moment"
            ),
            source=CAKE,
            uses=("triangle-inequality", "norm-jacobian-size", *of_input, *of_theta),
            assumptions=("norm-concentrates",),
            checks=(IDENTITY, Check("as the mean squares say", _from_squares())),
        ),
        Step(
            name="recursion",
            section=RECURSION,
            lhs=recursion,
            rhs=final,
            relation=Relation.AT_MOST,
            because="v²w² > 0 is dropped under the root",
            source=CAKE,
            uses=("moments-put-in",),
            checks=(Check("coefficient by coefficient", _coefficients),),
        ),
        Step(
            name=COEFFICIENT,
            section=RECURSION,
            lhs=both / gain,
            rhs=both / alpha,
            relation=Relation.AT_MOST,
            because="what one sublayer adds per ‖Δθ‖; the telescoping sum takes one such term each",
            source="layer cake, §5.1 and §5.2",
            uses=("recursion",),
            checks=(SQUARES,),
        ),
    )


def telescoping_step() -> Step:
    """‖Δx_{S+1}‖ ≤ Σ_i √(v²+w²)/α ‖Δθ_i‖, the recursion unrolled."""
    return Step(
        name="telescoping",
        section=RECURSION,
        lhs=norm_dx_last,
        rhs=sp.Sum(both / alpha * change(index), (index, 1, S)),
        relation=Relation.AT_MOST,
        because=(
            "the recursion from l = 1, where Δx_1 = 0, through the S sublayers of the stack; the "
            "factor 1 of ‖Δx_l‖ makes it a plain sum"
        ),
        source="layer cake, §5.3",
        uses=(COEFFICIENT,),
        assumptions=("linear-step", "norm-concentrates"),
        establishes=(norm_dx_last,),
        checks=(Check("the recursion run at S = 1, 2, 3, 6", _unrolled),),
    )


def _unrolled(step: Step) -> bool:
    generator = random.Random(step.name)
    at = {alpha: sp.Rational(7, 3), v: sp.Rational(3, 5), w: sp.Rational(4, 5)}
    for sublayers in (1, 2, 3, 6):
        sizes = [sp.Rational(generator.randint(1, 9), 4) for _ in range(sublayers)]
        reached = sp.S.Zero
        for size in sizes:
            reached = reached + sp.sqrt(at[v] ** 2 + at[w] ** 2) / at[alpha] * size
        written = step.rhs.subs({**at, S: sublayers}).doit()
        for place, size in enumerate(sizes, 1):
            written = written.subs(change(place), size)
        if sp.simplify(written - reached) != 0:
            return False
    return bool(step.lhs == norm_dx_last)


def _from_squares() -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        # coefficients of ‖Δx‖² and ‖Δθ‖² alone, squared: no root is simplified
        for symbol, square in (
            (norm_dx, sp.S.One),
            (norm_dtheta, (v**2 + w**2) / (alpha**2 + v**2 * w**2)),
        ):
            own = step.rhs.coeff(symbol, 1)
            if sp.expand(sp.numer(sp.together(own**2 - square))) != 0 or not own.is_positive:
                return False
        return bool(sp.expand(step.rhs.subs({norm_dx: 0, norm_dtheta: 0})) == 0)

    return holds


def _coefficients(step: Step) -> bool:
    for symbol in (norm_dx, norm_dtheta):
        left, right = (sp.expand(side).coeff(symbol, 1) for side in (step.lhs, step.rhs))
        if not _at_most(left, right):
            return False
    return True
