r"""The moment route: the layer cake's §5 by mean squares, for other placements and stacks too.

One sublayer is :math:`z = p\,x + q\,G(y)` with :math:`G(y) = (yW\circ R)V`. The placement says what
p and q are and what the branch reads: the stream x, its norm, or the memory's average. W and V are
independent centred matrices, so that branch and path, and the changes through V and through W, add
as squares. With the centring :math:`P = I - \mathbf 1\mathbf 1^\top/d` and
:math:`\hat z = Pz/\|Pz\|`,

.. math:: \frac{\partial\,\mathrm{LN}}{\partial z} = \frac{\sqrt d}{\|Pz\|}\,(P - \hat z\hat z^\top)

whose bracket is an orthogonal projection: the spectral norm is exactly √d/‖Pz‖. What a norm behind
the sublayer makes of the input term is what a norm before it made of Δx, in every placement, since
size and change are multiplied alike. So a sublayer adds its parameter term, and

.. math:: \|\Delta F\| \le \sum_i R\sqrt{v^2+w^2}\,\|\Delta\theta_i\| .

With :math:`D = \sqrt2\,\beta R` the coefficient of ‖Δθ‖ at v = w = β, a sublayer adds

.. math:: D\,\eta\,(\|\partial L/\partial F\| D)^p\,(\sqrt2\,\beta)^q .

K cross-attentions of weight b make at most K·b of a change of the memory, where they push one way.
In mean square, the stream's own change shrinking as the stream grows,

.. math:: A^2 = 1 - \prod_j \frac{T_j}{T_j + b^2} \le K b^2 ,

T_j the stream's square before the j-th of them, 1 throughout where every sum is normalised.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import add
from typing import Any, NamedTuple

import mpmath
import sympy as sp

from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.proof.algebra import (
    DEPTHS,
    Branch,
    Normalise,
    S,
    alpha,
    beta,
    eta,
    i,
    is_nonnegative,
    part_symbol,
    v,
    vanishes,
    w,
)
from deepnet_theory.proof.expectation import (
    Law,
    Matrix,
    Model,
    Product,
    Rows,
    RowSum,
    in_models,
    moment,
)
from deepnet_theory.proof.explicit import degrees_of, homogeneity_step, step_length
from deepnet_theory.proof.notation import NamedQuantity, norm_of, output_change
from deepnet_theory.proof.parts import added_up, crossings, encoder_and_decoder, sublayers
from deepnet_theory.proof.placement import P, PlacementLaw, placement_law, residual
from deepnet_theory.proof.placement import x as input_symbol
from deepnet_theory.proof.rule import Route, supporting
from deepnet_theory.proof.step import (
    BOUNDED,
    IDENTITY,
    NAMED,
    SQUARES_AT_MOST,
    Check,
    Point,
    Section,
    Step,
    at_points,
    number,
)
from deepnet_theory.sizes.rule import MOMENTS_OF
from deepnet_theory.sizes.update import law as degrees

CAKE = "layer cake, §5.1 and §5.2"
OUTPUT, PARAMETERS = Section("Output of a sublayer", CAKE), Section("Parameter term", CAKE)
NORM, RECURSION = Section("Jacobian of the norm", CAKE), Section("Recursion", CAKE)
TWO_PARTS = Section("Encoder and decoder", "DeepNet, arXiv 2203.00555, §4.2")
UPDATE = Section("Update substituted", "layer cake, §5.3 and §4.3")
WEIGHT = Section("Weight of a branch", "layer cake, §5.1")

d, m = sp.symbols("d m", positive=True)  # width of the stream, inner width of the branch
c = sp.Symbol("c", positive=True)  # what the branch is multiplied with
K = sp.Symbol("K", positive=True)  # cross-attentions
norm_x, norm_y, norm_a, norm_z, norm_g, norm_pz = map(norm_of, ("x", "y", "a", "z", "g", "Pz"))
norm_dx, norm_dy, norm_da = (norm_of(f"d{name}", rf"\Delta {name}") for name in "xya")
norm_dv, norm_dw = norm_of("dV", r"\Delta V"), norm_of("dW", r"\Delta W")
norm_dtheta = norm_of("dtheta", r"\Delta\theta")
norm_dx_next = norm_of("dx_next", r"\Delta x_{l+1}")
norm_df, norm_df_d = output_change(), norm_of("dF_d", r"\Delta F_d")
norm_dm = NamedQuantity("norm_dm", r"\max_p\|\Delta m_p\|")
jacobian = NamedQuantity("J_norm", r"\|\partial\mathrm{LN}/\partial z\|_2", nonnegative=True)
input_term = norm_of("z_x", r"\tfrac{\partial z}{\partial x}\Delta x")
parameter_term = norm_of("z_theta", r"\tfrac{\partial z}{\partial\theta}\Delta\theta")
mean_square = NamedQuantity("A_rms", r"A_{\mathrm{rms}}")
loss_gradient = norm_of("dL_dF", r"\partial L/\partial F")
_change = sp.Function("T", positive=True)  # ‖Δθ_i‖ of sublayer i
EQUAL_GAINS = {v: beta, w: beta}
AT_REST = {norm_x: sp.sqrt(d)}  # the stream at its initial size
_small = sp.Symbol("s", positive=True)
_more = sp.Symbol("t", nonnegative=True)

_row = partial(Matrix, rows=sp.S.One, columns=d)
# the stream, its norm, and the attention's average of the memory, each with its change
x, y, average = _row("x", size=norm_x), _row("y", size=norm_y), _row("a", size=norm_a)
CHANGES = {
    x: _row("dx", size=norm_dx), y: _row("dy", size=norm_dy), average: _row("da", size=norm_da),
}  # fmt: skip
mask = Matrix("R", sp.S.One, m, sp.S.Half, Law.MASK)
delta_v, delta_w = Matrix("dV", m, d, norm_dv), Matrix("dW", d, m, norm_dw)


# ---- one sublayer, and its mean squares ----


class Reading(NamedTuple):
    """What a placement's equation says of the stream and of what stands before its branch."""

    path: sp.Expr
    scale: sp.Expr  # what stands before the branch, or before its norm
    normed_sum: bool
    normed_input: bool = False
    normed_branch: bool = False

    @classmethod
    def of(cls, placement: Placement) -> Reading:
        """From the placement's law: the source's sum, or a stream with a branch added.

        Raises :class:`Refusal` where it is neither, or has no norm that bounds the change.
        """
        law, places = placement_law(placement), {*placement.places}
        if law.normalised and law.weight == P / alpha:
            return cls(alpha, sp.S.One, normed_sum=True)
        (entering,) = (node.args[0] for node in residual(placement, Branch).atoms(Branch))
        # a number within the branch is no part of the law, and of no matter behind a norm
        plain = "output" in places or entering in (input_symbol, Normalise(input_symbol))
        bounded = placement.final_norm and places and places <= {"input", "output"}
        if law.stream == 1 and plain and bounded:
            scale = law.weight / (1 if "output" in places else P)
            return cls(sp.S.One, scale, False, "input" in places, "output" in places)
        raise Refusal(
            f"the moment route has no law for the placement {placement.name!r}: its equation "
            f"{placement.equation!r} is neither a normalised sum nor a stream with a branch added "
            "that has a norm before or behind it, and a norm at the end; use the method probe"
        )


