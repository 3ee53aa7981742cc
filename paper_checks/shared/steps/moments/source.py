"""What the source writes out entry by entry: mean, second moment, derivatives, a gradient step.

For one token ΔV = hᵀδ and ΔW = xᵀ(δVᵀ∘R), δ being the signal at the output and the factor −η left
out. The output then moves along δ by the kernel that ‖Δθ‖² is of ‖δ‖², where an update that is
independent of x, W and V has mean 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import sympy as sp

from deepnet_theory.proof.algebra import alpha, v, w
from deepnet_theory.proof.step import Check, Section, Step
from paper_checks.shared.expectation import (
    Entries,
    Index,
    IndexSum,
    Known,
    NamedQuantity,
    Polynomial,
    Tensor,
    enumerate_expectation,
    expect,
    moment,
    norm_of,
    random_entries,
)
from paper_checks.shared.steps.moments.route import OUTPUT, PARAMETERS, REACHED_BY_ONE_MATRIX, WIDE
from paper_checks.shared.steps.moments.setting import (
    KNOWN_DV,
    KNOWN_DW,
    KNOWN_X,
    KNOWN_XDW,
    PARAMETER_TERM,
    GaussianBranch,
    d,
    i,
    j,
    k,
    m,
    mask,
    norm_dv,
    norm_dw,
    norm_xdw,
    parameter_change,
    x,
    x_white,
)

DERIVATIVES, GRADIENT_STEP = Section("Derivatives of a sublayer"), Section("A gradient step")

signal = Tensor("delta", (d,))
entry = NamedQuantity("delta_i", r"\delta_i", real=True)
norm_signal = norm_of("delta", r"\delta")
_of_v = Index("j", d)  # the source's ∂z_i/∂v_kj


def source_steps(branch: GaussianBranch) -> Iterator[Step]:
    """The entries' moments, the derivatives, the parameter term at a fixed input, a step's."""
    named, white = f"{branch.name}-", branch.z(x_white)
    z_i = NamedQuantity(f"z_i[{branch.name}]", "z_i", real=True)
    yield OUTPUT.equal(
        named + "entry",
        z_i,
        IndexSum(branch.z()),
        "z = αx + R(xW)V entry by entry, attention's R being 1",
        source=branch.source,
        establishes=(z_i,),
        checks=(
            Check("equal to explicit matrix products", lambda step: _is_product(step, branch)),
        ),
    )
    premises = (*branch.assumptions, "white-input")
    yield moment(
        OUTPUT, named + "mean", white, ("z_i", ""), "inputs and weights are centred",
        source=branch.source, uses=(named + "entry",), assumptions=premises,
    )  # fmt: skip
    yield moment(
        OUTPUT,
        named + "second-moment",
        white * white,
        ("z_i^2", "z_i^2"),
        "the Kronecker deltas of W, V and x leave Σ_jk: d·m equal terms"
        + (", and half pass the mask" if branch.rectified else ""),
        source=branch.source,
        uses=(named + "mean",),
        assumptions=premises,
    )
    for what, tensor, at, because in (
        ("input", x, (j,), "each x_j enters once"),
        ("second-matrix", branch.V, (k, _of_v), "column j of V reaches z_j alone: 0 for j ≠ i"),
        ("first-matrix", branch.W, (j, k), "w_jk reaches z_i through hidden unit k"),
    ):
        yield _derivative(branch, what, tensor, at, because)
    fixed = parameter_change(branch, x)
    yield moment(
        PARAMETERS,
        named + "parameter-fixed-input",
        (fixed * fixed).sum(i),
        PARAMETER_TERM,
        (
            "for every fixed x and fixed ΔV, ΔW: what counts of ΔW is xΔW, not ΔW; the mixed "
            "term vanishes because W and V are centred and ΔV, ΔW do not hold them"
        ),
        (KNOWN_X, KNOWN_DV, KNOWN_XDW),
        uses=tuple(f"{named}derivative-{which}-matrix" for which in ("second", "first")),
        assumptions=(*branch.assumptions, "independent-update"),
        establishes=(norm_xdw,),
    )
    term = expect((parameter_change(branch, x_white) ** 2).sum(i), (KNOWN_DV, KNOWN_DW))
    yield PARAMETERS.at_most(
        named + "parameter-bound",
        term,
        w**2 * norm_dv**2 + v**2 * norm_dw**2,
        f"d ≤ {'2m' if branch.rectified else 'm'} is enough for the last matrix term",
        source=branch.source,
        uses=(named + "parameter-term",),
        assumptions=("wide-hidden-layer",),
        checks=(WIDE, REACHED_BY_ONE_MATRIX),
    )
    yield from _gradient_step(branch)


def _drawn(
    branch: GaussianBranch, name: str
) -> Iterator[tuple[dict[sp.Expr, sp.Expr], dict[Tensor, Entries]]]:
    generator = random.Random(name)
    for width, inner in ((2, 3), (3, 2)):
        point = {d: sp.Integer(width), m: sp.Integer(inner), alpha: sp.Rational(7, 3)}
        tensors = (x, branch.W, branch.V, mask)
        yield point, {t: random_entries(t, point, generator) for t in tensors}


def _is_product(step: Step, branch: GaussianBranch) -> bool:
    for point, at in _drawn(branch, step.name):
        width, inner = int(point[d]), int(point[m])
        row, first, second, kept = (
            sp.Matrix(*shape, list(at[t].values()))
            for t, shape in (
                (x, (1, width)),
                (branch.W, (width, inner)),
                (branch.V, (inner, width)),
                (mask, (1, inner)),
            )
        )
        hidden = (row * first).multiply_elementwise(kept) if branch.rectified else row * first
        for place, value in enumerate(row * point[alpha] + hidden * second, 1):
            if enumerate_expectation(step.rhs.polynomial, point, at, {"i": place}) != value:
                return False
    return step.lhs in step.establishes


def _derivative(
    branch: GaussianBranch, what: str, tensor: Tensor, at: tuple[Index, ...], because: str
) -> Step:
    """∂z_i in one entry: each entry of the tensor replaced by δ, summed away where it can be."""
    letters = "".join(index.name for index in at)
    lhs = NamedQuantity(
        f"dz_i/d{tensor.name}_{letters}[{branch.name}]",
        rf"\partial z_i/\partial {tensor.name}_{{{letters}}}",
        real=True,
    )
    unit = Tensor("e", tensor.axes)  # the entry in question is 1, every other 0

    def holds(step: Step) -> bool:
        for point, values in _drawn(branch, step.name):
            for place, old in values[tensor].items():
                # z is affine in every single entry, so a difference of 1 is the derivative
                moved = {**values, tensor: {**values[tensor], place: old + 1}}
                one = {p: int(p == place) for p in values[tensor]}
                for a in range(1, int(point[d]) + 1):
                    ahead, here = (
                        enumerate_expectation(branch.z(), point, at, {"i": a})
                        for at in (moved, values)
                    )
                    found = enumerate_expectation(
                        step.rhs.polynomial, point, {**values, unit: one}, {"i": a}
                    )
                    if found != ahead - here:
                        return False
        return step.lhs in step.establishes

    return DERIVATIVES.equal(
        f"{branch.name}-derivative-{what}",
        lhs,
        IndexSum(branch.z().along(tensor, unit)),
        f"{because}; e is 1 at the entry in question and 0 elsewhere",
        source=branch.source,
        uses=(f"{branch.name}-entry",),
        establishes=(lhs,),
        checks=(Check("equal to differences of explicit entries", holds),),
    )


def _kept(branch: GaussianBranch, product: Polynomial) -> Polynomial:
    return product * mask[k] if branch.rectified else product


def _gradient_step(branch: GaussianBranch) -> Iterator[Step]:
    def hidden(at: str) -> Polynomial:
        over = Index(at, d)
        return _kept(branch, (x[over] * branch.W[over, k]).sum(over))

    def back(at: str) -> Polynomial:
        over = Index(at, d)
        return _kept(branch, (branch.V[k, over] * signal[over]).sum(over))

    length = (x[j] * x[j]).sum(j)
    kernel = (hidden("j") * hidden("e")).sum(k)
    moved = kernel * signal[i] + (length * back("g") * _kept(branch, branch.V[k, i])).sum(k)
    of_v = kernel * (signal[i] * signal[i]).sum(i)
    size = of_v + length * (back("g") * back("a")).sum(k)
    known = (KNOWN_X, Known(entry, signal[i]))
    premises = (*branch.assumptions, "independent-signal")
    drift = moment(
        GRADIENT_STEP,
        f"aligned-{branch.name}-drift",
        moved,
        (
            f"(dz/dV dV + dz/dW dW)_i[{branch.name}]",
            r"(\tfrac{\partial z}{\partial V}\Delta V+\tfrac{\partial z}{\partial W}\Delta W)_i",
        ),
        (
            "ΔV = hᵀδ, ΔW = xᵀ(δVᵀ∘R) for one token: the output moves along δ itself by the kernel "
            "‖h‖² + ‖x‖²·V's part, while an independent update has mean 0"
        ),
        known,
        sp.factor(expect(moved, known)),
        uses=tuple(f"{branch.name}-derivative-{which}-matrix" for which in ("second", "first")),
        assumptions=premises,
        establishes=(entry,),
    )
    yield drift
    yield moment(
        GRADIENT_STEP,
        f"aligned-{branch.name}-size",
        size,
        (f"||dtheta||^2[{branch.name}]", r"\|\Delta\theta\|^2"),
        (
            "the same kernel: <δ, Δz> = ‖Δθ‖², so that a gradient step moves the output along the "
            "signal by |g||Δθ|, the most that a step of its size can"
        ),
        (KNOWN_X, Known.norm(norm_signal, signal)),
        drift.rhs / entry * norm_signal**2,
        uses=(drift.name,),
        assumptions=premises,
        establishes=(norm_signal,),
    )
