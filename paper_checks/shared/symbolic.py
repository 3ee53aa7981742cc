"""What the claims take of the derivation's rooms: the one file that knows where things are."""

from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.expectation import (
    Bernoulli,
    Gaussian,
    Index,
    Known,
    Tensor,
    expect,
)

__all__ = [
    "Bernoulli",
    "Gaussian",
    "Index",
    "Known",
    "Tensor",
    "derive",
    "expect",
]
