"""The power of the laboratory: what it accepts and rejects when it is repeated."""

from dataclasses import replace

import pytest
from published_rules import SU, depths, rule

from deepnet_theory.numeric.judging.power import Power, measure_power
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict

SETTINGS = Settings(width=32, heads=4, tokens=16, seeds=8, draws=2)
# β off by N^x changes ‖ΔF‖ by N^{1/8}: through β/α for Adam, β² for LAMB, β²/α² for SGD, whose
# error is to the side from which the finite depth's bend leads back.
WRONG = {"adam": "(2*N)**(-3/8)", "lamb": "(2*N)**(-7/16)", "sgd": "(2*N)**(-3/16)"}


def test_shares_have_exact_binomial_intervals():
    power = Power((Verdict.SUPPORTED,) * 199 + (Verdict.UNDECIDED,), (0.0,) * 200)
    share = power.share(Verdict.SUPPORTED)
    assert share.estimate == 0.995
    # Clopper and Pearson: 95% interval of 199 out of 200
    assert share.low == pytest.approx(0.9725, abs=5e-4)
    assert share.high == pytest.approx(0.99987, abs=5e-5)
    none = power.share(Verdict.REFUTED)
    assert (none.estimate, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 200))


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_few_repeated_experiments(name):
    small = Settings(width=16, heads=2, tokens=8, seeds=8, draws=2)
    selection = Selection(optimizer=name)
    wrong = own_rule(("encoder",), SU[name][0], WRONG[name])
    found = measure_power(selection, wrong, 0.0, depths(8, 16, 32), small, experiments=4)
    assert set(found.verdicts) <= {Verdict.REFUTED, Verdict.UNDECIDED}
    assert len(set(found.exponents)) == 4  # fresh data and weights in each


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WRONG))
def test_power_is_at_least_99_percent(name):
    right = measured(name, rule(name))
    assert right.share(Verdict.SUPPORTED).estimate >= 0.99
    wrong = measured(name, own_rule(("encoder",), SU[name][0], WRONG[name]))
    assert wrong.share(Verdict.REFUTED).estimate >= 0.99


def measured(name, on_trial):
    """Two hundred experiments; SGD's values scatter more and bend longer, so it needs more."""
    chosen, settings = depths(8, 16, 32), SETTINGS
    if name == "sgd":
        chosen = depths(16, 32, 64)
        settings = replace(SETTINGS, seeds=16, draws=8, data="gaussian:0")
    return measure_power(Selection(optimizer=name), on_trial, 0.0, chosen, settings, processes=2)
