"""One sublayer's moments: the output, its Jacobian, the input term and the parameter term."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from deepnet_theory.symbolic.expectation import (
    ENUMERATED,
    Expectation,
    Index,
    IndexSum,
    Polynomial,
    Tensor,
    enumerate_expectation,
    expect,
    moment,
)
from deepnet_theory.symbolic.expectation.model import NamedQuantity
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.routes.moments.setting import (
    KNOWN_DV,
    KNOWN_DV_I,
    KNOWN_DW,
    KNOWN_DX,
    KNOWN_DX_I,
    KNOWN_X,
    KNOWN_XDW,
    GaussianBranch,
    cases,
    d,
    delta_v,
    delta_w,
    dx,
    explicit_z,
    i,
    j,
    k,
    m,
    mask,
    norm_dtheta,
    norm_dv,
    norm_dw,
    norm_x,
    v,
    w,
    x,
    x_white,
)

OUTPUT = Section("Output of a sublayer")
DERIVATIVES = Section("Derivatives of a sublayer")
INPUT = Section("Input term")
PARAMETERS = Section("Parameter term")

# what the parameters change, and an entry of it, as text and as LaTeX
_CHANGE = r"\tfrac{\partial z}{\partial V}\Delta V+\tfrac{\partial z}{\partial W}\Delta W"
PARAMETER_TERM = ("||dz/dV dV + dz/dW dW||^2", rf"\|{_CHANGE}\|^2")
PARAMETER_ENTRY = ("(dz/dV dV + dz/dW dW)_i^2", rf"({_CHANGE})_i^2")

j_of_v = Index("j", d)  # the source's ∂z_i/∂v_kj


def sublayer_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """The moments of one kind of sublayer, in the source's order."""
    return (
        *output_steps(branch),
        *derivative_steps(branch),
        *input_steps(branch),
        *parameter_steps(branch),
    )


# ---- the output ----------------------------------------------------------------------------


def output_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """z_i written out, its mean, its second moment, and E‖z‖² for any fixed input."""
    z, white = branch.z(), branch.z(x_white)
    square = (z * z).sum(i)
    total = sp.factor(expect(square, (KNOWN_X,)))
    entry = NamedQuantity(f"z_i[{branch.name}]", "z_i", real=True)
    named = f"{branch.name}-"
    return (
        OUTPUT.equal(
            named + "entry",
            entry,
            IndexSum(z),
            (
                "z = αx + ReLU(xW)V entry by entry, R_k = 1 where hidden unit k is active"
                if branch.rectified
                else "z = αx + xW_VW_O entry by entry, the heads' value matrices side by side as W"
            ),
            source=branch.source,
            establishes=(entry,),
            checks=(Check("equal to explicit matrix products", _is_product(branch)),),
        ),
        moment(
            OUTPUT,
            named + "mean",
            white,
            ("z_i", ""),
            "inputs and weights are centred",
            source=branch.source,
            uses=(named + "entry",),
            assumptions=(*branch.assumptions, "white-input"),
        ),
        moment(
            OUTPUT,
            named + "second-moment",
            white * white,
            ("z_i^2", "z_i^2"),
            (
                "the Kronecker deltas of W, V and x leave Σ_jk: d·m equal terms"
                + (", half of which pass the mask" if branch.rectified else "")
            ),
            source=branch.source,
            uses=(named + "mean",),
            assumptions=(*branch.assumptions, "white-input"),
        ),
        moment(
            OUTPUT,
            named + "norm",
            square,
            ("||z||^2", r"\|z\|^2"),
            "for every fixed x: the input need not be random, only independent of W and V",
            (KNOWN_X,),
            total,
            uses=(named + "entry",),
            assumptions=branch.assumptions,
        ),
        OUTPUT.equal(
            named + "norm-of-unit-input",
            d * Expectation(white * white, "z_i^2", "z_i^2"),
            sp.factor(total.subs(norm_x, sp.sqrt(d))),
            "‖x‖ = √d, since x comes out of a norm: E‖z‖² = d·E z_i²",
            source=branch.source,
            uses=(named + "norm", named + "second-moment"),
            assumptions=("unit-activations", "white-input"),
            checks=(ENUMERATED,),
        ),
    )


