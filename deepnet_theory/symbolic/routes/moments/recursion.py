"""The recursion of the change through one sublayer, and the coefficient of ‖Δθ‖."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy as sp
from sympy.printing.printer import Printer

from deepnet_theory.symbolic.algebra.monomial import S, vanishes
from deepnet_theory.symbolic.algebra.nodes import mathml
from deepnet_theory.symbolic.expectation.model import in_models, norm_of
from deepnet_theory.symbolic.proof.checks import SQUARES_AT_MOST
from deepnet_theory.symbolic.proof.step import IDENTITY, Check, Step
from deepnet_theory.symbolic.routes.moments.checks import REACHED
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

if TYPE_CHECKING:
    from xml.dom.minidom import Element

norm_dx_last = norm_of("dx_last", r"\Delta x_{S+1}")
index = sp.Symbol("i", integer=True, positive=True)


class change(sp.Function):  # type: ignore[misc]  # noqa: N801  as SymPy names functions
    """‖Δθ_i‖ of sublayer i."""

    part = ""  # the initial of a part where the stack has two

    def _sympystr(self, printer: Printer) -> str:
        tail = f"_{self.part}" if self.part else ""
        return f"norm_dtheta{tail}({printer._print(self.args[0])})"

    def _latex(self, printer: Printer) -> str:
        part = f"{self.part}," if self.part else ""
        return rf"\|\Delta\theta_{{{part}{printer._print(self.args[0])}}}\|"

    def _mathml_presentation(self, printer: Printer) -> Element:
        part = (mathml(printer, "mi", self.part), mathml(printer, "mo", ",")) if self.part else ()
        indices = mathml(printer, "mrow", *part, self.args[0])
        theta = mathml(printer, "msub", mathml(printer, "mi", "θ"), indices)
        norm, delta = mathml(printer, "mo", "‖"), mathml(printer, "mi", "Δ")
        return mathml(printer, "mrow", norm, delta, theta, norm.cloneNode(True))


COEFFICIENT = "moment-coefficient"


def recursion_steps(
    branches: tuple[GaussianBranch, ...], of: Mapping[str, Step]
) -> tuple[Step, ...]:
    """‖Δx_{l+1}‖ ≤ ‖Δx_l‖ + √(v²+w²)/√(α²+v²w²)·‖Δθ_l‖, then with α alone below."""
    triangle = RECURSION.at_most(
        "triangle-inequality",
        norm_dx_next,
        jacobian * (input_term + parameter_term),
        (
            "Δx_{l+1} = J(∂z/∂x Δx + ∂z/∂θ Δθ) to first order, ‖J a‖ ≤ ‖J‖₂‖a‖ and the "
            "triangle inequality; in mean square it is Minkowski's"
        ),
        source=CAKE,
        uses=("norm-jacobian",),
        assumptions=("linear-step",),
        establishes=(norm_dx_next, input_term, parameter_term),
        checks=(
            in_models("at explicit Jacobians and vectors, once with equality", explicit_changes),
        ),
    )
    moments = {branch.name: _root_mean_squares(branch, of) for branch in branches}
    put_in = triangle.rhs.xreplace(moments[branches[0].name])
    exact = RECURSION.equal(
        "moments-put-in",
        put_in,
        sp.expand(put_in),
        (
            "√d/‖z‖ = 1/√(α²+v²w²), and the root mean squares of both terms: the factor of "
            "‖Δx‖ is exactly 1, because z and its change carry the same second moment"
        ),
        source=CAKE,
        uses=(
            triangle.name,
            "norm-jacobian-size",
            *(f"{branch.name}-input-term" for branch in branches),
            *(name for branch in branches for name in of_parameters(branch)),
        ),
        assumptions=("norm-concentrates",),
        checks=(IDENTITY, Check("of every kind of sublayer", _of_every(moments))),
    )
    bound = RECURSION.at_most(
        "recursion",
        exact.rhs,
        exact.rhs.subs(v**2 * w**2, 0),
        "v²w² > 0 is dropped under the root",
        source=CAKE,
        uses=(exact.name,),
        checks=(Check("coefficient by coefficient, reached for a weak branch", _coefficients),),
    )
    coefficient = RECURSION.at_most(
        COEFFICIENT,
        exact.rhs.coeff(norm_dtheta),
        bound.rhs.coeff(norm_dtheta),
        "what one sublayer adds per ‖Δθ‖; the telescoping sum takes one such term each",
        source="layer cake, §5.1 and §5.2",
        uses=(bound.name,),
        checks=(SQUARES_AT_MOST, REACHED),
    )
    return triangle, exact, bound, coefficient, _telescoping(bound, coefficient)


def of_parameters(branch: GaussianBranch) -> tuple[str, str]:
    """The steps that bound the parameter term in ‖Δθ‖."""
    return f"{branch.name}-parameter-bound-in-theta", f"{branch.name}-parameter-change"


def parameter_square(branch: GaussianBranch, of: Mapping[str, Step]) -> sp.Expr:
    """The bound of the parameter term's mean square, per ‖Δθ‖²."""
    bound, change = (of[name].rhs for name in of_parameters(branch))
    return sp.cancel(bound / change**2)


