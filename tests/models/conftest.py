"""What the tests of audits share."""

import pytest


@pytest.fixture
def unpredicted(monkeypatch):
    """Audits that leave the prediction of effects, which has tests of its own, out."""
    monkeypatch.setattr("deepnet_theory.models.effect.MOST", 0)
