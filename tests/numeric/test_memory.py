"""Too large a stack is refused before it is built, a fitting one is not."""

from dataclasses import replace

import pytest
from published_rules import SMALL, depths, predictions, rule

from deepnet_theory.numeric import settings as memory
from deepnet_theory.numeric.verify import verify
from deepnet_theory.spec.errors import InputError


def test_a_stack_that_does_not_fit_is_refused(adam, monkeypatch):
    huge = replace(SMALL, tokens=2**20, width=64, seeds=1000)
    with pytest.raises(InputError, match=r"depth 128 with 1048576 tokens, .* GB are there"):
        verify(adam, rule("adam"), predictions("adam", "adam"), depths(8, 128), huge)
    monkeypatch.setattr(memory, "available_bytes", lambda device: 1000)
    with pytest.raises(InputError, match="memory"):
        memory.require_memory(adam, depths(2), SMALL)


def test_the_estimate_grows_as_the_stack_does(adam):
    few, many = (memory.needed_bytes(adam, {"N": n}, SMALL) for n in (2, 4))
    assert many == 2 * few
    exact = memory.needed_bytes(adam, {"N": 2}, replace(SMALL, dtype="float64"))
    assert exact == 2 * few
