"""How the decoder magnifies the encoder's change, in each form, against numbers of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra.monomial import M
from deepnet_theory.symbolic.rule.amplification import A
from deepnet_theory.symbolic.rule.problem import Problem

POWERS = {"sgd": 1, "adam": 0, "lamb": 0}  # p of each


def factor(form: str, optimizer: str, layers: int) -> float:
    """A for that many cross-attentions of the decoder's weight, as often as the form says."""
    problem = Problem(Selection(optimizer=optimizer, stack="encoder-decoder", amplification=form))
    encoder, decoder = problem.balanced
    (kind,) = decoder.kinds
    one = float(decoder.at_solution(kind.weight).subs(M, layers))
    size = one * (layers if form == "worst-case" else layers**0.5)
    assert encoder.amplification is not None
    found = float(encoder.amplification.factor.subs(M, layers))
    return found / size ** (1 + POWERS[optimizer])


@pytest.mark.parametrize("optimizer", POWERS)
@pytest.mark.parametrize("form", ["worst-case", "independent"])
def test_every_cross_attention_enters_once_forward_and_p_times_back(
    form: str, optimizer: str
) -> None:
    assert [factor(form, optimizer, layers) for layers in (1, 3, 12)] == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("form", ["worst-case", "independent"])
def test_another_power_of_a_is_refuted(form: str) -> None:
    selection = Selection(optimizer="sgd", stack="encoder-decoder", amplification=form)
    amplified = Problem(selection).balanced[0].amplification
    assert amplified is not None
    *_, passage = amplified.steps
    assert passage.check() is Verdict.PROVED
    for wrong in (A, 2 * A, A**3, sp.Integer(1)):
        assert replace(passage, rhs=wrong).check() is Verdict.REFUTED