def _is_product(branch: GaussianBranch) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        return step.lhs in step.establishes and all(
            enumerate_expectation(step.rhs.polynomial, point, entries, {"i": a}) == expected
            for point, entries in cases(branch.name, (x, branch.W, branch.V, mask))
            for a, expected in enumerate(explicit_z(branch, point, entries), 1)
        )

    return holds


# ---- derivatives ---------------------------------------------------------------------------


def derivative_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """The Jacobian's entries, by the product rule, checked on explicit matrices."""
    z = branch.z()
    return (
        _derivative(branch, "input", x, (j,), z.derivative(x, j), "each x_j enters once"),
        _derivative(
            branch,
            "second-matrix",
            branch.V,
            (k, j_of_v),
            z.derivative(branch.V, k, j_of_v),
            "column j of V reaches z_j alone: zero for j ≠ i",
        ),
        _derivative(
            branch,
            "first-matrix",
            branch.W,
            (j, k),
            z.derivative(branch.W, j, k),
            "w_jk reaches z_i through hidden unit k",
        ),
    )


def _derivative(
    branch: GaussianBranch,
    what: str,
    tensor: Tensor,
    indices: tuple[Index, ...],
    value: Polynomial,
    because: str,
) -> Step:
    letters = "".join(index.name for index in indices)
    lhs = NamedQuantity(
        f"dz_i/d{tensor.name}_{letters}[{branch.name}]",
        rf"\partial z_i/\partial {tensor.name}_{{{letters}}}",
        real=True,
    )

    def holds(step: Step) -> bool:
        # z is affine in every single entry, so a difference of 1 is the derivative, exactly
        for point, entries in cases(branch.name, (x, branch.W, branch.V, mask)):
            base = explicit_z(branch, point, entries)
            for place, old in entries[tensor].items():
                moved = {**entries, tensor: {**entries[tensor], place: old + 1}}
                ahead = explicit_z(branch, point, moved)
                for a in range(1, point[d] + 1):
                    at = {"i": a, **{x.name: p for x, p in zip(indices, place, strict=True)}}
                    found = enumerate_expectation(step.rhs.polynomial, point, entries, at)
                    if found != ahead[a - 1] - base[a - 1]:
                        return False
        return step.lhs in step.establishes

    return DERIVATIVES.equal(
        f"{branch.name}-derivative-{what}",
        lhs,
        IndexSum(value),
        because,
        source=branch.source,
        uses=(f"{branch.name}-entry",),
        establishes=(lhs,),
        checks=(Check("equal to differences of explicit matrices", holds),),
    )


# ---- the input term ------------------------------------------------------------------------


def input_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """E‖∂z/∂x Δx‖² for a fixed Δx."""
    change = branch.z().along(x, dx)
    square = (change * change).sum(i)
    premises = (*branch.assumptions, "independent-update")
    entry = moment(
        INPUT,
        f"{branch.name}-input-entry",
        change * change,
        ("(dz/dx dx)_i^2", r"(\tfrac{\partial z}{\partial x}\Delta x)_i^2"),
        "the identity path keeps the entry, the branch spreads Δx over all entries",
        (KNOWN_DX, KNOWN_DX_I),
        source=branch.source,
        uses=(f"{branch.name}-derivative-input",),
        assumptions=premises,
    )
    return (
        entry,
        moment(
            INPUT,
            f"{branch.name}-input-term",
            square,
            ("||dz/dx dx||^2", r"\|\tfrac{\partial z}{\partial x}\Delta x\|^2"),
            (
                "z is linear in x once the mask is held: the factor is that of E‖z‖²/‖x‖². It "
                "needs a Δx that is independent of this sublayer's W and V; isotropy of Δx it "
                "does not need"
            ),
            (KNOWN_DX,),
            sp.factor(expect(square, (KNOWN_DX,))),
            source=branch.source,
            uses=(entry.name,),
            assumptions=premises,
        ),
    )


# ---- the parameter term --------------------------------------------------------------------


def parameter_change(branch: GaussianBranch, source: Tensor) -> Polynomial:
    """(∂z/∂V ΔV + ∂z/∂W ΔW)_i."""
    z = branch.z(source)
    return z.along(branch.V, delta_v) + z.along(branch.W, delta_w)


