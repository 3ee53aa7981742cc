"""A feed-forward with a squared activation: of degree 3 in its two matrices."""

import pytest

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.sublayer import sublayer


def test_its_beta_follows_from_its_degree_and_is_found_on_matrices():
    derivation = dt.derive(optimizer="lamb", placement="pre-ln", layer="attention,ffn:relu2")
    betas = {entry.sublayer: entry.beta for entry in derivation.rule.entries}
    assert betas == {"attention": "(2*N)**(-1/2)", "ffn-relu2": "(2*N)**(-1/3)"}
    assert derivation.verdict is Verdict.PROVED


def test_the_lemma_route_refuses_it():
    with pytest.raises(Refusal, match="a matrix is there more than once"):
        dt.derive(optimizer="sgd", method="lemma", layer="ffn:relu2")


def test_it_is_built_and_one_update_moves_its_output_alike_at_every_depth():
    torch = pytest.importorskip("torch")
    derivation = dt.derive(optimizer="adamw", placement="pre-ln", layer="ffn:relu2")
    model = dt.build(dt.export(derivation, 1, width=8, heads=2, ffn_ratio=2.0))
    branch = next(m for m in model.modules() if getattr(m, "spec", None) is sublayer("ffn-relu2"))
    x = torch.randn(3, 8)
    torch.testing.assert_close(branch(x), branch.fc2(torch.relu(branch.fc1(x)) ** 2))
    measured = dt.verify(
        derivation, depths=[8, 16, 32, 64], width=16, heads=2, seeds=4, draws=1, tokens=16
    )
    assert abs(measured.exponents[0].estimate) < 0.1  # of the other beta, (2N)^(-1/2): -1/2
