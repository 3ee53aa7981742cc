"""From which depth on a branch sinks under the epsilon of a norm, in published schemes."""

from dataclasses import replace

import pytest

from deepnet_theory.sizes.norm_epsilon import sinking_in
from deepnet_theory.sizes.schemes import judge
from deepnet_theory.spec.scheme import scheme, schemes


def test_a_scheme_whose_normed_branch_falls_says_where_it_sinks():
    (found,) = sinking_in(scheme("pangu"))
    # (2N)^-2 times 1 in attention, and in a ReLU's feed-forward times 2/5 · 1/2 · 8/5
    assert (found.place, found.epsilon) == ("output", "(2*N)**(-2)")
    assert {name: depth.at() for name, depth in found.depths} == pytest.approx(
        {"attention": 1e5**0.5 / 2, "ffn": 0.32**0.5 * 1e5**0.5 / 2}
    )
    judged = judge(scheme("pangu"))
    assert "90 layers on in ffn" in judged.warnings[-1]
    assert judged.to_dict()["norm_epsilon"][0]["sinks_from"] == {"attention": "159", "ffn": "90"}


def test_no_other_scheme_sinks_and_one_of_gain_1_never_does():
    assert [name for name, given in schemes().items() if list(sinking_in(given))] == ["pangu"]
    given = scheme("pangu")
    plain = replace(given, parts=(replace(given.parts[0], gains={}),))
    assert not list(sinking_in(plain))
