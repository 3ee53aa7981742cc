"""The equations that a learnt multiplier may stand in."""

import pytest

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.placement import Placement


@pytest.mark.parametrize(
    ("equation", "says"),
    [
        ("x + learnt(1)*learnt(2)*branch(x)", "one learnt number may multiply the branch"),
        ("learnt(1)*x + branch(norm(x))", "one learnt number may multiply the branch"),
        ("learnt(1)*(x + branch(norm(x)))", "one learnt number may multiply the branch"),
        ("x + branch(learnt(1)*norm(x))", "one learnt number may multiply the branch"),
        ("x + learnt(x)*branch(x)", "starts at a number"),
    ],
)
def test_one_learnt_number_multiplies_the_branch(equation, says):
    with pytest.raises(InputError, match=says):
        Placement("own", equation, True)