@dataclass(frozen=True)
class Kind:
    """z = px + qG(y) of one kind of sublayer behind a placement, and what its steps prove of it.

    The last five are mean squares with the placement's sizes put in.
    """

    name: str
    normed_sum: bool
    scale: sp.Expr  # q: a symbol where it holds more than 1
    W: Matrix
    V: Matrix
    steps: tuple[Step, ...]
    stream: sp.Expr  # ‖x‖
    path: sp.Expr  # of the identity path alone
    size: sp.Expr  # of z
    moved: sp.Expr  # of the input term
    added: sp.Expr  # of the parameter term, at most, per ‖Δθ‖²

    @property
    def crosses(self) -> bool:
        return self.name == "cross"

    @property
    def weight(self) -> sp.Expr:
        """The branch's mean square against the path's, the stream being of size √d."""
        return sp.cancel(self.size / self.path - 1).xreplace(AT_REST)


def kind(name: str, reading: Reading) -> Kind:
    """A kind of sublayer with its steps; attention has R = 1.

    The variances are those of the fan-in; with a mask, twice as much for the matrix before it.
    """
    rectified, one = name == "ffn", sp.S.One
    read = average if name == "cross" else y if reading.normed_input else x
    W = Matrix("W", d, m, (2 if rectified else 1) * w**2 / d, Law.CENTRED)
    V = Matrix("V", m, d, v**2 / m, Law.CENTRED)
    q = one if reading.normed_sum else c
    size_read = norm_x if read is x else sp.sqrt(d)  # a norm has the size √d, and so has the memory
    # a norm's Jacobian is √d over what it divides by, behind a branch the root mean square vw‖y‖
    divided = sp.sqrt(d) / (v * w * size_read) if reading.normed_branch else 1
    sizes = {norm_a: size_read, norm_y: size_read, norm_dy: size_read / norm_x * norm_dx}
    sizes[c] = reading.scale * divided

    def sized(expression: sp.Expr) -> sp.Expr:
        """With the placement's sizes put in; a normalised sum leaves ‖x‖ = √d."""
        put_in = expression.xreplace(sizes)
        return put_in.xreplace(AT_REST) if reading.normed_sum else put_in

    def z(read: Matrix) -> Rows:
        branch = Product(q, (read, W, *((mask,) if rectified else ()), V))
        return Rows((Product(reading.path, (x,)), branch))

    def through_parameters(read: Matrix) -> Rows:
        return z(read).along(V, delta_v) + z(read).along(W, delta_w)

    def is_difference(step: Step) -> bool:
        """z is affine in its inputs, in V and in W: differences are derivatives, exactly."""
        generator, changes = random.Random(step.name), {**CHANGES, V: delta_v, W: delta_w}
        for width, inner in ((2, 3), (3, 2)):
            point = {d: width, m: inner, alpha: sp.Rational(7, 3), c: sp.Rational(3, 5)}
            held = dict.fromkeys((*z(read).matrices, *(changes[t] for t in (x, read, V, W))))
            values = {t: t.drawn(point, generator) for t in held}
            start = z(read).explicit(values, point)
            total = [0] * len(start)
            for several in ({x, read}, {V}, {W}):
                ahead = {t: [*map(_plus, values[t], values[changes[t]])] for t in several}
                after = z(read).explicit({**values, **ahead}, point)
                total = _plus(total, _plus(after, [-entry for entry in start]))
            if step.rhs.rows.explicit(values, point) != total:
                return False
        return step.lhs in step.establishes

    first, *others = (z(read).along(t, CHANGES[t]) for t in dict.fromkeys((x, read)))
    inward = sum(others, first)  # ∂z/∂x Δx, what the branch reads being changed too
    changed = NamedQuantity(f"dz[{name}]", r"\Delta z", real=True)
    kept = "independent-mask" if rectified else "attention-keeps-magnitude"
    entering = sp.sqrt(d) if reading.normed_sum else size_read
    white = Matrix(read.name, one, d, entering**2 / d, Law.CENTRED)
    change = OUTPUT.equal(
        f"{name}-change", changed, RowSum(inward + through_parameters(read)),
        f"of z = {RowSum(z(read))} to first order in x, V and W; each enters once, R being "
        "the mask and W the heads' value matrices side by side",
        establishes=(changed, c, norm_y, norm_dy, norm_a, norm_da, norm_dv, norm_dw),
        checks=(Check("equal to differences of explicit matrices", is_difference),),
    )  # fmt: skip
    size = moment(
        OUTPUT, f"{name}-norm", z(read), ("z", "z"),
        "for every fixed input: the branch is centred and adds its square to the path's",
        assumptions=("fresh-weights", kept),
    )  # fmt: skip
    moved = moment(
        OUTPUT, f"{name}-input-term", inward,
        ("dz/dx dx", r"\tfrac{\partial z}{\partial x}\Delta x"),
        "z is linear in its input once the mask is held: the factor is that of the size. It needs "
        "a Δx that is independent of this sublayer's W and V; isotropy of Δx it does not need",
        uses=(change.name,), assumptions=("fresh-weights", kept, "independent-update"),
    )  # fmt: skip
    term = moment(
        PARAMETERS, f"{name}-parameter-term", through_parameters(white),
        ("dz/dV dV + dz/dW dW",
         r"\tfrac{\partial z}{\partial V}\Delta V+\tfrac{\partial z}{\partial W}\Delta W"),
        "V and W are centred and ΔV, ΔW do not hold them, so the mixed term vanishes; "
        "E y_j y_j' = δ_jj'‖y‖²/d leaves ‖ΔW‖²: the input must be independent of ΔW",
        uses=(change.name,), assumptions=("fresh-weights", "independent-update", "white-input"),
    )  # fmt: skip
    per_update = q**2 * entering**2 / d * (v**2 + w**2)
    bound = PARAMETERS.at_most(
        f"{name}-parameter-bound-in-theta", term.rhs, per_update * (norm_dv**2 + norm_dw**2),
        f"d ≤ {'2m' if rectified else 'm'} is enough for the last matrix term; the source "
        "adds w²‖ΔW‖² + v²‖ΔV‖² to meet the paper's form",
        uses=(term.name,), assumptions=("wide-hidden-layer",),
        checks=(WIDE, REACHED_BY_ONE_MATRIX),
    )  # fmt: skip
    squares = (reading.path**2 * norm_x**2, size.rhs, moved.rhs, per_update)
    steps = (change, size, moved, term, bound)
    return Kind(
        name,
        reading.normed_sum,
        q,
        W,
        V,
        steps,
        sized(norm_x),
        *(sp.factor(sized(s)) for s in squares),
    )


