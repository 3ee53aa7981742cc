"""The lemma and moment routes end in the increment that the balance starts from."""

from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.rule.balance import Problem

SELECTIONS = [
    Selection(optimizer=optimizer, method="lemma", placement=placement, stack=stack)
    for optimizer in ("sgd", "adam", "lamb")
    for placement, stack in (
        ("post-ln", "encoder"),
        ("post-ln", "encoder-decoder"),
        ("pre-ln", "decoder"),
        ("res-post-ln", "encoder"),
    )
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda s: str(s.to_dict().values()))
def test_the_lemma_route_ends_in_the_increment_that_is_balanced(selection):
    derivation = derive(selection)
    assert derivation.verdict is Verdict.PROVED
    assert derivation.relation is Relation.BOUND
    for balanced in Problem(selection).balanced:
        (kind,) = balanced.kinds
        stated = derivation.step(f"increment-{balanced.part.name}").rhs
        factor = sp.Integer(1) if balanced.amplification is None else balanced.amplification.factor
        solved = {k: v for b in Problem(selection).balanced for k, v in b.solution.values.items()}
        own = (balanced.sublayers * factor * kind.increment).subs(solved)
        if balanced.amplification is not None and factor == 1:
            stated = derivation.step(f"increment-{balanced.part.name}-own").rhs
        assert sp.simplify(sp.powsimp(stated.subs(solved) / own, force=True)) == 1


def test_planted_errors_in_the_lemma_route_are_refuted():
    derivation = derive(Selection(optimizer="sgd", method="lemma"))
    for step in derivation.steps:
        if step.relation is Relation.EQUAL and step.rhs != 0:
            assert replace(step, rhs=2 * step.rhs).check() is Verdict.REFUTED, step.name
