"""Several streams come to one: the step, and what it rests on seen to fail."""

import pytest

from deepnet_theory.spec.placement import Placement, Streams, placement
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import sublayer
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.rule.streams import is_second_order, streams_steps

SEVERAL = ("hyper-connections", "residual-dual")
MIXED = Placement(  # read by one, written to unlike, mixed
    "mixed",
    "(2*x + y)/3 + branch(norm(x))/alpha; (x + 2*y)/3 + 2*branch(norm(x))/alpha",
    final_norm=True,
    output="x + y",
)


@pytest.mark.parametrize("where", SEVERAL)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_rule_is_that_of_the_one_stream(where, optimizer):
    found = derive(Selection(optimizer, placement=where))
    one = {"hyper-connections": "pre-ln", "residual-dual": None}[where]
    assert found.verdict is Verdict.PROVED
    assert found.step("streams-encoder").check() is Verdict.PROVED
    if one:
        same = derive(Selection(optimizer, placement=one)).rule.entries
        assert [e.to_dict() for e in found.rule.entries] == [e.to_dict() for e in same]


@pytest.mark.parametrize("where", [*map(placement, SEVERAL), MIXED], ids=lambda p: p.name)
def test_a_weight_or_a_norm_that_is_another_is_refuted(where, monkeypatch):
    (part,) = Selection("adam").the_stack.parts
    (step,) = streams_steps(part, where)
    assert step.check() is Verdict.PROVED
    right = where.streams.equivalent
    wrong = {right.replace("branch", "2*branch"), right.replace("+ ", "- ")}
    for equation in wrong:
        monkeypatch.setattr(Streams, "equivalent", equation)
        planted = Placement("planted", where.equation, where.final_norm, output=where.output)
        (step,) = streams_steps(part, planted)
        assert step.check() is Verdict.REFUTED
        assert not is_second_order(sublayer("ffn"), planted)


def test_one_stream_has_no_step():
    (part,) = Selection("adam").the_stack.parts
    assert not [*streams_steps(part, placement("pre-ln"))]