def _plus(row: list[Any], other: list[Any]) -> list[Any]:
    return list(map(add, row, other))


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
def _jacobian(width: int, centred: bool) -> tuple[sp.Matrix, sp.Expr, sp.Expr]:
    """(A, s, ‖Pz‖²) with √s·A the Jacobian of √d·Pz/‖Pz‖ at a rational z, entry by entry.

    With q = ‖Pz‖² an entry is √d(a'q − aq'/2)/q^{3/2}: rational, where SymPy's own is not.
    """
    generator = random.Random(width)
    z = sp.Matrix(sp.symbols(f"z:{width}"))
    moved = z - sp.ones(width, 1) * sum(z) / width if centred else z
    square = moved.dot(moved)
    entries = moved.jacobian(z) * square - moved * sp.Matrix([square]).jacobian(z) / 2
    point = {entry: sp.Rational(generator.randint(-9, 9), 2) + n for n, entry in enumerate(z)}
    size = square.xreplace(point)
    return entries.xreplace(point), sp.Integer(width) / size**3, size


def _norm_models(centred: bool) -> Iterator[Model]:
    for width in (3, 4):
        entries, scale, square = _jacobian(width, centred)
        gram = scale * entries * entries.T
        # J Jᵀ = s·(projection) exactly where (J Jᵀ)² = s·J Jᵀ; then ‖J‖₂² = s, unless J = 0
        if entries.rank() != width - (2 if centred else 1):
            raise ValueError("the Jacobian loses other directions")
        top = (gram * gram).trace() / gram.trace()
        if gram * gram != top * gram:
            raise ValueError("the Jacobian is no multiple of a projection")
        yield {d: sp.Integer(width), norm_pz: sp.sqrt(square), jacobian: sp.sqrt(top)}