def parameter_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """E‖∂z/∂V ΔV + ∂z/∂W ΔW‖² for fixed ΔV, ΔW, its bound, and where independence entered."""
    named = f"{branch.name}-parameter-"
    white = parameter_change(branch, x_white)
    fixed = parameter_change(branch, x)
    both = ("fresh-weights", "independent-update", "white-input")
    given_input = moment(
        PARAMETERS,
        named + "fixed-input",
        (fixed * fixed).sum(i),
        PARAMETER_TERM,
        (
            "for every fixed x and fixed ΔV, ΔW: what counts of ΔW is xΔW, not ΔW; the mixed "
            "term vanishes because W and V are centred and ΔV, ΔW do not hold them"
        ),
        (KNOWN_X, KNOWN_DV, KNOWN_XDW),
        uses=tuple(f"{branch.name}-derivative-{which}-matrix" for which in ("second", "first")),
        assumptions=(*branch.assumptions, "independent-update"),
    )
    entry = moment(
        PARAMETERS,
        named + "entry",
        white * white,
        PARAMETER_ENTRY,
        "E x_j x_j' = δ_jj' turns ‖xΔW‖² into ‖ΔW‖²: here x must be independent of ΔW",
        (KNOWN_DV_I, KNOWN_DW),
        source=branch.source,
        uses=(given_input.name,),
        assumptions=both,
    )
    term = moment(
        PARAMETERS,
        named + "term",
        (white * white).sum(i),
        PARAMETER_TERM,
        "summed over i = 1..d",
        (KNOWN_DV, KNOWN_DW),
        source=branch.source,
        uses=(entry.name,),
        assumptions=both,
    )
    bound = PARAMETERS.at_most(
        named + "bound",
        term.rhs,
        w**2 * norm_dv**2 + v**2 * norm_dw**2,
        (
            "d ≤ 2m is enough: the last matrix term carries d/2m"
            if branch.rectified
            else "d ≤ m: the last matrix term carries d/m"
        ),
        source=branch.source,
        uses=(term.name,),
        assumptions=("wide-hidden-layer",),
        checks=(WIDE, REACHED_BY_ONE_MATRIX),
    )
    change = PARAMETERS.equal(
        named + "change",
        norm_dtheta,
        sp.sqrt(norm_dv**2 + norm_dw**2),
        "θ = (vec V, vec W) as one row vector",
        source=branch.source,
        establishes=(norm_dtheta,),
        checks=(Check("the norm of the joined entries", _is_joined_norm),),
    )
    return (
        given_input,
        entry,
        term,
        bound,
        change,
        PARAMETERS.at_most(
            named + "bound-in-theta",
            bound.rhs,
            (v**2 + w**2) * change.rhs**2,
            "the source adds w²‖ΔW‖² + v²‖ΔV‖² to meet the paper's form",
            source=branch.source,
            uses=(bound.name, change.name),
            checks=(
                Check("the difference is a sum of squares", _sum_of_squares),
                REACHED_BY_ONE_MATRIX,
            ),
        ),
    )


def _at_most_where_wide(step: Step) -> bool:
    more = sp.Symbol("t", nonnegative=True)
    difference = sp.together((step.rhs - step.lhs).subs(m, d + more))
    return bool(sp.expand(sp.numer(difference)).is_nonnegative)


WIDE = Check(
    "with m = d + t, t ≥ 0, the difference is a sum of non-negative terms", _at_most_where_wide
)


def _reached_by_one_matrix(step: Step) -> bool:
    """Equal, and not zero, where V alone moves and W alone has a gain."""
    only = {norm_dw: sp.S.Zero, v: sp.S.Zero}
    left, right = (sp.expand(side.xreplace(only)) for side in (step.lhs, step.rhs))
    return bool(left == right != 0)


REACHED_BY_ONE_MATRIX = Check("reached where one matrix moves", _reached_by_one_matrix)


def _sum_of_squares(step: Step) -> bool:
    return bool(sp.expand(step.rhs - step.lhs).is_nonnegative)


def _is_joined_norm(step: Step) -> bool:
    a, b = [sp.Rational(3), sp.Rational(-2, 3), sp.S.One], [sp.Rational(5, 2), sp.Rational(-7)]

    def square(entries: list[sp.Rational]) -> sp.Rational:
        return sum(e**2 for e in entries)

    at = {norm_dv: sp.sqrt(square(a)), norm_dw: sp.sqrt(square(b)), norm_dtheta: 0}
    return bool(step.lhs == norm_dtheta and step.rhs.subs(at) == sp.sqrt(square(a + b)))
