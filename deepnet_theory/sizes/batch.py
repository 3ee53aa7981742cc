r"""How learning rates, decays, ε and memories scale with the batch size B: one row a role.

The gradient of B independent samples is :math:`g = G + \xi/\sqrt B`. Its size γ is 1 where the
signal G dominates, and :math:`B^{-1/2}` where the noise ξ does. An update of degree p in g has the
size :math:`u = \gamma^p`, and responds to G by :math:`u/\gamma`. Two conditions fix the rate:

.. math:: \eta\,u^2 = u/\gamma, \qquad
          T\,\eta\,u/\gamma = 1, \quad T\,\eta^2 u^2 = 1, \qquad T = 1/B,

(S) the step that gains most in one update, its signal over its second moment; (D) over a fixed
number of samples, T updates, the summed signal and the summed noise stay. Where noise dominates,
they agree: :math:`\eta = B^{(1+p)/2}`. Where the signal dominates, (D) asks for B, and (S), the
limit of stability, for 1: (S) binds. A decay takes the same share of a matrix over these T updates,
ε is as large as what it is added to, and a memory spans the same number of samples.

Source: derived here; for SGD and Adam as in Malladi et al., arXiv 2205.10287.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from deepnet_theory.definitions.optimizer import Optimizer, above_floors
from deepnet_theory.definitions.outcome import Refusal, shown
from deepnet_theory.definitions.selection import GRADIENT_NOISE
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.sizes.monomial import ONE, Monomial, solve
from deepnet_theory.sizes.table import ParameterRow, Place
from deepnet_theory.sizes.update import (
    GRADIENT,
    HALF,
    PARAMETER,
    Degrees,
    MissingLaw,
    Sized,
    epsilon,
    moving,
)

DOMINANT, NO_NOISE = GRADIENT_NOISE
B = Monomial.of("B")
T = ONE / B  # updates over a fixed number of samples
UNKNOWN = ("rate", "decay", "coupled_decay")
RATE, DECAY, COUPLED = map(Monomial.of, UNKNOWN)
POWERS = ("rate", "decay", "coupled_decay", "epsilon", "memory", "memory_rate")


class InBatch(Degrees):
    """The degree of an update in g alone, at a fixed parameter, which may be 0."""

    in_width = True  # sums that change sign have poles, and a noisy gradient meets them

    def __init__(self, starts_at_zero: bool) -> None:
        super().__init__()
        self.zeros = {"decay", PARAMETER} if starts_at_zero else {"decay"}
        self.sizes[PARAMETER] = ONE

    def require_second_moment(self, value: Sized) -> None:
        of_g, _, of_sums = value.vanishes
        if min(of_g, of_sums) <= -HALF:
            raise MissingLaw("entries to the power of -1/2 or less have no second moment")


def conventions(noise: str) -> tuple[str, ...]:
    """What is held, and in which regime, in words."""
    regime = "noise dominates, far below B_noise: a gradient is as large as its noise, B^(-1/2)"
    if noise == NO_NOISE:
        regime = (
            "the signal dominates, far above B_noise: a rate of B would keep the summed signal of "
            "all samples, but stability binds, and more samples a step gain nothing"
        )
    return (
        regime,
        "the number of samples is fixed, and over it the share of a matrix that decay takes",
        "learning rate: at betas that stay. Where 1 - beta takes its factor, so that averages span "
        "the same number of samples, the rate takes the one beside it; at 1/(1 - beta) times the "
        "batch beta is 0, and the rule ends",
    )


def batch_row(
    place: Place, optimizer: Optimizer, noise: str = DOMINANT, seen: Monomial = ONE
) -> ParameterRow:
    """What the rate, decays, ε and memory of a role are multiplied with, in powers of B.

    ``noise`` "dominant" is for batches far below the ratio of noise to signal, "none" for batches
    far above. ``seen`` is the role's share of the batch: its gradient is of fewer samples, over as
    many updates.
    """
    bare = ParameterRow(place, None)
    if place.kind is Role.KEY_BIAS:  # its gradient is 0 for every sample
        return replace(bare, rate=ONE)
    gradient, samples = ((B * seen) ** -HALF, T / seen) if noise == DOMINANT else (ONE, ONE)
    try:
        power, is_linear = degree(optimizer, noise, place.starts_at_zero)
    except Refusal as refusal:
        return replace(bare, refused=str(refusal))
    update = gradient**power
    response = update / gradient
    best = RATE * update**2 / response
    over = (samples * RATE * response, samples * RATE**2 * update**2) if noise == DOMINANT else ()
    # in logarithms the system is linear; the conditions agree, as T is the square of the noise
    solution = solve((best, *over, T * RATE * DECAY, T * RATE * response * COUPLED), UNKNOWN)
    assert solution is not None
    rate, decay, coupled = (solution.values[name] for name in UNKNOWN)
    beside = epsilon(optimizer, InBatch(place.starts_at_zero))
    row = replace(bare, rate=rate, epsilon=beside and gradient ** beside.exponent(GRADIENT))
    if optimizer.averaged is not None:
        # an average over as many samples is the same at every B; all roles have one memory
        size = InBatch(False).value(above_floors(optimizer.averaged.root)).size
        moved = B ** -size.exponent("v") * T ** -size.exponent("memory")
        with_it = seen ** rate.exponent("B") / (T * moved) if noise == DOMINANT else rate
        row = replace(row, memory=ONE / T, memory_rate=with_it)
    if not place.is_matrix:
        return row
    # a decay inside the gradient, without noise: a share of its own in a linear update alone
    kept = noise == DOMINANT or is_linear
    return replace(row, decay=decay, coupled_decay=coupled if kept else None)


def degree(optimizer: Optimizer, noise: str, starts_at_zero: bool) -> tuple[Fraction, bool]:
    """The update's power p of g, and whether it is linear in g.

    Raises :class:`Refusal` with the law that is missing: a degree, a second moment, a linear
    response, or noise that adds up to nothing in the mean.
    """
    # NumPy, which apply_ does without
    from deepnet_theory.sizes.descent import descent, is_additive, is_odd_in_gradient

    fold = InBatch(starts_at_zero)
    try:
        value, tree = moving(optimizer, fold)
        root = above_floors(tree)
        if noise == DOMINANT:
            fold.require_second_moment(value)
        signs, is_odd = descent(root), is_odd_in_gradient(root)
    except MissingLaw as missing:
        raise _no_law(optimizer, str(missing)) from None
    except (ArithmeticError, ValueError):
        raise _no_law(optimizer, "it is not finite and real at every sign of g") from None
    if signs != frozenset({-1}):
        why = "it has no linear response down the mean gradient: <g, update> is not negative"
        raise _no_law(optimizer, f"{why} in the mean over the signs of g and theta, at every size")
    if noise == DOMINANT and not is_odd:
        why = "a part is even in g: noise alone moves the parameter one way, so that this"
        raise _no_law(optimizer, f"{why} drift and the signal cannot both stay over the samples")
    size = fold.size(value.size)
    if size.exponent("eta") != 1:
        raise _no_law(optimizer, f"it is of degree {size.exponent('eta')} in eta, not 1")
    # of two entries a polar factor is a direction, which a norm makes linear
    is_linear = "polar" not in optimizer.expression.functions and is_additive(root)
    return size.exponent(GRADIENT), is_linear


def _no_law(optimizer: Optimizer, why: str) -> Refusal:
    return Refusal(f"no law in the batch for the update {shown(optimizer.update)}: {why}")