def _root_mean_squares(branch: GaussianBranch, of: Mapping[str, Step]) -> dict[sp.Symbol, sp.Expr]:
    return {
        jacobian: of["norm-jacobian-size"].rhs,
        input_term: sp.sqrt(of[f"{branch.name}-input-term"].rhs),
        parameter_term: sp.sqrt(parameter_square(branch, of)) * norm_dtheta,
    }


def _of_every(moments: Mapping[str, Mapping[sp.Symbol, sp.Expr]]) -> Callable[[Step], bool]:
    """The squared coefficients of ‖Δx‖ and ‖Δθ‖ are those of each kind: no root is simplified."""

    def holds(step: Step) -> bool:
        for values in moments.values():
            for symbol, term in ((norm_dx, input_term), (norm_dtheta, parameter_term)):
                square = (values[jacobian] * values[term] / symbol) ** 2
                own = step.rhs.coeff(symbol)
                if not (own.is_positive and vanishes(own**2 - square)):
                    return False
        return bool(sp.expand(step.rhs.subs({norm_dx: 0, norm_dtheta: 0})) == 0)

    return holds


def _coefficients(step: Step) -> bool:
    for symbol in (norm_dx, norm_dtheta):
        left, right = (sp.expand(side).coeff(symbol) for side in (step.lhs, step.rhs))
        own = replace(step, lhs=left, rhs=right)
        if not (SQUARES_AT_MOST.holds(own) and REACHED.holds(own)):
            return False
    return True


def _telescoping(recursion: Step, coefficient: Step) -> Step:
    """‖Δx_{S+1}‖ ≤ Σ_i √(v²+w²)/α ‖Δθ_i‖, the recursion unrolled."""

    def unrolled(step: Step) -> bool:
        generator = random.Random(step.name)
        at = {alpha: sp.Rational(7, 3), v: sp.Rational(3, 5), w: sp.Rational(4, 5)}
        for sublayers in (1, 2, 3, 6):
            sizes = [sp.Rational(generator.randint(1, 9), 4) for _ in range(sublayers)]
            reached = sp.S.Zero
            for size in sizes:
                reached = recursion.rhs.xreplace({norm_dx: reached, norm_dtheta: size, **at})
            written = step.rhs.xreplace({**at, S: sp.Integer(sublayers)}).doit()
            names = {change(place): size for place, size in enumerate(sizes, 1)}
            if sp.simplify(written.xreplace(names) - reached) != 0:
                return False
        return bool(step.lhs == norm_dx_last)

    return RECURSION.at_most(
        "telescoping",
        norm_dx_last,
        sp.Sum(coefficient.rhs * change(index), (index, 1, S)),
        (
            "the recursion from l = 1, where Δx_1 = 0, through the S sublayers of the stack; the "
            "factor 1 of ‖Δx_l‖ makes it a plain sum"
        ),
        source="layer cake, §5.3",
        uses=(coefficient.name,),
        assumptions=("linear-step", "norm-concentrates"),
        establishes=(norm_dx_last,),
        checks=(Check("the recursion run at S = 1, 2, 3, 6", unrolled),),
    )
