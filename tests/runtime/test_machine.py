"""What makes a GPU repeatable, as far as it shows without one."""

import os
import warnings

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

from deepnet_theory.runtime.machine import repeatable


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    yield
    torch.use_deterministic_algorithms(False)


def unrepeatable():
    """An operation that torch has in one kind alone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
    return [str(w.message) for w in caught]


def test_a_gpu_takes_what_is_repeatable_and_torch_warns_of_the_rest():
    q = torch.randn(2, 3, 8, 4, generator=torch.Generator().manual_seed(0))
    with sdpa_kernel(SDPBackend.MATH):
        products = attention(q, q, q)
    assert not unrepeatable()
    with repeatable(torch.device("cuda")):
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert "does not have a deterministic implementation" in unrepeatable()[0]
        assert torch.equal(attention(q, q, q), products)
    assert not torch.are_deterministic_algorithms_enabled() and not unrepeatable()


def test_what_was_asked_for_before_is_there_again_and_a_cpu_is_left_as_it_is():
    with repeatable(torch.device("cpu")):
        assert not torch.are_deterministic_algorithms_enabled()
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    torch.use_deterministic_algorithms(True)
    with repeatable(torch.device("cuda")):
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
