r"""One sublayer, :math:`z = p\,x + q\,G(y)` with :math:`G(y) = (yW\circ R)V`, and its mean squares.

The placement says what p and q are and what the branch reads: the stream x, its norm, or the
memory's average. W and V are independent centred matrices, so that branch and path, and the
changes through V and through W, add as squares.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.placement import Placement
from deepnet_theory.symbolic.algebra.monomial import alpha, is_nonnegative, v, w
from deepnet_theory.symbolic.algebra.nodes import Branch, Normalise, split
from deepnet_theory.symbolic.expectation import (
    Law,
    Matrix,
    NamedQuantity,
    Product,
    Rows,
    RowSum,
    moment,
    norm_of,
)
from deepnet_theory.symbolic.laws.placement import P, placement_law, residual
from deepnet_theory.symbolic.laws.placement import x as input_symbol
from deepnet_theory.symbolic.proof.step import Check, Section, Step

CAKE = "layer cake, §5.1 and §5.2"
OUTPUT, PARAMETERS = Section("Output of a sublayer", CAKE), Section("Parameter term", CAKE)

d, m = sp.symbols("d m", positive=True)  # width of the stream, inner width of the branch
c = sp.Symbol("c", positive=True)  # what the branch is multiplied with

norm_x, norm_y, norm_a, norm_z = map(norm_of, "xyaz")
norm_dx, norm_dy, norm_da = (norm_of(f"d{name}", rf"\Delta {name}") for name in "xya")
norm_dv, norm_dw = norm_of("dV", r"\Delta V"), norm_of("dW", r"\Delta W")
norm_dtheta = norm_of("dtheta", r"\Delta\theta")

_row = partial(Matrix, rows=sp.S.One, columns=d)
# the stream, its norm, and the attention's average of the memory, each with its change
x, y, average = _row("x", size=norm_x), _row("y", size=norm_y), _row("a", size=norm_a)
CHANGES = {
    x: _row("dx", size=norm_dx), y: _row("dy", size=norm_dy), average: _row("da", size=norm_da),
}  # fmt: skip
mask = Matrix("R", sp.S.One, m, sp.S.Half, Law.MASK)
delta_v, delta_w = Matrix("dV", m, d, norm_dv), Matrix("dW", d, m, norm_dw)


@dataclass(frozen=True)
class Reading:
    """What a placement's equation says of the stream and of what stands before its branch."""

    path: sp.Expr
    scale: sp.Expr  # what stands before the branch, or before its norm
    normed_sum: bool
    normed_input: bool = False
    normed_branch: bool = False

    @classmethod
    def of(cls, placement: Placement) -> Reading:
        """Read it from the equation: the source's sum, or a stream with a branch added.

        Raises :class:`Refusal` where it is neither, or has no norm that bounds the change.
        """
        law = placement_law(placement)
        if law.normalised and law.weight == P / alpha:
            return cls(alpha, sp.S.One, normed_sum=True)
        equation = residual(placement, lambda read: P * Branch(read))
        terms = sp.Add.make_args(equation)
        added = [term for term in terms if term.has(Branch)]
        path = [term for term in terms if not term.has(Branch)]
        if path == [input_symbol] and len(added) == 1 and placement.final_norm:
            (inner,) = equation.atoms(Branch)
            normed_input = isinstance(inner.args[0], Normalise)
            normed_branch = any(norm.has(Branch) for norm in added[0].atoms(Normalise))
            scale = split(added[0])[0] / (1 if normed_branch else P)
            if normed_input or normed_branch:
                return cls(sp.S.One, scale, False, normed_input, normed_branch)
        raise Refusal(
            f"the moment route has no law for the placement {placement.name!r}: its equation "
            f"{placement.equation!r} is neither a normalised sum nor a stream with a branch added "
            "that has a norm before or behind it, and a norm at the end; use the method probe"
        )


