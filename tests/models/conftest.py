"""What the tests of audits share."""

import no_accelerator  # noqa: F401
import pytest
from small_constants import constants  # noqa: F401


@pytest.fixture
def measured(unmeasured, monkeypatch):
    """Audits measure what differences do, in a file whose other tests leave that out."""
    monkeypatch.setattr("deepnet_theory.models.effect.MOST", 30_000_000)
