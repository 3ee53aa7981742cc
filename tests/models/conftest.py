"""What the tests of audits share."""

import no_accelerator  # noqa: F401
import pytest

EFFECTS = "deepnet_theory.models.effect.MOST"


@pytest.fixture
def unpredicted(monkeypatch):
    """Audits leave the prediction of effects, some tenths of a second each, out."""
    monkeypatch.setattr(EFFECTS, 0)


@pytest.fixture
def predicted(unpredicted, monkeypatch):
    """Audits predict effects, in a file whose other tests leave that out."""
    monkeypatch.setattr(EFFECTS, 8)
