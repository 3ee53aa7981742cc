"""The law of an update: its degrees are those of the numbers, and descent is that of the loss."""

from dataclasses import replace

import pytest

from deepnet_theory.definitions.optimizer import custom_optimizer
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.sizes import update
from deepnet_theory.sizes.update import law as degrees


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("eta*g", "the loss rises"),
        ("-eta*norm(theta)", "does not follow the gradient"),
        ("-eta*theta*sign(g)", "does not follow the gradient"),
        ("-eta*max(g, -g)", "does not follow the gradient"),
        ("-eta*(g + theta)", "different degrees"),
        ("-eta*g + eta*theta", "different degrees"),
        ("-eta*g/(abs(g) + 1/1000)", "different degrees"),
        ("-eta*clip(g, -1, 1)", "different degrees"),
        ("-eta*g*log(abs(g))", "a logarithm of something that scales"),
        ("-eta*log(abs(g))", "logarithm"),
        ("-eta**2*g", "of degree 2 in eta"),
        *((f"-eta*({zero})", "identically zero") for zero in (
            "0*g", "g - g", "sqrt(g**2) - abs(g)", "norm(g)**2 - numel(g)*rms(g)**2",
            "max(g, 2*g) - max(2*g, g)")),
        ("-eta*g/0", "divides by zero"),
        ("-eta*g*0**(-1)", "divides by zero"),
        ("-eta*g*log(1 - 1)", "logarithm of zero"),
        ("-eta*g/max(theta, 0)", "finite and real at every sign"),
        ("-eta*g/(theta - theta)", "not finite"),
    ],
)  # fmt: skip
def test_what_has_no_law_is_refused(text, says):
    with pytest.raises(Refusal, match=says):
        update.descending(custom_optimizer(text))
    if "rises" not in says and "follow" not in says:
        with pytest.raises(Refusal, match=says):  # by the steps alike
            degrees(custom_optimizer(text))


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("-eta*(g/(abs(g) + epsilon) + decay*theta)", {"epsilon": "g", "decay": "1/theta"}),
        (
            "-eta*(g + decay*theta)/(abs(g + decay*theta) + epsilon)",
            {"epsilon": "g", "decay": "g/theta"},
        ),
        ("-eta*norm(theta)*g/(norm(g) + epsilon**2)", {"epsilon": "g**(1/2)"}),
        ("-eta*max(epsilon, rms(theta))*sign(g)", {"epsilon": "theta"}),
    ],
)
def test_a_constant_takes_the_degrees_of_what_it_stands_beside(text, degrees):
    def constants(practice):
        found = update.practised(replace(custom_optimizer("-eta*g"), practice=practice))
        return {name: str(degree) for name, degree in found.items()}

    assert constants(text) == degrees
    with pytest.raises(Refusal, match="different degrees"):
        constants("-eta*g/(abs(g) + epsilon)/(norm(theta) + epsilon)")
