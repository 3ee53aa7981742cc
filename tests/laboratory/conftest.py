"""One thread for all tests of the laboratory, whose tensors are small."""

import contextlib
import pickle
from dataclasses import replace

import no_accelerator  # noqa: F401
import pytest
import torch
from small_constants import make_constants

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.processes.jobs import ThisProcess
from deepnet_theory.processes.keep import Cache


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def adam():
    return Selection(optimizer="adam")


@pytest.fixture
def elsewhere(tmp_path):
    """A worker in another folder, as far as pickling goes."""

    class Elsewhere(ThisProcess):
        def submit(self, fn, /, *given, **more):
            work = pickle.loads(pickle.dumps(fn))
            with contextlib.chdir(tmp_path):
                return super().submit(lambda: pickle.loads(pickle.dumps(work(*given, **more))))

    return Elsewhere()


@pytest.fixture
def constants():
    """Makes the constants of a small stack, whose α and β balance."""

    def make(stack="decoder", layers=4, optimizer="adam", alpha=None, **given):
        alpha = (2 * layers) ** 0.5 if alpha is None else alpha
        own = {"beta": 1 / alpha, "width": 32, "vocab": 256, **given}
        return replace(
            make_constants(stack, layers=layers, alpha=alpha, **own), optimizer=optimizer
        )

    return make
