"""The law of an update: its degrees are those of the numbers, and descent is that of the loss."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from deepnet_theory.sizes import update
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import custom_optimizer, optimizers

OWN = (
    "-eta*norm(theta)**2*sign(g)",
    "-eta*sign(g)*abs(g)**(1/3)",
    "-eta*g*abs(theta)**(-1/2)",
    "-eta*theta*sign(g)*sign(theta)",
    "-eta*rms(theta)**(1/2)*polar(g)",
    "-eta*clip(g, -norm(g), norm(g))",
)
ALL = [*optimizers().values(), *map(custom_optimizer, OWN)]


@pytest.mark.parametrize("optimizer", ALL, ids=lambda o: o.update)
def test_an_update_scales_with_its_degrees(optimizer: update.Optimizer) -> None:
    law = update.law(optimizer)
    random.seed(0)
    with localcontext(prec=60):
        g, theta = ([Decimal(random.uniform(1, 3)) for _ in range(2)] for _ in range(2))

        def at(t: int, s: int) -> Decimal:
            values = {"g": (t * g[0], -t * g[1]), "theta": (s * theta[0], -s * theta[1])}
            return update.entries(law.reduced, {"eta": Decimal(1), **values})[0]

        for t, s in ((2, 1), (1, 3), (5, 7)):
            power = lambda base, p: Decimal(base) ** (Decimal(p.numerator) / p.denominator)  # noqa: E731
            wanted = power(t, law.p) * power(s, law.q) * at(1, 1)
            assert abs(at(t, s) / wanted - 1) < Decimal(10) ** -40


@pytest.mark.parametrize("optimizer", optimizers().values(), ids=lambda o: o.name)
def test_every_built_in_optimizer_descends(optimizer: update.Optimizer) -> None:
    assert update.descending(optimizer).descends


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("eta*g", "the loss rises"),
        ("-eta*norm(theta)", "does not follow the gradient"),
        ("-eta*theta*sign(g)", "does not follow the gradient"),
        ("-eta*max(g, -g)", "does not follow the gradient"),
        ("-eta*(g + theta)", "no regime says which"),
        ("-eta*0*g", "identically zero"),
        ("-eta**2*g", "of degree 2 in eta"),
        ("-eta*g*log(abs(g))", "a logarithm of something that scales"),
    ],
)
def test_what_has_no_law_is_refused(text: str, says: str) -> None:
    with pytest.raises(Refusal, match=says):
        update.descending(custom_optimizer(text))


def test_epsilon_and_decay_take_the_degrees_of_what_they_stand_beside() -> None:
    found = {
        name: {c: str(d) for c, d in update.practised(o).constants.items()}
        for name, o in optimizers().items()
    }
    assert found["adam"] == {"epsilon": "g", "decay": "g/theta"}
    assert found["adamw"] == {"epsilon": "g", "decay": "1/theta"}
    assert found["sgd"] == {"decay": "g/theta"}
    assert found["lamb"]["decay"] == "1"


def test_a_floor_is_a_regime_that_ends() -> None:
    (floor,) = update.law(optimizers()["adafactor"]).regimes
    assert floor.is_floor and floor.larger_degree.exponent("theta") == Fraction(1)
