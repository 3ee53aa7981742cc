r"""Cross-attention: a branch that reads the encoder's output beside the decoder's stream.

With the attention weights held, :math:`z = ps + q\,aW_VW_O` with s the stream and a an average of
the memory's tokens. Its weights are fresh, so that the two changes add as squares,

.. math:: E\|\Delta z\|^2 = p^2\|\Delta s\|^2 + q^2v^2w^2\|\Delta a\|^2 ,

the stream's own change passes by at most 1, and the memory's by the branch's weight b. A gradient
passes transposed, with the same sizes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import sympy as sp

from deepnet_theory.symbolic.expectation import (
    Gaussian,
    Index,
    IndexSum,
    Known,
    Polynomial,
    Tensor,
    White,
    enumerate_expectation,
    moment,
)
from deepnet_theory.symbolic.expectation.model import Model, NamedQuantity, in_models, norm_of
from deepnet_theory.symbolic.proof.checks import SQUARES_AT_MOST
from deepnet_theory.symbolic.proof.step import IDENTITY, SAMPLED, Check, Section, Step
from deepnet_theory.symbolic.routes.moments.checks import REACHED, meet_for_a_weak_branch
from deepnet_theory.symbolic.routes.moments.setting import (
    KNOWN_AVERAGE,
    KNOWN_DV,
    KNOWN_DW,
    Entries,
    GaussianBranch,
    Point,
    alpha,
    average,
    cases,
    d,
    delta_v,
    delta_w,
    explicit,
    i,
    j,
    k,
    m,
    norm_average,
    norm_dv,
    norm_dw,
    v,
    w,
)
from deepnet_theory.symbolic.routes.moments.stream import (
    Stream,
    c,
    norm_ds,
    norm_s,
    stream,
    stream_change,
)
from deepnet_theory.symbolic.routes.moments.sublayer import REACHED_BY_ONE_MATRIX, WIDE

SOURCE = "DeepNet, arXiv 2203.00555, §4.2"
CROSS = Section("Cross-attention", SOURCE)

K = sp.Symbol("K", positive=True)  # cross-attentions
norm_da, norm_g = norm_of("da", r"\Delta a"), norm_of("g")
norm_dm = NamedQuantity("norm_dm", r"\max_p\|\Delta m_p\|")
entry_dz = NamedQuantity("dz_i", r"\Delta z_i", real=True)
entry_da = NamedQuantity("dL_da_j", r"\partial L/\partial a_j", real=True)

memory_change, signal = Tensor("da", (d,)), Tensor("g", (d,))
white_average = Tensor("a", (d,), White(sp.S.One))


@dataclass(frozen=True)
class Crossing:
    """z = ps + q·aWV under a placement: what stands before the stream and before the branch."""

    branch: GaussianBranch
    stream: Stream | None  # None where the sum is normalised

    @property
    def path(self) -> sp.Expr:
        """p."""
        return alpha if self.stream is None else sp.S.One

    @property
    def scale(self) -> sp.Expr:
        """q."""
        return sp.S.One if self.stream is None else c

    @property
    def values(self) -> dict[sp.Symbol, sp.Expr]:
        """‖a‖ = √d, the memory being normalised; ‖s‖ = √d where the sum is; and c."""
        if self.stream is None:
            return {norm_average: sp.sqrt(d), norm_s: sp.sqrt(d)}
        read = self.stream.values[c].xreplace({norm_s: sp.sqrt(d)})
        return {norm_average: sp.sqrt(d), c: read}

    @property
    def weight(self) -> sp.Expr:
        """b, the branch's weight against a stream of unit size."""
        return (self.scale * v * w / self.path).xreplace(self.values)

    @property
    def square(self) -> sp.Expr:
        """T, the stream's mean square."""
        return sp.S.One if self.stream is None else norm_s**2 / d

    def z(self) -> Polynomial:
        """The entry z_i."""
        summed: Polynomial = stream[i] * self.path + self.branch.added(average) * self.scale
        return summed