def _changes() -> Iterator[Model]:
    """‖J(a + b)‖ against ‖J‖(‖a‖ + ‖b‖) for explicit J, a, b; once with equality."""
    generator = random.Random(31)
    entries, scale, square = _jacobian(3, centred=True)
    kept = sp.Matrix(entries.columnspace()[0])  # the Jacobian is a multiple of a projection
    drawn = [sp.Matrix([generator.randint(-9, 9) for _ in range(3)]) for _ in range(4)]
    for a, b in (drawn[:2], drawn[2:], (kept, 2 * kept)):
        after = sp.sqrt(scale) * (entries * (a + b)).norm()
        sizes = {input_term: a.norm(), parameter_term: b.norm()}
        yield {jacobian: sp.sqrt(3 / square), norm_dx_next: after, **sizes}


def norm_steps(centred: bool) -> Iterator[Step]:
    """The spectral norm of the Jacobian, and what it makes of a change of z."""
    least = 3 if centred else 2
    lost = "the mean and the direction of Pz" if centred else "the direction of z"
    yield NORM.equal(
        "norm-jacobian", jacobian, sp.sqrt(d) / norm_pz,
        f"√d/‖Pz‖ times an orthogonal projection, which loses {lost}: its norm is 1 as soon as "
        f"its rank d − {least - 1} is not 0: exact, and attained, for d ≥ {least}",
        establishes=(jacobian, norm_pz),
        checks=(in_models("entrywise derivatives at d = 3, 4", lambda: _norm_models(centred)),),
    )  # fmt: skip
    yield RECURSION.at_most(
        "triangle-inequality", norm_dx_next, jacobian * (input_term + parameter_term),
        "behind the norm that follows Δx_{l+1} = J(∂z/∂x Δx + ∂z/∂θ Δθ) to first order, "
        "‖J a‖ ≤ ‖J‖₂‖a‖ and the triangle inequality; in mean square it is Minkowski's",
        uses=("norm-jacobian",), assumptions=("linear-step",),
        establishes=(norm_dx_next, input_term, parameter_term),
        checks=(in_models("at explicit Jacobians and vectors, once with equality", _changes),),
    )  # fmt: skip


# ---- all sublayers ----


def _meets(step: Step) -> bool:
    """(lhs/rhs)² → 1 for v, w → 0 and α → ∞ at once: no constant was lost on the way."""
    weak = {v: v * _small, w: w * _small, alpha: alpha / _small}
    ratio = sp.together((step.lhs / step.rhs) ** 2).xreplace(AT_REST).xreplace(weak)
    return bool(sp.cancel(sp.cancel(ratio).subs(_small, 0)) == 1)


