"""Exact expectations of polynomials in independent indexed entries, over symbolic ranges."""

from deepnet_theory.symbolic.moments.contraction import Known, expect
from deepnet_theory.symbolic.moments.enumeration import enumerate_expectation
from deepnet_theory.symbolic.moments.law import (
    Bernoulli,
    Gaussian,
    Law,
    Rademacher,
    RectifiedGaussian,
    White,
)
from deepnet_theory.symbolic.moments.node import ENUMERATED, Expectation, IndexSum, is_enumerated
from deepnet_theory.symbolic.moments.polynomial import Index, Polynomial, Tensor, constant, delta

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
]