def cross_steps(crossing: Crossing) -> tuple[Step, ...]:
    """One cross-attention: its size, both changes, its parameters and the gradient's way back."""
    moments = {step.name: step for step in _moments(crossing)}
    term, bound = _parameters(crossing)
    growth, forward, backward = _response(crossing, moments)
    return (
        *moments.values(),
        term,
        bound,
        _average(),
        growth,
        forward,
        backward,
        _coefficient(crossing, moments["cross-size"], bound),
    )


# ---- moments -------------------------------------------------------------------------------


def _moments(crossing: Crossing) -> Iterator[Step]:
    z = crossing.z()
    change = z.along(stream, stream_change) + z.along(average, memory_change)
    back = (signal[i] * z).sum(i).derivative(average, j)
    own = (c,) if crossing.scale == c else ()
    for name, entry, value, because, holds in (
        (
            "cross-change-entry", entry_dz, change,
            "z is linear in s and in a while the attention weights are held",
            _is_difference(crossing),
        ),
        (
            "cross-gradient-entry", entry_da, back,
            "∂L/∂a_j = Σ_i ∂L/∂z_i ∂z_i/∂a_j with g = ∂L/∂z: the same two matrices, transposed",
            _is_gradient(crossing),
        ),
    ):  # fmt: skip
        yield CROSS.equal(
            name,
            entry,
            IndexSum(value),
            because,
            establishes=(entry, *own),
            checks=(Check("equal to differences of explicit matrices", holds),),
            source="derived here",
        )
    yield _moment(
        "cross-size", (z * z).sum(i), "||p s + q a W V||^2", r"\|ps+q\,aWV\|^2",
        (Known.norm(norm_s, stream), KNOWN_AVERAGE),
        "the branch of a fixed memory is centred: it adds its square to the stream's",
        (), ("fresh-weights",), own,
    )  # fmt: skip
    yield _moment(
        "cross-change", (change * change).sum(i), "||dz||^2", r"\|\Delta z\|^2",
        (Known.norm(norm_ds, stream_change), Known.norm(norm_da, memory_change)),
        "W and V are centred, so that the mixed term vanishes: the two changes add as squares, "
        "and the stream's own is not changed by what is read beside it",
        ("cross-change-entry",), ("fresh-weights", "independent-update"),
    )  # fmt: skip
    layers = _gradients(crossing)
    yield _moment(
        "cross-gradient", (layers * layers).sum(j),
        "||sum_a dL/da||^2", r"\|\sum_{a\le K}\partial L/\partial a\|^2",
        (Known.norm(norm_g, signal),),
        "K cross-attentions with their own W and V, one g at each of them: pairs of different "
        "ones vanish, and the gradient at the memory has √K times the size that passes one",
        ("cross-gradient-entry",), ("fresh-weights",), (K,),
    )  # fmt: skip


def _gradients(crossing: Crossing) -> Polynomial:
    """Σ_a (∂z/∂a)ᵀg over K cross-attentions."""
    a, law = Index("a", K), crossing.branch.convention
    inner = Tensor("W", (K, d, m), Gaussian(law.inner))
    outer = Tensor("V", (K, m, d), Gaussian(law.outer))
    each: Polynomial = inner[a, j, k] * outer[a, k, i] * signal[i] * crossing.scale
    return each.sum(a, k, i)


def _moment(
    name: str,
    square: Polynomial,
    text: str,
    tex: str,
    known: tuple[Known, ...],
    because: str,
    uses: tuple[str, ...],
    premises: tuple[str, ...],
    more: tuple[sp.Symbol, ...] = (),
) -> Step:
    return moment(
        CROSS,
        name,
        square,
        (text, tex),
        because,
        known,
        uses=uses,
        assumptions=premises,
        establishes=(*more, *(item.symbol for item in known)),
        source="derived here",
    )