def _is_at_most(step: Step) -> bool:
    left, right = (
        side.xreplace({norm_x: sp.sqrt(d * (1 + _more))}) for side in (step.lhs, step.rhs)
    )
    return SQUARES_AT_MOST.holds(replace(step, lhs=left, rhs=right))


REACHED = Check("lhs/rhs -> 1 as the branch's weight -> 0", _meets)
# a stream that is not normalised starts at the size √d and grows
AT_MOST = Check("rhs^2 - lhs^2 has no negative term, the stream being at least √d", _is_at_most)


def recursion_steps(kinds: tuple[Kind, ...]) -> Iterator[Step]:
    """‖z‖, what one sublayer adds to a change, and the telescoping sum; the first not crossing."""
    first = next(one for one in kinds if not one.crosses)
    relative = sp.sqrt(d) / first.stream  # the unit of a change of the stream
    z = sp.sqrt(first.size)
    put_in = relative * norm_dx + sp.sqrt(sp.cancel(d * first.added / first.size)) * norm_dtheta
    coefficient = sp.sqrt(sp.cancel((d * first.added / first.path).xreplace(AT_REST)))

    def is_size_of_every(step: Step) -> bool:
        alike = (vanishes(step.rhs**2 - one.size) for one in kinds)
        return step.rhs.is_positive and all(alike)

    def is_of_every(step: Step) -> bool:
        """The squared coefficients of ‖Δx‖ and ‖Δθ‖ are those of each kind: no root simplified."""
        stream, update = step.rhs.coeff(norm_dx), step.rhs.coeff(norm_dtheta)
        for one in kinds:
            moved = (d * one.moved / one.size).xreplace({norm_da: 0}) / norm_dx**2
            kept = one.path / one.size if one.crosses else 1  # what it reads stands still
            alike = vanishes(stream**2 * kept - moved)
            if not (alike and vanishes(update**2 - d * one.added / one.size)):
                return False
        positive = update.is_positive and stream.is_positive
        return bool(positive and sp.expand(step.rhs.subs({norm_dx: 0, norm_dtheta: 0})) == 0)

    def unrolled(step: Step) -> bool:
        """The recursion through an explicit stack: a bound, and no larger than as derived."""
        generator = random.Random(step.name)
        point = {alpha: sp.Rational(7, 3), v: sp.Rational(3, 5), w: sp.Rational(4, 5), d: sp.S(4)}
        for count in (1, 2, 5):
            sizes = [sp.Rational(generator.randint(1, 9), 4) for _ in range(count)]
            stream, moved = sp.sqrt(point[d]), sp.S.Zero
            for size in sizes:
                here = {**point, norm_x: stream}
                # Δx relative to the stream, before and behind the sublayer
                before = moved * stream / sp.sqrt(point[d])
                moved = put_in.xreplace({**here, norm_dx: before, norm_dtheta: size})
                if not first.normed_sum:
                    stream = sp.sqrt(first.size.xreplace(here))
            bound = step.rhs.xreplace({**point, S: sp.Integer(count)}).doit()
            bound = bound.xreplace({_change(n): size for n, size in enumerate(sizes, 1)})
            derived = coefficient.xreplace(point) * sum(sizes)
            if sp.N(bound - moved, 30) < 0 or abs(sp.N(bound - derived, 30)) > 1e-25:
                return False
        return bool(step.lhs == norm_df)

    yield NORM.equal(
        "norm-of-z", norm_z, z,
        "‖z‖ is taken to be the root of its mean square, and Pz to be z",
        uses=tuple(f"{one.name}-norm" for one in kinds),
        assumptions=("norm-concentrates", "unit-activations"), establishes=(norm_z,),
        checks=(Check("of every kind of sublayer", is_size_of_every), NAMED),
    )  # fmt: skip
    yield RECURSION.equal(
        "moments-put-in",
        sp.sqrt(d) / z * (sp.sqrt(first.moved) + sp.sqrt(first.added) * norm_dtheta), put_in,
        "√d/‖z‖ times the root mean squares of both terms, ‖Δθ‖² = ‖ΔV‖² + ‖ΔW‖²: relative to "
        "the stream the factor of ‖Δx‖ is 1, because z and its change carry one second moment",
        uses=(
            "triangle-inequality", "norm-of-z",
            *(f"{one.name}-{end}" for one in kinds
              for end in ("input-term", "parameter-bound-in-theta")),
        ),
        assumptions=("norm-concentrates",), establishes=(norm_dtheta,),
        checks=(IDENTITY, Check("of every kind of sublayer", is_of_every)),
    )  # fmt: skip
    yield RECURSION.at_most(
        "moment-coefficient", put_in.coeff(norm_dtheta), coefficient,
        "what one sublayer adds per ‖Δθ‖: the branch's own square is dropped under the root, "
        "and a stream that is not normalised has only grown from √d",
        uses=("moments-put-in",), checks=(AT_MOST, REACHED),
    )  # fmt: skip
    yield RECURSION.at_most(
        "telescoping", norm_df, sp.Sum(coefficient * _change(i), (i, 1, S)),
        "the recursion from l = 1, where Δx_1 = 0, through the S sublayers of the stack; the "
        "factor 1 of the change makes it a plain sum",
        source="layer cake, §5.3", uses=("moments-put-in", "moment-coefficient"),
        assumptions=("linear-step", "norm-concentrates"), establishes=(norm_df,),
        checks=(Check("the recursion run at S = 1, 2, 5", unrolled),),
    )  # fmt: skip


