r"""The layer cake's chain of §5: mean squares of one sublayer, its norm, and the sum over all.

The sublayer is :math:`z = \alpha x + R(xW)V` with independent centred W and V, so that branch and
path, and the changes through V and through W, add as squares. With the centring
:math:`P = I - \mathbf 1\mathbf 1^\top/d` and :math:`\hat z = Pz/\|Pz\|`,

.. math:: \frac{\partial\,\mathrm{LN}}{\partial z} = \frac{\sqrt d}{\|Pz\|}\,(P - \hat z\hat z^\top)

whose bracket is an orthogonal projection: the spectral norm is exactly √d/‖Pz‖. The factor of Δx is
that of z itself, so a sublayer adds its parameter term, and

.. math:: \|\Delta F\| \le \sum_i \frac{\sqrt{v^2+w^2}}{\alpha}\,\|\Delta\theta_i\| .
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import sympy as sp

from deepnet_theory.proof.algebra import S, alpha, is_nonnegative, v, w
from deepnet_theory.proof.algebra import i as counter
from deepnet_theory.proof.notation import NamedQuantity, norm_of
from deepnet_theory.proof.step import IDENTITY, NAMED, SQUARES_AT_MOST, Check, Section, Step
from paper_checks.shared.expectation import (
    IndexSum,
    Model,
    enumerate_expectation,
    expect,
    in_models,
    moment,
    random_entries,
)
from paper_checks.shared.steps.moments.setting import (
    BRANCHES,
    KNOWN_DV,
    KNOWN_DW,
    KNOWN_DX,
    KNOWN_X,
    PARAMETER_TERM,
    GaussianBranch,
    d,
    delta_v,
    delta_w,
    dx,
    i,
    m,
    mask,
    norm_dv,
    norm_dw,
    norm_dx,
    norm_x,
    parameter_change,
    x,
    x_white,
)

CAKE = "layer cake, §5.1 and §5.2"
OUTPUT, PARAMETERS = Section("Output of a sublayer", CAKE), Section("Parameter term", CAKE)
NORM, RECURSION = Section("Jacobian of the norm", CAKE), Section("Recursion", CAKE)

norm_z, norm_pz, norm_df = norm_of("z"), norm_of("Pz"), norm_of("dF", r"\Delta F")
norm_dtheta = norm_of("dtheta", r"\Delta\theta")
norm_dx_next = norm_of("dx_next", r"\Delta x_{l+1}")
jacobian = NamedQuantity("J_norm", r"\|\partial\mathrm{LN}/\partial z\|_2", nonnegative=True)
input_term = norm_of("z_x", r"\tfrac{\partial z}{\partial x}\Delta x")
parameter_term = norm_of("z_theta", r"\tfrac{\partial z}{\partial\theta}\Delta\theta")
_change = sp.Function("T", positive=True)  # ‖Δθ_i‖ of sublayer i
_more = sp.Symbol("t", nonnegative=True)
_small = sp.Symbol("s", positive=True)
UNIT = {norm_x: sp.sqrt(d)}  # what a norm leaves


# ---- one sublayer and its mean squares ----


def branch_steps(branch: GaussianBranch) -> Iterator[Step]:
    """The change of z to first order, and the mean squares of z and of both parts of the change."""
    z, inward, moved = branch.z(), branch.z().along(x, dx), parameter_change(branch, x)
    changed = NamedQuantity(f"dz[{branch.name}]", r"\Delta z_i", real=True)
    named, premises = f"{branch.name}-", branch.assumptions

    def is_difference(step: Step) -> bool:
        """z is affine in x, in V and in W: differences are derivatives, exactly."""
        generator, changes = random.Random(step.name), {x: dx, branch.V: delta_v, branch.W: delta_w}
        for width, inner in ((2, 3), (3, 2)):
            point: Model = {d: sp.Integer(width), m: sp.Integer(inner), alpha: sp.Rational(7, 3)}
            held = (x, mask, branch.V, branch.W, *changes.values())
            values = {tensor: random_entries(tensor, point, generator) for tensor in held}
            for entry in range(1, width + 1):
                at = {"i": entry}
                start, total = enumerate_expectation(z, point, values, at), sp.S.Zero
                for tensor, by in changes.items():
                    ahead = {p: n + values[by][p] for p, n in values[tensor].items()}
                    total += enumerate_expectation(z, point, {**values, tensor: ahead}, at) - start
                if enumerate_expectation(step.rhs.polynomial, point, values, at) != total:
                    return False
        return step.lhs in step.establishes

    yield OUTPUT.equal(
        named + "change", changed, IndexSum(inward + moved),
        "of z to first order in x, V and W; each enters once, R being the mask and W the heads' "
        "value matrices side by side",
        establishes=(changed, norm_dv, norm_dw),
        checks=(Check("equal to differences of explicit entries", is_difference),),
    )  # fmt: skip
    yield moment(
        OUTPUT, named + "norm", (z * z).sum(i), ("||z||^2", r"\|z\|^2"),
        "for every fixed input: the branch is centred and adds its square to the path's",
        (KNOWN_X,), sp.factor(expect((z * z).sum(i), (KNOWN_X,))), assumptions=premises,
    )  # fmt: skip
    square = (inward * inward).sum(i)
    yield moment(
        OUTPUT, named + "input-term", square,
        ("||dz/dx dx||^2", r"\|\tfrac{\partial z}{\partial x}\Delta x\|^2"),
        "z is linear in its input once the mask is held: the factor is that of the size. It needs "
        "a Δx that is independent of this sublayer's W and V; isotropy of Δx it does not need",
        (KNOWN_DX,), sp.factor(expect(square, (KNOWN_DX,))),
        uses=(named + "change",), assumptions=(*premises, "independent-update"),
    )  # fmt: skip
    white = parameter_change(branch, x_white)
    term = moment(
        PARAMETERS, named + "parameter-term", (white * white).sum(i), PARAMETER_TERM,
        "V and W are centred and ΔV, ΔW do not hold them, so the mixed term vanishes; "
        "E x_j x_j' = δ_jj' leaves ‖ΔW‖²: the input must be independent of ΔW",
        (KNOWN_DV, KNOWN_DW), uses=(named + "change",),
        assumptions=("fresh-weights", "independent-update", "white-input"),
    )  # fmt: skip
    yield term
    yield PARAMETERS.at_most(
        named + "parameter-bound-in-theta", term.rhs, (v**2 + w**2) * (norm_dv**2 + norm_dw**2),
        f"d ≤ {'2m' if branch.rectified else 'm'} is enough for the last matrix term; the source "
        "adds w²‖ΔW‖² + v²‖ΔV‖² to meet the paper's form",
        uses=(term.name,), assumptions=("wide-hidden-layer",),
        checks=(WIDE, REACHED_BY_ONE_MATRIX),
    )  # fmt: skip


def _reached_by_one_matrix(step: Step) -> bool:
    """Equal, and not zero, where V alone moves and W alone has a gain."""
    only = {norm_dw: sp.S.Zero, v: sp.S.Zero}
    left, right = (sp.expand(side.xreplace(only)) for side in (step.lhs, step.rhs))
    return bool(left == right != 0)


WIDE = Check(
    "with m = d + t, t ≥ 0, the difference has no negative term",
    lambda step: is_nonnegative((step.rhs - step.lhs).subs(m, d + _more)),
)
REACHED_BY_ONE_MATRIX = Check("reached where one matrix moves", _reached_by_one_matrix)


# ---- the norm's Jacobian ----


@cache
def _jacobian(width: int) -> tuple[sp.Matrix, sp.Expr, sp.Expr]:
    """(A, s, ‖Pz‖²) with √s·A the Jacobian of √d·Pz/‖Pz‖ at a rational z, entry by entry.

    With q = ‖Pz‖² an entry is √d(a'q − aq'/2)/q^{3/2}: rational, where SymPy's own is not.
    """
    generator = random.Random(width)
    z = sp.Matrix(sp.symbols(f"z:{width}"))
    moved = z - sp.ones(width, 1) * sum(z) / width
    square = moved.dot(moved)
    entries = moved.jacobian(z) * square - moved * sp.Matrix([square]).jacobian(z) / 2
    point = {entry: sp.Rational(generator.randint(-9, 9), 2) + n for n, entry in enumerate(z)}
    size = square.xreplace(point)
    return entries.xreplace(point), sp.Integer(width) / size**3, size


def _norm_models() -> Iterator[Model]:
    for width in (3, 4):
        entries, scale, square = _jacobian(width)
        gram = scale * entries * entries.T
        # J Jᵀ = s·(projection) exactly where (J Jᵀ)² = s·J Jᵀ; then ‖J‖₂² = s, unless J = 0
        if entries.rank() != width - 2:
            raise ValueError("the Jacobian loses other directions")
        top = (gram * gram).trace() / gram.trace()
        if gram * gram != top * gram:
            raise ValueError("the Jacobian is no multiple of a projection")
        yield {d: sp.Integer(width), norm_pz: sp.sqrt(square), jacobian: sp.sqrt(top)}


def _changes() -> Iterator[Model]:
    """‖J(a + b)‖ against ‖J‖(‖a‖ + ‖b‖) for explicit J, a, b; once with equality."""
    generator = random.Random(31)
    entries, scale, square = _jacobian(3)
    kept = sp.Matrix(entries.columnspace()[0])  # the Jacobian is a multiple of a projection
    drawn = [sp.Matrix([generator.randint(-9, 9) for _ in range(3)]) for _ in range(4)]
    for a, b in (drawn[:2], drawn[2:], (kept, 2 * kept)):
        after = sp.sqrt(scale) * (entries * (a + b)).norm()
        sizes = {input_term: a.norm(), parameter_term: b.norm()}
        yield {jacobian: sp.sqrt(3 / square), norm_dx_next: after, **sizes}


def norm_steps() -> Iterator[Step]:
    """The spectral norm of the Jacobian, and its effect on a change of z."""
    yield NORM.equal(
        "norm-jacobian", jacobian, sp.sqrt(d) / norm_pz,
        "√d/‖Pz‖ times an orthogonal projection, which loses the mean and the direction of Pz: its "
        "norm is 1 as soon as its rank d − 2 is not 0: exact, and attained, for d ≥ 3",
        establishes=(jacobian, norm_pz),
        checks=(in_models("entrywise derivatives at d = 3, 4", _norm_models),),
    )  # fmt: skip
    yield RECURSION.at_most(
        "triangle-inequality", norm_dx_next, jacobian * (input_term + parameter_term),
        "behind the norm Δx_{l+1} = J(∂z/∂x Δx + ∂z/∂θ Δθ) to first order, "
        "‖J a‖ ≤ ‖J‖₂‖a‖ and the triangle inequality; in mean square it is Minkowski's",
        uses=("norm-jacobian",), assumptions=("linear-step",),
        establishes=(norm_dx_next, input_term, parameter_term),
        checks=(in_models("at explicit Jacobians and vectors, once with equality", _changes),),
    )  # fmt: skip


# ---- all sublayers ----


def _meets(step: Step) -> bool:
    """(lhs/rhs)² → 1 for v, w → 0 and α → ∞ at once: no constant was lost on the way."""
    weak = {v: v * _small, w: w * _small, alpha: alpha / _small}
    ratio = sp.together((step.lhs / step.rhs) ** 2).xreplace(weak)
    return bool(sp.cancel(sp.cancel(ratio).subs(_small, 0)) == 1)


REACHED = Check("lhs/rhs -> 1 as the branch's weight -> 0", _meets)


def recursion_steps(proved: dict[str, Step]) -> Iterator[Step]:
    """‖z‖, what one sublayer adds to a change, and the telescoping sum, from ``proved`` steps."""
    size = proved["ffn-norm"].rhs.xreplace(UNIT)
    moved = proved["ffn-input-term"].rhs
    added = proved["ffn-parameter-bound-in-theta"].rhs / (norm_dv**2 + norm_dw**2)
    put_in = norm_dx + sp.sqrt(sp.cancel(d * added / size)) * norm_dtheta
    coefficient = sp.sqrt(added) / alpha

    def is_of_every_branch(step: Step) -> bool:
        """The squared coefficients of ‖Δx‖ and ‖Δθ‖ are those of each branch."""
        of_stream, of_update = step.rhs.coeff(norm_dx), step.rhs.coeff(norm_dtheta)
        for name in BRANCHES:
            square = proved[f"{name}-norm"].rhs.xreplace(UNIT)
            inward = proved[f"{name}-input-term"].rhs / norm_dx**2
            bound = proved[f"{name}-parameter-bound-in-theta"].rhs / (norm_dv**2 + norm_dw**2)
            gaps = (of_stream**2 - d * inward / square, of_update**2 - d * bound / square)
            if any(sp.simplify(gap) != 0 for gap in gaps):
                return False
        return bool(of_stream.is_positive and of_update.is_positive)

    def unrolled(step: Step) -> bool:
        """The recursion through an explicit stack: a bound, and no larger than as derived."""
        generator = random.Random(step.name)
        point = {alpha: sp.Rational(7, 3), v: sp.Rational(3, 5), w: sp.Rational(4, 5), d: sp.S(4)}
        for count in (1, 2, 5):
            sizes, change = [sp.Rational(generator.randint(1, 9), 4) for _ in range(count)], sp.S(0)
            for by in sizes:
                change = put_in.xreplace({**point, norm_dx: change, norm_dtheta: by})
            bound = step.rhs.xreplace({**point, S: sp.Integer(count)}).doit()
            bound = bound.xreplace({_change(n): by for n, by in enumerate(sizes, 1)})
            derived = coefficient.xreplace(point) * sum(sizes)
            if sp.N(bound - change, 30) < 0 or abs(sp.N(bound - derived, 30)) > 1e-25:
                return False
        return bool(step.lhs == norm_df)

    yield NORM.equal(
        "norm-of-z", norm_z, sp.sqrt(size),
        "‖z‖ is taken to be the root of its mean square, and Pz to be z",
        uses=tuple(f"{name}-norm" for name in BRANCHES),
        assumptions=("norm-concentrates", "unit-activations"), establishes=(norm_z,),
        checks=(
            Check("of every kind of sublayer", lambda step: step.rhs.is_positive and all(
                sp.expand(step.rhs**2 - proved[f"{name}-norm"].rhs.xreplace(UNIT)) == 0
                for name in BRANCHES
            )),
            NAMED,
        ),
    )  # fmt: skip
    yield RECURSION.equal(
        "moments-put-in",
        sp.sqrt(d / size) * (sp.sqrt(moved) + sp.sqrt(added) * norm_dtheta), put_in,
        "√d/‖z‖ times the root mean squares of both terms, ‖Δθ‖² = ‖ΔV‖² + ‖ΔW‖²: the factor of "
        "‖Δx‖ is 1, because z and its change carry one second moment",
        uses=(
            "triangle-inequality", "norm-of-z",
            *(f"{name}-{end}" for name in BRANCHES
              for end in ("input-term", "parameter-bound-in-theta")),
        ),
        assumptions=("norm-concentrates",), establishes=(norm_dtheta,),
        checks=(IDENTITY, Check("of every kind of sublayer", is_of_every_branch)),
    )  # fmt: skip
    yield RECURSION.at_most(
        "moment-coefficient", put_in.coeff(norm_dtheta), coefficient,
        "what one sublayer adds per ‖Δθ‖: the branch's own square is dropped under the root",
        uses=("moments-put-in",), checks=(SQUARES_AT_MOST, REACHED),
    )  # fmt: skip
    yield RECURSION.at_most(
        "telescoping", norm_df, sp.Sum(coefficient * _change(counter), (counter, 1, S)),
        "the recursion from l = 1, where Δx_1 = 0, through the S sublayers of the stack; the "
        "factor 1 of the change makes it a plain sum",
        source="layer cake, §5.3", uses=("moments-put-in", "moment-coefficient"),
        assumptions=("linear-step", "norm-concentrates"), establishes=(norm_df,),
        checks=(Check("the recursion run at S = 1, 2, 5", unrolled),),
    )  # fmt: skip


def route_steps() -> Iterator[Step]:
    """The whole chain, in the source's order."""
    steps = [*(s for branch in BRANCHES.values() for s in branch_steps(branch)), *norm_steps()]
    yield from steps
    yield from recursion_steps({step.name: step for step in steps})


def given() -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    return (S, alpha, v, w, d, m, norm_x, norm_dx)
