"""The published schemes are data that parses, and says nothing of what it does."""

from dataclasses import fields, replace
from itertools import product

import pytest

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import RuleEntry
from deepnet_theory.definitions.scheme import SCHEMES, Scheme, scheme
from deepnet_theory.definitions.sublayer import sublayer


@pytest.mark.parametrize("given", SCHEMES.values(), ids=lambda s: s.name)
def test_every_constant_is_a_number_at_every_layer_and_has_a_source(given):
    assert SCHEMES[given.name] is given and given.source and given.summary
    assert not {f.name for f in fields(Scheme)} & {"exponent", "balances", "verdict", "class"}
    for part, l in product(given.parts, (1, 8)):  # noqa: E741  the layer's index
        at = {"N": 8, "M": 8, "l": l}
        assert given.value(part.alpha, **at) > 0 and given.value(part.embedding, **at) > 0
        assert all(given.value(gain, **at) >= 0 for gain in part.gains.values())


def test_gpt_2_and_deepnorm_are_their_papers():
    """Radford et al. 2019, §2.3: scaled by 1/sqrt(N); DeepNet, arXiv 2203.00555, Figure 2."""
    (part,), kinds = scheme("gpt-2").parts, map(sublayer, ("attention", "ffn"))
    matrices = [m for kind in kinds for m in kind.matrices]
    assert [m.name for m in matrices if part.gain(m) != "1"] == ["output", "fc2"]
    assert scheme("gpt-2").value(part.gain(matrices[-1]), N=50) == pytest.approx(0.1)
    encoder, decoder = scheme("deepnorm-encoder-decoder").parts
    value = scheme("deepnorm-encoder-decoder").value
    assert value(encoder.alpha, N=16, M=16) == pytest.approx(0.81 * 16 ** (5 / 16))
    assert value(decoder.gains["output"], M=108) == pytest.approx(1296 ** (-1 / 4))


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": (RuleEntry("encoder", gains={"fc3": "1/N"}),)},
        {"equation": "x + branch(norm(x))/N"},
        {"optimizer": "adamm"},
        {"rates": {"matrix": "1"}},
    ],
)
def test_a_scheme_that_names_what_is_not_there_is_refused(wrong):
    with pytest.raises((InputError, ValueError)):
        replace(scheme("gpt-2"), **wrong)
    with pytest.raises(InputError, match="not known"):
        replace(scheme("gpt-2"), parts=(RuleEntry("encoder", alpha="sqrt(j)"),))
