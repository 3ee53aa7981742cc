"""Assumptions: premises of a derivation, each with the measurement that can refute it."""

from __future__ import annotations

from dataclasses import dataclass

from deepnet_theory.definitions.discovery import choose, declared


@dataclass(frozen=True)
class Assumption:
    """A premise, and what would refute it.

    ``measurement`` names a quantity of the laboratory, which is constant in depth, or has an
    exponent of ``slope_at_most``, or a value of ``at_least``. An assumption without a measurement
    is reported ASSUMED.
    """

    name: str = ""
    statement: str = ""
    measurement: str | None = None
    slope_at_most: float | None = None
    at_least: float | None = None
    source: str = ""


ALIGNED_UPDATES = Assumption(
    statement="the sublayers' changes of the output point in similar directions: their sizes add",
    measurement="aligned_updates",
    source="Su, §Increment explosion",
)

ABOVE_FLOOR = Assumption(
    statement="rms(theta) is larger than the number that the update never takes it below",
    source="derived here",
)

ALIGNED_WITH_INPUTS = Assumption(
    statement="an update meets inputs like those that made it: sums over the width add up",
    source="Yang et al., arXiv 2203.03466; Everett et al., arXiv 2407.05872",
)

ATTENTION_KEEPS_MAGNITUDE = Assumption(
    statement="a softmax average of tokens has the tokens' magnitude, up to a constant",
    measurement="attention_average",
    source="layer cake, §4.1",
)

BOUNDED_LOSS_GRADIENT = Assumption(
    statement="‖∂L/∂F‖ = O(1): the loss's gradient at the stack's output does not grow with depth",
    measurement="loss_gradient",
    source="layer cake, §4.3",
)

BOUNDED_NORM_JACOBIAN = Assumption(
    statement="the Jacobian of the normalisation is of order one in depth",
    measurement="norm_jacobian",
    source="Su, §Feed-forward gradient",
)

BOUNDED_UPSTREAM_GRADIENT = Assumption(
    statement="the gradient with respect to a sublayer's output is of order one in depth",
    measurement="upstream_gradient",
    source="Su, §Feed-forward gradient and §Post-hoc analysis",
)

EQUAL_GAINS = Assumption(
    statement="all scaled matrices of a branch start with the same gain",
    source="Su, §First conclusions",
)

FRESH_WEIGHTS = Assumption(
    statement="weights are independent centred Gaussians, and independent of the branch's input",
    source="layer cake, §5.1",
)

GRADIENT_ABOVE_EPSILON = Assumption(
    statement="gradient entries are far above epsilon: a normalised step is a sign step",
    measurement="gradient_above_epsilon",
    at_least=0.9,
    source="Su, §Multiple optimizers",
)

HOMOGENEOUS_ACTIVATION = Assumption(
    statement="the activation is positively homogeneous of degree 1 (ReLU is, GELU nearly)",
    measurement="activation_homogeneity",
    at_least=0.5,
    source="Su, §Feed-forward gradient",
)

INDEPENDENT_SAMPLES = Assumption(
    statement="the samples of a batch are independent, and their noise has either sign alike",
    source="McCandlish et al., arXiv 1812.06162",
)

INDEPENDENT_SIGNS = Assumption(
    statement="a branch's output is independent of its input's direction, in every sublayer anew",
    measurement="upstream_gradient",
    source="layer cake, §4.3, the random variable I",
)

INDEPENDENT_UPDATE = Assumption(
    statement="the changes of one step are independent of the weights and inputs that they meet",
    source="layer cake, §5.1",
)

LINEAR_STEP = Assumption(
    statement="the update is so small that the output changes linearly in it",
    source="layer cake, §4.2; Su, §Increment explosion",
)

NEAR_IDENTITY = Assumption(
    statement="S r² stays bounded: the stack is near the identity, in independent directions",
    measurement="self_consistency",
    slope_at_most=0.0,
    source="derived here; layer cake, §4.3",
)

NOISE_DOMINATED = Assumption(
    statement="the batch is far below B_noise: its gradient is noise, far larger than the mean",
    source="McCandlish et al., arXiv 1812.06162",
)

SIGNAL_DOMINATED = Assumption(
    statement="the batch is far above B_noise: its gradient is the mean, far larger than the noise",
    source="McCandlish et al., arXiv 1812.06162",
)

SMALL_BRANCH_WEIGHT = Assumption(
    statement="the branch weight r = |G(x)|/|αx| does not grow with depth (leading orders: r → 0)",
    measurement="branch_weight",
    slope_at_most=0.0,
    source="layer cake, §4.2, third simplification",
)

UNIT_ACTIVATIONS = Assumption(
    statement="E x² = 1 for the entries of what a norm puts out, at every depth",
    measurement="activation_size",
    source="layer cake, §4.2",
)

UNIT_BRANCH = Assumption(
    statement="a branch with its gains taken out maps inputs of order one to outputs of order one",
    measurement="branch_input_response",
    source="Su, §Feed-forward gradient",
)

ASSUMPTIONS = declared(globals(), Assumption)


def assumption(name: str) -> Assumption:
    return choose("assumption", name, ASSUMPTIONS)