# ---- encoder and decoder: what the cross-attentions make of a change ----


def own_symbols(part: Part) -> dict[sp.Symbol, sp.Symbol]:
    """The part's symbols for those of one sublayer."""
    return {symbol: part_symbol(symbol.name, part.name, 2) for symbol in (alpha, beta, v, w)}


def two_part_steps(
    encoder: Part, decoder: Part, cross: Kind, coefficient: sp.Expr
) -> Iterator[Step]:
    """One cross-attention, A in every way of counting it, and the bound of both parts.

    ``coefficient`` is that of ‖Δθ‖ of one sublayer.
    """
    b, relative, count = sp.sqrt(cross.weight), sp.sqrt(d) / cross.stream, crossings(decoder)
    # both parts in their own symbols, α_e, α_d and so on: one sublayer's coefficient, and ‖Δθ_i‖
    letters = {part: own_symbols(part) for part in (encoder, decoder)}
    each = {part: coefficient.xreplace(letters[part]) for part in letters}
    change = {part: sp.Function(f"T_{part.name[0]}", positive=True) for part in letters}
    passed = b.xreplace(letters[decoder])
    theirs, ours = (
        sp.Sum(each[part] * change[part](i), (i, 1, sublayers(part))) for part in letters
    )

    def reached_by_memory(step: Step) -> bool:
        left, right = (side.xreplace({norm_dx: sp.S.Zero}) for side in (step.lhs, step.rhs))
        return REACHED.holds(replace(step, lhs=left, rhs=right))

    def is_bound(step: Step) -> bool:
        """At rational α, β, v and w, from a strong branch to a weak one, which reaches it."""
        symbols, depth = letters[decoder].values(), DEPTHS[decoder.depth]
        for values in (("7/3", 1, "5/2", "3/2"), ("9", 1, "1/3", "2/7"), (1e12, 1, 1e-12, 2)):
            point = dict(zip(symbols, map(sp.Rational, values), strict=True))
            for layers in (1, 2, 3, 7):
                normed = cross.normed_sum
                run = run_through(decoder, layers, passed.xreplace(point), normed_sum=normed)
                over = step.rhs.xreplace({**point, depth: layers}) ** 2 / run - 1
                if over < 0 or (values[0] == 1e12 and over > 1e-8):
                    return False
        return bool(step.lhs == mean_square and step.rhs.is_positive)

    def is_run(step: Step) -> bool:
        """The bound's recursion through explicit stacks, at different depths of the two."""
        generator = random.Random(step.name)
        values = [sp.Rational(n) for n in ("7/3", "1/2", "3/5", "4/5")]  # √(v² + w²) is rational
        for depths in ((1, 2), (3, 1)):
            point: dict[sp.Expr, sp.Expr] = {}
            sizes: dict[sp.Expr, sp.Expr] = {}
            moved = sp.S.Zero
            for part, layers in zip((encoder, decoder), depths, strict=True):
                point |= dict(zip(letters[part].values(), values, strict=True))
                point[DEPTHS[part.depth]] = sp.Integer(layers)
                drawn = [sp.Rational(generator.randint(1, 9), 4) for _ in part.layer * layers]
                sizes |= {change[part](place): size for place, size in enumerate(drawn, 1)}
                terms = [sp.S.Zero, *(each[part].xreplace(point) * size for size in drawn)]
                moved = added_up(part, layers, terms.__getitem__, passed.xreplace(point) * moved)
            if not vanishes(step.rhs.xreplace(point).doit().xreplace(sizes) - moved):
                return False
        return bool(step.lhs == norm_df_d)

    yield TWO_PARTS.at_most(
        "cross-response", sp.sqrt(sp.cancel(d * cross.moved / cross.size)),
        relative * norm_dx + b * norm_da,
        "W and V are centred, so the two changes add as squares, and the root of their sum is "
        f"at most the sum: relative to the stream, factors 1 and b = {b}",
        uses=("cross-norm", "cross-input-term", "norm-jacobian"),
        assumptions=("unit-activations", "linear-step", "norm-concentrates"),
        checks=(AT_MOST, Check("b is the factor of the memory as b -> 0", reached_by_memory)),
    )  # fmt: skip
    yield TWO_PARTS.at_most(
        "memory-average", norm_da, norm_dm,
        "Δa is the average of the memory's changes with the attention weights, which are "
        "positive and add up to 1; equal where all tokens change alike",
        source="DeepNet, arXiv 2203.00555, Lemma 4.1", establishes=(norm_dm,),
        checks=(in_models("explicit weights, once with equality", _averages),),
    )  # fmt: skip
    # the K cross-attentions side by side are one of the inner width K·m
    outer = Matrix("V^T", d, K * m, cross.V.size, Law.CENTRED)
    inner = Matrix("W^T", K * m, d, cross.W.size, Law.CENTRED)
    yield moment(
        TWO_PARTS, "cross-gradient",
        Rows((Product(cross.scale, (Matrix("g", sp.S.One, d, norm_g), outer, inner)),)),
        ("sum_a dL/da", r"\sum_{a\le K}\partial L/\partial a"),
        "K cross-attentions, transposed, with their own W and V and one g: a gradient passes "
        "one of them by the factor that a change of the memory passes by",
        uses=("cross-change",), assumptions=("fresh-weights",), establishes=(K, norm_g),
    )  # fmt: skip
    yield TWO_PARTS.at_most(
        "amplification-independent", mean_square, sp.sqrt(count) * passed,
        f"mean squares instead: every one of the {count} cross-attentions adds at most "
        "b² to the square, in independent directions; A stays below 1",
        uses=("cross-input-term", "cross-norm", "memory-average"),
        assumptions=("fresh-weights", "independent-update", "linear-step"),
        establishes=(mean_square,),
        checks=(Check("the mean squares run, reached as b -> 0", is_bound),),
    )  # fmt: skip
    yield TWO_PARTS.at_most(
        "two-part-bound", norm_df_d, count * passed * theirs + ours,
        "the decoder's recursion: every sublayer adds its own term, every cross-attention b "
        "times the change of the memory, which is the encoder's telescoping sum: K·b of it, "
        "where they push one way",
        uses=("telescoping", "cross-response", "memory-average"), assumptions=("linear-step",),
        establishes=(norm_df_d,),
        checks=(Check("both parts run sublayer by sublayer", is_run),),
    )  # fmt: skip


