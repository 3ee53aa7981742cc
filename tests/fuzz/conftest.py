"""How many hostile inputs each fuzz tries: a few hundred by default, many by ``make fuzz``."""

from __future__ import annotations

import os
import random

import pytest

TIMES = "DEEPNET_THEORY_FUZZ"  # how many times the ordinary number
SEED = "DEEPNET_THEORY_FUZZ_SEED"


@pytest.fixture
def times() -> int:
    """What the ordinary number of inputs is multiplied by."""
    return int(os.environ.get(TIMES, "1"))


@pytest.fixture
def draw() -> random.Random:
    """The source of all draws: the same inputs at every run, others with another seed."""
    return random.Random(int(os.environ.get(SEED, "0")))
