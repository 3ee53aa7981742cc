"""The published schemes are data that parses, and says nothing of what it does."""

from dataclasses import fields, replace

import pytest

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.scheme import Scheme, SchemePart, scheme, schemes

SCHEMES = list(schemes().values())


def test_the_folder_holds_what_its_files_say():
    assert len(SCHEMES) >= 18
    assert all(value.name == name for name, value in schemes().items())
    assert all(s.source and s.summary for s in SCHEMES)


@pytest.mark.parametrize("given", SCHEMES, ids=lambda s: s.name)
def test_every_constant_is_a_number_at_every_layer(given):
    for part in given.parts:
        for l in (1, 8):  # noqa: E741  the layer's index
            at = {"N": 8, "M": 8, "l": l}
            assert given.value(part.alpha, **at) > 0
            assert given.value(part.embedding, **at) > 0
            assert all(given.value(gain, **at) >= 0 for gain in part.gains.values())


def test_gpt_2_draws_the_residual_projections_smaller():
    """Radford et al. 2019, §2.3: scaled by 1/sqrt(N), N the number of residual layers."""
    (part,) = scheme("gpt-2").parts
    assert {m for m in ("value", "output", "fc1", "fc2") if part.gain(m) != "1"} == {
        "output",
        "fc2",
    }
    assert scheme("gpt-2").value(part.gain("fc2"), N=50) == pytest.approx(0.1)


def test_deepnorm_is_its_figure():
    """DeepNet, arXiv 2203.00555, Figure 2: 0.81, 0.87, and a decoder of 6 layers."""
    encoder, decoder = scheme("deepnorm-encoder-decoder").parts
    value = scheme("deepnorm-encoder-decoder").value
    assert value(encoder.alpha, N=16, M=16) == pytest.approx(0.81 * 16 ** (5 / 16))
    assert value(decoder.gain("output"), M=108) == pytest.approx(1296 ** (-1 / 4))


def test_only_a_scheme_of_one_gain_is_a_rule_of_alpha_and_beta():
    names = {s.name for s in SCHEMES if s.one_gain}
    assert {"deepnorm", "deepnorm-glm", "completep", "modula"} <= names
    assert not names & {"gpt-2", "fixup", "rezero", "layernorm-scaling", "keel", "sub-ln"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": (SchemePart("encoder", gains={"fc3": "1/N"}),)},
        {"equation": "x + branch(norm(x))/N"},
        {"optimizer": "adamm"},
        {"first": "x + branch(x)"},
        {"rates": {"matrix": "1"}},
    ],
)
def test_a_scheme_that_names_what_is_not_there_is_refused(wrong):
    with pytest.raises((InputError, ValueError)):
        replace(scheme("gpt-2"), **wrong)


def test_an_index_beyond_the_layer_s_is_refused():
    with pytest.raises(InputError, match="not known"):
        SchemePart("encoder", alpha="sqrt(j)")


def test_a_scheme_holds_no_consequence():
    told = {f.name for f in fields(Scheme)}
    assert not told & {"exponent", "balances", "verdict", "class"}