def run_through(decoder: Part, layers: int, weight: sp.Expr, *, normed_sum: bool) -> sp.Expr:
    """A², the square of a unit change of the memory at the decoder's output."""
    size, moved = sp.S.One, sp.S.Zero
    for sublayer in decoder.layer * layers:
        # a branch of the stream itself carries its change in the stream's own proportion
        moved += weight**2 * (1 if sublayer.reads_memory else moved / size)
        size += weight**2
        if normed_sum:
            size, moved = sp.S.One, moved / size
    return moved / size


def _averages() -> Iterator[Model]:
    generator = random.Random(50)
    for tokens, alike in ((1, False), (3, False), (4, True)):
        weights = [generator.randint(1, 9) for _ in range(tokens)]
        rows = [sp.Matrix([[generator.randint(-9, 9) for _ in range(3)]]) for _ in range(tokens)]
        changes = rows[:1] * tokens if alike else rows
        total = sum(
            (n * change for n, change in zip(weights, changes, strict=True)), sp.zeros(1, 3)
        )
        largest = sp.Max(*(change.norm() for change in changes))
        yield {norm_da: total.norm() / sum(weights), norm_dm: largest}


# ---- the increment and the weight, at one gain β ----


def increment_step(
    coefficient: sp.Expr, degree: Step, optimizer: Optimizer, law: PlacementLaw
) -> Step:
    """What a sublayer adds, from the coefficient of ‖Δθ‖ and the degrees."""
    p, q = degrees_of(degree)
    response = coefficient.xreplace(EQUAL_GAINS)
    parameter = sp.sqrt(v**2 + w**2).xreplace(EQUAL_GAINS)  # ‖θ‖, each matrix against its width
    moved = response * eta * (loss_gradient * response) ** p * parameter**q
    update = eta * sp.Symbol("|g|") ** p * sp.Symbol("|θ|") ** q

    def is_run(_: Step) -> Iterator[Point]:
        """Explicit gradients and parameters of the sizes in question, stepped by the expression."""
        for path, gain in ((sp.Rational(7, 3), sp.Rational(2, 5)), (sp.Integer(9), sp.S.Half)):
            point = {alpha: path, beta: gain, loss_gradient: 1, eta: 1}
            joined = mpmath.sqrt(2) * number(gain)  # of two matrices with one gain
            through = joined * number(law.response, {alpha: path, P: number(gain) ** 2})
            yield point, through * number(step_length(optimizer, through, joined))

    return UPDATE.bound(
        "moment-increment", moved, moved.xreplace({loss_gradient: sp.S.One}),
        f"the coefficient {response} of ‖Δθ‖ times ‖Δθ‖ = {update} at v = w = β, ‖g‖ at "
        "most ‖∂L/∂F‖ times the same coefficient, ‖∂L/∂F‖ of order one; the update moves "
        "the output by |g||Δθ|, as aligned updates do",
        uses=("moment-coefficient", degree.name),
        assumptions=(
            "bounded-loss-gradient", "independent-signs", "equal-gains", "aligned-updates",
        ),
        establishes=(loss_gradient,), bounded=(loss_gradient,),
        checks=(BOUNDED, at_points("the optimizer run behind the placement's own law", is_run)),
    )  # fmt: skip


