"""What has no value is refused where it stands, and not carried on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy as sp

from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import custom_optimizer
from deepnet_theory.symbolic.algebra.monomial import exponent_in, exponents
from deepnet_theory.symbolic.algebra.nodes import Activation, Softmax, coefficient

A, B, u = sp.symbols("A B u", commutative=False)
t, N = sp.symbols("t N", positive=True)


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        *(
            (lambda e=e: exponents(e), ValueError, "not a positive monomial")
            for e in (1 + N, -N, 0 * N, N**N)
        ),
        (lambda: exponent_in(sp.exp(N), N), ValueError, "no growth exponent in N"),
        (lambda: coefficient(2 * Activation(u) + 3 * A), ValueError, "different scalars"),
        (lambda: Softmax(t * A).diff(t).diff(t), NotImplementedError, "second differentials"),
        (lambda: degrees(custom_optimizer("-eta*g/(theta - theta)")), Refusal, "not finite"),
    ],
)
def test_what_has_no_value_is_refused(
    asked: Callable[[], object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        asked()
