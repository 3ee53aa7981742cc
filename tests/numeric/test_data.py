"""Data: real bytes, and tokens of the correlation asked for."""

import pytest
import torch

from deepnet_theory.numeric.trial import gaussian_tokens, text_bytes, text_windows


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_windows_are_stretches_of_the_text():
    text = bytes(text_bytes().tolist())
    windows = text_windows(5, 40, generator())
    assert windows.shape == (5, 40)
    assert all(bytes(w) in text for w in windows.tolist())
    assert torch.equal(windows, text_windows(5, 40, generator()))
    assert not torch.equal(windows, text_windows(5, 40, generator(1)))


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 1.0])
def test_gaussian_tokens_have_unit_size_and_the_correlation(rho):
    x = gaussian_tokens((2, 2000, 2, 16), rho, generator())
    assert x.shape == (2, 2000, 2, 16)
    assert abs(x.square().mean().item() - 1) < 0.02
    measured = (x[:, :, 0] * x[:, :, 1]).mean().item()
    assert abs(measured - rho) < 0.02
