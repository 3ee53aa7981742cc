"""Exact expectations of polynomials in independent indexed entries, over symbolic ranges."""

from deepnet_theory.symbolic.expectation.contraction import Known, expect
from deepnet_theory.symbolic.expectation.enumeration import enumerate_expectation
from deepnet_theory.symbolic.expectation.law import (
    Bernoulli,
    Gaussian,
    Law,
    Rademacher,
    RectifiedGaussian,
    White,
)
from deepnet_theory.symbolic.expectation.node import (
    ENUMERATED,
    Expectation,
    IndexSum,
    is_enumerated,
    moment,
)
from deepnet_theory.symbolic.expectation.polynomial import (
    Index,
    Polynomial,
    Tensor,
    constant,
    delta,
)

__all__ = [
    "ENUMERATED",
    "Bernoulli",
    "Expectation",
    "Gaussian",
    "Index",
    "IndexSum",
    "Known",
    "Law",
    "Polynomial",
    "Rademacher",
    "RectifiedGaussian",
    "Tensor",
    "White",
    "constant",
    "delta",
    "enumerate_expectation",
    "expect",
    "is_enumerated",
    "moment",
]
