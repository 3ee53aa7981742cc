"""Negative controls of the claims of published schemes."""

from __future__ import annotations

from typing import Any

import pytest

from deepnet_theory.claims.folder import claim
from deepnet_theory.spec.claim import Claim
from deepnet_theory.spec.verdict import Verdict

REFUTED, PROVED = Verdict.REFUTED, Verdict.PROVED


def found(checked: Claim, begins: str) -> Verdict:
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


def test_a_wrong_number_of_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(claim("schemes-quartic"), "m scaled maps") is PROVED
    planted = plant(monkeypatch, "schemes-quartic", SCALED={"ffn": 4})
    assert found(planted, "m scaled maps") is REFUTED


def test_an_engine_in_which_feed_forward_had_no_fourth_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from paper_checks.shared.engine import derive

    other = lambda **chosen: derive(**{**chosen, "layer": "ffn:swiglu"})  # noqa: E731
    planted = plant(monkeypatch, "schemes-quartic", derive=other)
    assert found(planted, "without attention's") is PROVED
    assert found(planted, "the same") is REFUTED


def test_an_engine_by_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_checks.shared.engine import derive

    def other(**chosen: Any) -> Any:
        return derive(optimizer="adam", layer=chosen["layer"], closure="symmetric")

    assert found(plant(monkeypatch, "schemes-quartic", derive=other), "m maps") is PROVED
