"""One thread for all tests of the laboratory, whose tensors are small."""

import no_accelerator  # noqa: F401
import pytest
import torch

from deepnet_theory.processes import Cache
from deepnet_theory.spec.selection import Selection


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def adam():
    return Selection(optimizer="adam")