def weight_step(kinds: tuple[Kind, ...], law: PlacementLaw) -> Step:
    """r at v = w = β, from the mean squares of branch over path, one for each one."""
    squares = [one.weight.xreplace(EQUAL_GAINS) for one in kinds]

    def is_of_every_kind(step: Step) -> bool:
        return step.rhs.is_positive and all(vanishes(step.rhs**2 - square) for square in squares)

    def is_as_the_equation_reads(step: Step) -> bool:
        return bool(sp.powsimp(step.rhs / law.weight.xreplace({P: beta**2})) == 1)

    return WEIGHT.equal(
        "moment-weight", sp.sqrt(squares[0]), sp.sqrt(sp.factor(squares[0])),
        "the root mean square of the branch against that of the identity path",
        uses=tuple(f"{one.name}-norm" for one in kinds),
        assumptions=("equal-gains", "unit-activations"),
        checks=(
            IDENTITY,
            Check("of every kind of sublayer", is_of_every_kind),
            Check("as the placement's equation reads", is_as_the_equation_reads),
        ),
    )  # fmt: skip


# ---- the route ----

# the steps of A that each way of counting it rests on
AMPLIFICATION = {
    "published": ("two-part-bound",),
    "worst-case": ("two-part-bound", "cross-gradient"),
    "independent": ("two-part-bound", "amplification-independent", "cross-gradient"),
}


def kinds_of(selection: Selection) -> tuple[Kind, ...]:
    """The kinds of sublayers of the selection; the feed-forward one first, as in the source.

    The algebra of sizes has refused a sublayer without a second moment.
    """
    reading, parts = Reading.of(selection.the_placement), selection.the_stack.parts
    names = {sublayer.name for part in parts for sublayer in part.layer}
    return tuple(kind(name, reading) for name in MOMENTS_OF if name in names)


def moment_route(selection: Selection) -> Route:
    """The steps that the increment and the weight of the selection's sublayers rest on.

    Raises :class:`Refusal` where a law is missing.
    """
    kinds, law = kinds_of(selection), placement_law(selection.the_placement)
    optimizer = selection.the_optimizer
    steps = [step for one in kinds for step in one.steps]
    steps += norm_steps(selection.the_norm.centred)
    *_, coefficient, telescoping = recursion = tuple(recursion_steps(kinds))
    steps += recursion
    degree = homogeneity_step(optimizer, degrees(optimizer))
    weight, moved = weight_step(kinds, law), increment_step(coefficient.rhs, degree, optimizer, law)
    sums: tuple[str, ...] = (telescoping.name,)
    symbols = (*DEPTHS.values(), S, alpha, beta, eta, v, w, d, m, norm_x, norm_dx)
    if len(selection.the_stack.parts) == 2:
        both = encoder_and_decoder(selection.the_stack)
        crossing = next(one for one in kinds if one.crosses)
        steps += two_part_steps(*both, crossing, coefficient.rhs)
        sums += AMPLIFICATION[selection.amplification]
        symbols += tuple(symbol for part in both for symbol in own_symbols(part).values())
    return Route(
        steps=supporting([*steps, degree, weight, moved], (*sums, weight.name, moved.name)),
        given=symbols,
        increments={one.name: moved for one in kinds},
        weights={one.name: weight for one in kinds},
        sums=sums,
    )
