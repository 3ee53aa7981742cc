"""Published schemes on real stacks: a gain for each matrix, and the exponent that it makes."""

import pytest

from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.trial import Trial
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.scheme import measurable, scheme
from deepnet_theory.spec.selection import Selection
from deepnet_theory.workflow import verify_scheme

SMALL = {"width": 32, "heads": 2, "tokens": 16, "seeds": 4}


def test_every_matrix_is_drawn_at_its_own_gain():
    selection, rule = measurable(scheme("gpt-2"), None, None)
    trial = Trial(Case(selection, rule, {"N": 8}, Settings(**SMALL)))
    for parameter, d in trial.parameters():
        gain = 1 / 4 if d.name in ("output", "fc2") else 1
        assert d.gain == gain
        assert float(parameter.std()) == pytest.approx(d.std, rel=0.1)


# (scheme, optimizer): within a slope of two depths; what a balance would make is told apart
@pytest.mark.parametrize(
    ("name", "under", "predicted"),
    [
        ("gpt-2", "adam", 1.0),
        ("gpt-2", "lamb", 0.5),
        ("completep", "adamw", 0.0),
        ("deepnorm", "adam", 0.5),
        ("deepnorm-glm", "adam", 0.0),
    ],
)
def test_the_measured_exponent_is_the_judged_one(name, under, predicted):
    found = verify_scheme(name, (4, 8, 16), optimizer=under, **SMALL).exponents[0]
    assert found.predicted == predicted
    assert found.estimate == pytest.approx(predicted, abs=0.1)


def test_a_gain_that_is_not_positive_is_refused():
    entry = RuleEntry("encoder", "*", "1", "1", gains=(("fc2", "1 - N/4"),))
    selection = Selection(optimizer="sgd", placement="pre-ln")
    with pytest.raises(InputError, match="gain of fc2 must be positive"):
        _ = Case(selection, Rule("planted", (entry,)), {"N": 8}, Settings(**SMALL)).constants
