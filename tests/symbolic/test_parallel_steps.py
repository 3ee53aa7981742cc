"""Branches in parallel: their rule is the sequence's, and what that rests on is seen to fail."""

from dataclasses import replace
from itertools import pairwise

import derivations
import pytest

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.placement import placement, placements
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.sublayer import sublayer, sublayers
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.rule import parallel
from deepnet_theory.symbolic.rule.parallel import is_second_order


def test_a_plus_joins_the_branches_of_one_sum():
    (part,) = stack("encoder", "ffn:swiglu + attention,ffn").parts
    assert [s.name for s in part.layer] == ["attention", "ffn-swiglu", "ffn"]
    assert (part.parallel, part.sums) == ((False, True, False), (2, 1))
    assert part.described == "attention+ffn-swiglu, ffn"


@pytest.mark.parametrize("layer", ["attention+", "+ffn", "attention++ffn", ",attention+ffn", "+"])
def test_a_sum_without_a_branch_is_refused(layer):
    with pytest.raises(InputError, match="is empty or has an empty sublayer"):
        stack("encoder", layer)


@pytest.mark.parametrize(
    "layer",
    [
        "attention,ffn",
        *(
            pytest.param(layer, marks=pytest.mark.slow)
            for layer in ("attention,ffn:swiglu", "attention,ffn,ffn")
        ),
    ],
)
@pytest.mark.parametrize("where", placements())
def test_the_rule_in_parallel_is_that_of_the_sequence(layer, where):
    for optimizer, closure in (("sgd", None), ("adam", "complete")):
        of = {"optimizer": optimizer, "placement": where, "closure": closure}
        # one sum that is normalised has one alpha
        one = placement(where).normalises_sum
        found = derive(Selection(**of, layer=layer.replace(",", "+")))
        sequence = derive(Selection(**of, layer=layer, one_alpha=one))
        assert found.verdict is Verdict.PROVED
        assert [e.to_dict() for e in found.rule.entries] == [
            e.to_dict() for e in sequence.rule.entries
        ]
        of_norms = ("norm_gain", "norm_bias")  # a sum has one norm, a sequence one a sublayer
        for ours, theirs in zip(found.table.parameters, sequence.table.parameters, strict=True):
            assert ours == theirs or (one and ours.parameter in of_norms)
            assert ours.exponent == theirs.exponent


@pytest.mark.parametrize("where", placements())
def test_a_sequence_is_a_sum_up_to_second_order_and_no_sum_that_lacks_a_branch(where, monkeypatch):
    kinds = [*sublayers().values()]
    pairs = [*zip(kinds, kinds, strict=True), *pairwise([*kinds, kinds[0]])]
    assert all(is_second_order(one, two, placement(where)) for one, two in pairs)
    right, name = parallel.beyond, "attention+ffn"
    one, two = map(sublayer, name.split("+"))

    def lacking(one, two, where, times=(1.0, 1.0)):  # what the second adds is left out
        first = parallel.weighing(one, where, times[0], 0)
        second = parallel.weighing(two, where, times[1], 1)
        return (replace(second, entering=first.output()).output() - first.output()).norm

    monkeypatch.setattr(parallel, "beyond", lacking)
    step = derivations.derivation("parallel pre-ln").step("parallel-encoder-1")
    assert not is_second_order(one, two, placement(where))
    assert step.check() is Verdict.REFUTED
    monkeypatch.setattr(parallel, "beyond", right)
    assert step.check() is Verdict.PROVED
