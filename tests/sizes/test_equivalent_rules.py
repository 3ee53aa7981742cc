"""W = cW': the powers of c that leave the model alone, and which closures are one rule."""

import pytest
import sympy as sp

from deepnet_theory.definitions.optimizer import custom_optimizer
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.answer import compare_closures
from deepnet_theory.sizes.table import equivalent_closures, table
from deepnet_theory.sizes.update import powers


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        ("-eta*g", {"eta": -2, "decay": 2}),
        ("-eta*sign(g)", {"eta": -1, "decay": 1}),
        ("-eta*norm(theta)*sign(g)", {"eta": 0, "decay": 0}),
        ("-eta*norm(theta)**2*sign(g)", {"eta": 1, "decay": -1}),
        ("-eta*g/norm(g)**(1/2)", {"eta": sp.Rational(-3, 2), "decay": sp.Rational(3, 2)}),
    ],
)
def test_the_powers_of_an_update_of_ones_own(update, wanted):
    found = powers(custom_optimizer(update))
    assert {name: found[name] for name in wanted} == wanted


def test_which_closures_are_one_rule():
    """Under LAMB all that leave η alone; under Adam complete is unit-init, DeepNet's is Su's."""

    def alike(closure, **select):
        return dict(equivalent_closures(table(Selection(**select, closure=closure))))

    lamb = alike("complete", optimizer="lamb")
    assert set(lamb) == {"parameter-norm", "symmetric", "unit-init", "unit-residual"}
    assert all(lamb.values())
    assert alike("complete", optimizer="adam") == {"unit-init": True}
    assert alike("symmetric", optimizer="adam") == {"parameter-norm": False}
    assert alike("unit-residual", optimizer="adam") == {}
    found = compare_closures(Selection(optimizer="adam")).classes
    assert found["unit-init"] == found["complete"] == "complete"
    assert found["symmetric"] == found["parameter-norm"] == "parameter-norm"
    assert all(found[name] == name for name in ("unit-residual", "learning-rate"))
