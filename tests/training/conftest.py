"""One thread for all tests of training, whose tensors are small; work elsewhere; small models."""

import contextlib
import pickle

import no_accelerator  # noqa: F401
import pytest
import torch

from deepnet_theory.processes import ThisProcess
from deepnet_theory.spec.constants import Architecture, Constants, PartConstants, SublayerConstants


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Elsewhere(ThisProcess):
    """A worker in another folder, as far as pickling goes."""

    def __init__(self, folder):
        self.folder = folder

    def submit(self, fn, /, *given, **more):
        work = pickle.loads(pickle.dumps(fn))
        with contextlib.chdir(self.folder):
            return super().submit(lambda: pickle.loads(pickle.dumps(work(*given, **more))))


@pytest.fixture
def elsewhere(tmp_path):
    return Elsewhere(tmp_path)


@pytest.fixture
def constants():
    """Makes the constants of a small stack, whose α and β balance."""

    def make(stack="decoder", layers=4, width=32, optimizer="adam", **given):
        def part(name, *kinds):
            alpha = given.get("alpha", (layers * len(kinds)) ** 0.5)
            sublayers = tuple(
                SublayerConstants(kind, alpha, given.get("beta", 1 / alpha)) for kind in kinds
            )
            return PartConstants(name, layers, name == "decoder", sublayers)

        parts = (part(stack, "attention", "ffn"),)
        if stack == "encoder-decoder":
            parts = (
                part("encoder", "attention", "ffn"),
                part("decoder", "attention", "cross", "ffn"),
            )
        names = ("vocab", "dropout")
        sizes = Architecture(width=width, heads=4, **{n: given[n] for n in names if n in given})
        where, norm = given.get("placement", "post-ln"), given.get("norm", "layer")
        return Constants(stack, where, norm, parts, sizes, optimizer)

    return make
