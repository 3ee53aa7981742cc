"""W = cW' as steps: the powers of c, planted wrong; which closures are one rule."""

from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.definitions.optimizer import custom_optimizer, optimizers
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.placement import placements
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.beyond import ARGUMENTS, c, equivalence_steps
from deepnet_theory.proof.rule import Problem
from deepnet_theory.sizes.answer import compare_closures
from deepnet_theory.sizes.equivalence import without_alpha
from deepnet_theory.sizes.laws import carries_alpha
from deepnet_theory.sizes.table import equivalent_closures, table
from deepnet_theory.sizes.update import powers


def steps(**select):
    return {step.name: step for step in equivalence_steps(Problem(Selection(**select)))}


@pytest.mark.parametrize("name", optimizers())
def test_every_power_is_checked_and_a_wrong_one_refuted(name):
    for step in steps(optimizer=name).values():
        assert step.check() is Verdict.PROVED, step.name
        if not step.name.startswith("moved-") or step.name == "moved-gradient":
            continue
        (moved,) = step.lhs.atoms(sp.core.function.AppliedUndef)
        for index, argument in enumerate(moved.args):
            wrong = [*moved.args]
            wrong[index] = argument * sp.sqrt(c)
            planted = replace(step, lhs=step.lhs.xreplace({moved: moved.func(*wrong)}))
            # an exact polar factor does not feel what its argument is divided by
            unfelt = name.startswith("muon") and argument.has(ARGUMENTS["epsilon"])
            assert (planted.check() is Verdict.PROVED) == unfelt, (step.name, argument)
        assert replace(step, lhs=step.lhs * c).check() is Verdict.REFUTED


def test_the_moved_gradient_and_the_weights_form_planted_wrong():
    step = steps(optimizer="sgd")["moved-gradient"]
    for wrong in (step.rhs * c, step.rhs / c, 2 * step.rhs):
        assert replace(step, rhs=wrong).check() is Verdict.REFUTED
    step, alpha = steps(optimizer="adam")["weights-form"], sp.Symbol("alpha", positive=True)
    wrong = step.rhs.xreplace({alpha: alpha**2})
    assert replace(step, rhs=wrong).check() is Verdict.REFUTED
    found = {name: (carries_alpha(p), without_alpha(p)) for name, p in placements().items()}
    assert found["post-ln"] == (True, "post-ln") and found["branch-multiplier"] == (True, "pre-ln")
    assert not any(found[name][0] for name in ("pre-ln", "res-post-ln", "sandwich-ln"))


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
