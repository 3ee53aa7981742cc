"""Negative controls of the claims of the norm note, of DeepNet and of the retelling."""

from __future__ import annotations

from typing import Any

import pytest

from deepnet_theory.claims.folder import claim
from deepnet_theory.spec.claim import Claim
from deepnet_theory.spec.verdict import Verdict

REFUTED, SUPPORTED, PROVED = Verdict.REFUTED, Verdict.SUPPORTED, Verdict.PROVED


def found(checked: Claim, begins: str) -> Verdict:
    """What the part whose label begins so finds now, with whatever was planted."""
    from paper_checks.shared.bench import Lab

    (part,) = (p for p in checked.parts if p.about.startswith(begins))
    return part.check(Lab()).verdict


def plant(monkeypatch: pytest.MonkeyPatch, name: str, **planted: Any) -> Claim:
    """The claim with other values of its file's own names."""
    checked = claim(name)
    own: dict[str, Any] = checked.parts[0].check.__globals__  # type: ignore[attr-defined]
    for key, value in planted.items():
        assert key in own
        monkeypatch.setitem(own, key, value)
    return checked


@pytest.mark.parametrize("begins", ["encoder:", "0.81"])
def test_another_constant_of_the_encoder(monkeypatch: pytest.MonkeyPatch, begins: str) -> None:
    other = ("3**(-1/4)*(N**4*M)**(1/16)", "3**(1/4)*2**(-1/2)*(N**4*M)**(-1/16)")
    assert found(plant(monkeypatch, "deepnet-encoder-decoder", ENCODER=other), begins) is REFUTED


def test_another_rule_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared.engine import derive

    other = lambda **chosen: derive(**{**chosen, "optimizer": "adam"})  # noqa: E731
    checked = plant(monkeypatch, "deepnet-encoder-decoder", derive=other)
    assert found(checked, "decoder:") is found(checked, "encoder:") is REFUTED


def test_a_decoder_without_cross_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    own = claim("deepnet-sublayers").parts[0].check.__globals__["part"]  # type: ignore[attr-defined]

    def fewer(name: str, layers: int, *kinds: str) -> Any:
        return own(name, layers, *(kind for kind in kinds if kind != "cross"))

    assert found(plant(monkeypatch, "deepnet-sublayers", part=fewer), "500") is REFUTED


def test_updates_that_do_not_grow_are_seen_as_nearly_constant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from paper_checks.shared.stacks import Net

    own = Net("(2*N)**(1/2)", "(2*N)**(-1/2)", "adam")
    checked = plant(monkeypatch, "deepnet-constant-update", ADAM=own, TRAINED=(6, 12, 24))
    assert found(checked, "DeepNorm under Adam, a short training") is SUPPORTED


def test_constants_that_do_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared.training import model_constants

    plain = lambda layers: model_constants(layers, 1.0, 1.0)  # noqa: E731
    checked = plant(monkeypatch, "deepnet-adam", deepnorm=plain)
    assert found(checked, "a short training") is not SUPPORTED


def test_a_layer_of_another_placement_is_not_the_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    def pre_norm(layer: Any, x: Any) -> Any:
        u = layer.norm1(x)
        x = x + layer.self_attn(u, u, u, need_weights=False)[0]
        return x + layer.linear2(layer.linear1(layer.norm2(x)).relu())

    checked = plant(monkeypatch, "norms-encoder-layer", note=pre_norm)
    assert found(checked, "the same weights") is found(checked, "dropout acts") is REFUTED


def test_branches_that_are_not_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared.stacks import residual_sums

    other = lambda trial: [(s, x, 1.001 * out) for s, x, out in residual_sums(trial)]  # noqa: E731
    checked = plant(monkeypatch, "norms-unroll", residual_sums=other)
    assert found(checked, "built Pre-LN") is REFUTED


def test_norms_that_are_all_layer_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    one = dict.fromkeys(("layer", "rms", "batch", "instance"), (-1,))
    checked = plant(monkeypatch, "norms-other-norms", CENTRED=one, SCALED=one)
    assert found(checked, "RMSNorm and LayerNorm") is REFUTED


def test_a_gradient_of_positive_entries_is_its_own_indicator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found(plant(monkeypatch, "retold-notation", HERE=(1, 1, 3)), "with the ind") is PROVED


def test_an_alpha_that_scales_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared.stacks import Net

    fixed = lambda point, optimizer="sgd": Net("32", repr(point[0]), optimizer)  # noqa: E731
    assert found(plant(monkeypatch, "retold-roles", net=fixed), "α scales") is REFUTED
