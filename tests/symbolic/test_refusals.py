"""What has no law or no value is refused where it stands, and not carried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.optimizer import custom_optimizer
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.growth import growth
from deepnet_theory.symbolic.algebra.monomial import exponent_in, exponents
from deepnet_theory.symbolic.algebra.nodes import Activation, coefficient
from deepnet_theory.symbolic.algebra.symbols import N
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.expectation import Index, Tensor, enumerate_expectation
from deepnet_theory.symbolic.implications.exponents import exponents_of
from deepnet_theory.symbolic.laws.optimizer import degrees

A, B, u = sp.symbols("A B u", commutative=False)
d = sp.Symbol("d", positive=True, integer=True)
x, i = Tensor("x", (d,)), Index("i", d)
TWO = Selection(optimizer="sgd", stack="encoder-decoder", layer="attention,ffn")


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        (lambda: depth_expression("1/(N - N)"), InputError, "divides by zero"),
        (lambda: growth("log(1/N - 1)", "N"), InputError, "no real value"),
        (lambda: exponents(1 + N), ValueError, "not a positive monomial"),
        (lambda: exponents(-N), ValueError, "not a positive monomial"),
        (lambda: exponents(N**N), ValueError, "not a positive monomial"),
        (lambda: exponent_in(sp.exp(N), N), ValueError, "no growth exponent in N"),
        (lambda: coefficient(2 * Activation(u) + 3 * A), ValueError, "different scalars"),
        (
            lambda: enumerate_expectation(x[i].sum(i), {d: 2}),
            ValueError,
            "tensor x was given no values",
        ),
        (lambda: degrees(custom_optimizer("-eta*g/(theta - theta)")), Refusal, "not finite"),
        (lambda: derive(TWO), Refusal, "cross"),
        (
            lambda: exponents_of(TWO, own_rule(("encoder", "decoder"), "1", "1")),
            Refusal,
            "without cross-attention",
        ),
    ],
)
def test_what_has_no_law_is_refused(
    asked: Callable[[], object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        asked()


def test_two_steps_of_one_name_are_no_derivation() -> None:
    derivation = derive(Selection(optimizer="sgd"))
    first = derivation.steps[0]
    with pytest.raises(TypeError, match=f"two steps are called {first.name!r}"):
        replace(derivation, steps=(first, *derivation.steps))
