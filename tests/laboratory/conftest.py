"""One thread for all tests of the laboratory, whose tensors are small."""

import contextlib
import pickle

import no_accelerator  # noqa: F401
import pytest
import torch

from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
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
