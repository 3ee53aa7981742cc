"""``derived``: each of the shared derivations in turn."""

import derivations
import pytest


@pytest.fixture(scope="session", params=derivations.SELECTIONS)
def derived(request):
    return derivations.derivation(request.param)