@dataclass(frozen=True)
class Sublayer:
    """z = px + qG(y) of one kind of sublayer behind a placement; attention has R = 1.

    The variances are those of the fan-in; with a mask, twice as much for the matrix before it.
    """

    name: str
    reading: Reading

    @property
    def rectified(self) -> bool:
        """Whether ReLU's mask stands between the matrices."""
        return self.name == "ffn"

    @property
    def crosses(self) -> bool:
        return self.name == "cross"

    @property
    def W(self) -> Matrix:
        return Matrix("W", d, m, (2 if self.rectified else 1) * w**2 / d, Law.CENTRED)

    @property
    def V(self) -> Matrix:
        return Matrix("V", m, d, v**2 / m, Law.CENTRED)

    @property
    def read(self) -> Matrix:
        return average if self.crosses else y if self.reading.normed_input else x

    @property
    def scale(self) -> sp.Expr:
        """q: a symbol where it holds more than 1."""
        return sp.S.One if self.reading.normed_sum else c

    @property
    def size_read(self) -> sp.Expr:
        """‖y‖: a norm has the size √d, and so has the memory."""
        return norm_x if self.read is x else sp.sqrt(d)

    def at(self, expression: sp.Expr) -> sp.Expr:
        """An expression with the placement's sizes put in.

        A norm's Jacobian is √d over what it divides by; the norm behind a branch divides by its
        root mean square vw‖y‖. A normalised sum leaves ‖x‖ = √d.
        """
        size, reading = self.size_read, self.reading
        divided = sp.sqrt(d) / (v * w * size) if reading.normed_branch else 1
        values = {norm_a: size, norm_y: size, norm_dy: size / norm_x * norm_dx}
        found = expression.xreplace({**values, c: reading.scale * divided})
        return found.xreplace({norm_x: sp.sqrt(d)}) if reading.normed_sum else found

    def z(self, read: Matrix) -> Rows:
        masked = (mask,) if self.rectified else ()
        branch = Product(self.scale, (read, self.W, *masked, self.V))
        return Rows((Product(self.reading.path, (x,)), branch))

    def through_input(self) -> Rows:
        """∂z/∂x Δx, what the branch reads being changed too."""
        z = self.z(self.read)
        first, *others = (z.along(t, CHANGES[t]) for t in dict.fromkeys((x, self.read)))
        return sum(others, first)

    def through_parameters(self, read: Matrix) -> Rows:
        """∂z/∂V ΔV + ∂z/∂W ΔW."""
        z = self.z(read)
        return z.along(self.V, delta_v) + z.along(self.W, delta_w)

    # ---- the steps --------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """The change of z, E‖z‖², the input term, the parameter term and its bound."""
        name, z, inward = self.name, self.z(self.read), self.through_input()
        changed = NamedQuantity(f"dz[{name}]", r"\Delta z", real=True)
        kept = "independent-mask" if self.rectified else "attention-keeps-magnitude"
        yield OUTPUT.equal(
            f"{name}-change",
            changed,
            RowSum(inward + self.through_parameters(self.read)),
            f"of z = {RowSum(z)} to first order in x, V and W; each enters once, R being "
            "the mask and W the heads' value matrices side by side",
            establishes=(changed, c, norm_y, norm_dy, norm_a, norm_da, norm_dv, norm_dw),
            checks=(Check("equal to differences of explicit matrices", self._is_difference),),
        )
        yield moment(
            OUTPUT,
            f"{name}-norm",
            z,
            ("z", "z"),
            "for every fixed input: the branch is centred and adds its square to the path's",
            assumptions=("fresh-weights", kept),
        )
        yield moment(
            OUTPUT,
            f"{name}-input-term",
            inward,
            ("dz/dx dx", r"\tfrac{\partial z}{\partial x}\Delta x"),
            "z is linear in its input once the mask is held: the factor is that of the size. "
            "It needs a Δx that is independent of this sublayer's W and V; isotropy of Δx it "
            "does not need",
            uses=(f"{name}-change",),
            assumptions=("fresh-weights", kept, "independent-update"),
        )
        size = sp.sqrt(d) if self.reading.normed_sum else self.size_read
        white = Matrix(self.read.name, sp.S.One, d, size**2 / d, Law.CENTRED)
        term = moment(
            PARAMETERS,
            f"{name}-parameter-term",
            self.through_parameters(white),
            (
                "dz/dV dV + dz/dW dW",
                r"\tfrac{\partial z}{\partial V}\Delta V+\tfrac{\partial z}{\partial W}\Delta W",
            ),
            "V and W are centred and ΔV, ΔW do not hold them, so the mixed term vanishes; "
            "E y_j y_j' = δ_jj'‖y‖²/d leaves ‖ΔW‖²: the input must be independent of ΔW",
            uses=(f"{name}-change",),
            assumptions=("fresh-weights", "independent-update", "white-input"),
        )
        yield term
        yield PARAMETERS.at_most(
            f"{name}-parameter-bound-in-theta",
            term.rhs,
            self.scale**2 * size**2 / d * (v**2 + w**2) * (norm_dv**2 + norm_dw**2),
            f"d ≤ {'2m' if self.rectified else 'm'} is enough for the last matrix term; the source "
            "adds w²‖ΔW‖² + v²‖ΔV‖² to meet the paper's form",
            uses=(term.name,),
            assumptions=("wide-hidden-layer",),
            checks=(WIDE, REACHED_BY_ONE_MATRIX),
        )

    def _is_difference(self, step: Step) -> bool:
        """z is affine in its inputs, in V and in W: differences are derivatives, exactly."""
        generator, z = random.Random(step.name), self.z(self.read)
        changes = {**CHANGES, self.V: delta_v, self.W: delta_w}
        for width, inner in ((2, 3), (3, 2)):
            point = {d: width, m: inner, alpha: sp.Rational(7, 3), c: sp.Rational(3, 5)}
            used = dict.fromkeys(
                (*z.matrices, *(changes[t] for t in (x, self.read, self.V, self.W)))
            )
            at = {matrix: matrix.drawn(point, generator) for matrix in used}
            start = z.explicit(at, point)
            total = start * 0
            for moving in ({x, self.read}, {self.V}, {self.W}):
                moved = {t: (sp.Matrix(at[t]) + sp.Matrix(at[changes[t]])).tolist() for t in moving}
                total += z.explicit({**at, **moved}, point) - start
            if step.rhs.rows.explicit(at, point) != total:
                return False
        return step.lhs in step.establishes


def _at_most_where_wide(step: Step) -> bool:
    more = sp.Symbol("t", nonnegative=True)
    return is_nonnegative((step.rhs - step.lhs).subs(m, d + more))


def _reached_by_one_matrix(step: Step) -> bool:
    """Equal, and not zero, where V alone moves and W alone has a gain."""
    only = {norm_dw: sp.S.Zero, v: sp.S.Zero}
    left, right = (sp.expand(side.xreplace(only)) for side in (step.lhs, step.rhs))
    return bool(left == right != 0)


WIDE = Check("with m = d + t, t ≥ 0, the difference has no negative term", _at_most_where_wide)
REACHED_BY_ONE_MATRIX = Check("reached where one matrix moves", _reached_by_one_matrix)