def _parameters(crossing: Crossing) -> tuple[Step, Step]:
    """What ΔV and ΔW move: the moments of self-attention with the memory in place of x."""
    z = crossing.branch.added(white_average) * crossing.scale  # the branch alone
    moved = z.along(crossing.branch.V, delta_v) + z.along(crossing.branch.W, delta_w)
    term = _moment(
        "cross-parameter-term", (moved * moved).sum(i),
        "||q (dG/dV dV + dG/dW dW)||^2",
        r"\|q(\tfrac{\partial G}{\partial V}\Delta V+\tfrac{\partial G}{\partial W}\Delta W)\|^2",
        (KNOWN_DV, KNOWN_DW),
        "as in self-attention, with the memory's average in place of the stream",
        ("cross-size",), ("fresh-weights", "independent-update", "white-input"),
    )  # fmt: skip
    return term, CROSS.at_most(
        "cross-parameter-bound",
        term.rhs,
        crossing.scale**2 * (v**2 + w**2) * (norm_dv**2 + norm_dw**2),
        "d ≤ m, and the two terms added that meet the paper's form",
        uses=(term.name,),
        assumptions=("wide-hidden-layer",),
        checks=(WIDE, REACHED_BY_ONE_MATRIX),
    )


def _coefficient(crossing: Crossing, size: Step, bound: Step) -> Step:
    """What the cross-attention's own parameters add per ‖Δθ‖, against its z."""
    values = {**crossing.values, norm_s: sp.sqrt(d)}
    per_theta = sp.cancel(bound.rhs / (norm_dv**2 + norm_dw**2)).xreplace(values)
    mean_square = (size.rhs / d).xreplace(values)
    path = (size.rhs.coeff(norm_s, 2) * norm_s**2 / d).xreplace(values)
    return CROSS.at_most(
        "cross-coefficient",
        sp.sqrt(per_theta) / sp.sqrt(mean_square),
        sp.sqrt(per_theta / path),
        "the parameter term against the root mean square of z, its branch dropped in it",
        uses=(size.name, bound.name, "norm-jacobian"),
        assumptions=("unit-activations", "attention-keeps-magnitude", "small-branch-weight"),
        checks=(SQUARES_AT_MOST, REACHED),
        source="derived here",
    )


# ---- explicit matrices ---------------------------------------------------------------------


def _cases(crossing: Crossing) -> Iterator[tuple[Point, Entries]]:
    matrices = crossing.branch.W, crossing.branch.V
    tensors = (stream, stream_change, average, memory_change, signal, *matrices)
    for point, entries in cases("cross", tensors):
        yield {**point, c: Fraction(3, 5)}, entries


def _explicit(crossing: Crossing, point: Point, at: Entries) -> list[Fraction]:
    """ps + q(aW)V by matrix products."""
    path, scale = (point.get(e, Fraction(1)) for e in (crossing.path, crossing.scale))
    read = explicit(crossing.branch, point, at, average)
    return [path * at[stream][a,] + scale * g for a, g in enumerate(read, 1)]


def _moved(at: Entries, tensor: Tensor, by: dict[tuple[int, ...], Fraction]) -> Entries:
    return {**at, tensor: {place: old + by.get(place, 0) for place, old in at[tensor].items()}}


def _is_difference(crossing: Crossing) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        for point, at in _cases(crossing):
            ahead = _moved(_moved(at, stream, at[stream_change]), average, at[memory_change])
            ends = (_explicit(crossing, point, entries) for entries in (ahead, at))
            for place, (after, before) in enumerate(zip(*ends, strict=True), 1):
                found = enumerate_expectation(step.rhs.polynomial, point, at, {"i": place})
                if found != after - before:
                    return False
        return step.lhs in step.establishes

    return holds


def _is_gradient(crossing: Crossing) -> Callable[[Step], bool]:
    def loss(point: Point, at: Entries) -> Fraction:
        output = _explicit(crossing, point, at)
        return sum((at[signal][a,] * z for a, z in enumerate(output, 1)), Fraction(0))

    def holds(step: Step) -> bool:
        for point, at in _cases(crossing):
            for place in range(1, point[d] + 1):
                # Σ_i g_i z_i is affine in a_j: a difference of 1 is its derivative
                ahead = _moved(at, average, {(place,): Fraction(1)})
                found = enumerate_expectation(step.rhs.polynomial, point, at, {"j": place})
                if found != loss(point, ahead) - loss(point, at):
                    return False
        return step.lhs in step.establishes

    return holds


