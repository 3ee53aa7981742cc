"""``derived``: each of the shared derivations in turn."""

import derivations
import pytest

from deepnet_theory.symbolic.derivation import Derivation


@pytest.fixture(scope="session", params=derivations.SELECTIONS)
def derived(request: pytest.FixtureRequest) -> Derivation:
    return derivations.derivation(request.param)