# ---- one cross-attention against the stream ------------------------------------------------


def _average() -> Step:
    return CROSS.at_most(
        "memory-average",
        norm_da,
        norm_dm,
        (
            "Δa is the average of the memory's changes with the attention weights, which are "
            "positive and add up to 1; equal where all tokens change alike"
        ),
        source="DeepNet, arXiv 2203.00555, Lemma 4.1",
        establishes=(norm_dm,),
        checks=(in_models("explicit weights, once with equality", _averages),),
    )


def _averages() -> Iterator[Model]:
    generator = random.Random(50)
    for tokens, alike in ((1, False), (3, False), (4, True)):
        weights = [generator.randint(1, 9) for _ in range(tokens)]
        rows = [[generator.randint(-9, 9) for _ in range(3)] for _ in range(tokens)]
        rows = rows[:1] * tokens if alike else rows
        changes = [sp.Matrix([row]) for row in rows]
        total = sp.zeros(1, 3)
        for weight, change in zip(weights, changes, strict=True):
            total += sp.Rational(weight, sum(weights)) * change
        yield {
            norm_da: total.norm(),
            norm_dm: sp.Max(*(change.norm() for change in changes)),
        }


def _response(crossing: Crossing, of: Mapping[str, Step]) -> tuple[Step, Step, Step]:
    b, values = crossing.weight, crossing.values
    size = of["cross-size"].rhs.xreplace(values) / d
    moved = of["cross-change"].rhs.xreplace(values)
    through = (of["cross-gradient"].rhs / norm_g**2).xreplace(values)
    unit = {norm_s: sp.sqrt(d)}
    premises = ["unit-activations", "attention-keeps-magnitude", "linear-step"]
    if crossing.stream is None or crossing.stream.normed_branch:
        premises.append("norm-concentrates")
    growth = CROSS.equal(
        "cross-growth",
        moved / size,
        (norm_ds**2 + b**2 * norm_da**2) / (crossing.square + b**2),
        (
            "the change against the root mean square of z, ‖a‖ being √d, in the branch's weight "
            f"b = {b}: the stream's own change shrinks as the stream grows, the memory's enters "
            "with b²"
        ),
        uses=("cross-size", "cross-change", "norm-jacobian"),
        assumptions=tuple(premises),
        checks=(IDENTITY, SAMPLED),
        source="derived here",
    )
    return (
        growth,
        CROSS.at_most(
            "cross-response",
            sp.sqrt(growth.rhs.xreplace(unit)),
            norm_ds + b * norm_da,
            "a root of a sum of squares is at most the sum: factors 1 and b",
            uses=(growth.name,),
            checks=(
                SQUARES_AT_MOST,
                Check("b is the memory's factor as b -> 0", _leading(norm_da)),
            ),
        ),
        CROSS.at_most(
            "cross-gradient-response",
            norm_g * sp.sqrt(through / size.xreplace(unit)),
            sp.sqrt(K) * b * norm_g,
            (
                "the norm's Jacobian is symmetric: a gradient is divided as a change is, and "
                "reaches the memory through K cross-attentions with √K·b; a change of the memory "
                "along it moves the output along g by the same √K·b, since ⟨g, Jλ⟩ = ‖λ‖² for "
                "λ = Jᵀg"
            ),
            uses=("cross-gradient", growth.name),
            assumptions=("unit-activations",),
            checks=(
                SQUARES_AT_MOST,
                Check("b is the gradient's factor as b -> 0", _leading(norm_g)),
            ),
            source="derived here",
        ),
    )


def _leading(symbol: sp.Symbol) -> Callable[[Step], bool]:
    """The coefficients of a symbol on both sides have the ratio 1 for a weak branch."""
    rest = {norm_ds: sp.S.Zero} if symbol != norm_ds else {}
    return lambda step: meet_for_a_weak_branch(step.lhs.xreplace(rest), step.rhs.xreplace(rest))
