"""A measurement of your own models goes on, is shared by processes, and is never stale."""

import os

import pytest
import torch

from deepnet_theory.laboratory.measuring import measure
from deepnet_theory.models import factory
from deepnet_theory.processes import Cache

MODEL = """
import torch
from torch import nn
from sizes import WIDTH

class Sum(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.e = nn.Embedding(32, WIDTH)
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(n))

    def forward(self, ids):
        x = self.e(ids)
        for m in self.maps:
            x = x + 1.0 * m(x) / len(self.maps)
        return x

def make(depth):
    return Sum(depth)

def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5 / len(model.maps))
"""
IDS = torch.arange(12).view(2, 6)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The file of a model, whose width is in a file beside it."""
    folder = tmp_path / "own"
    write(folder / "own.py", MODEL)
    write(folder / "sizes.py", "WIDTH = 8\n")
    forget(monkeypatch)
    return folder / "own.py"


def write(file, text):
    """Write a file whose time, older than this process, tells nothing of an edit."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    os.utime(file, (1e9, 1e9))


def forget(monkeypatch):
    """As in a fresh process: what stands beside a model is not loaded."""
    monkeypatch.delitem(factory.sys.modules, "sizes", raising=False)


def found(file, cache=None, depths=(1, 2), **more):
    more = {"update": "-eta*sign(g)"} | more
    result = measure(f"{file}:make", depths, **{"seeds": 2, "cache": cache} | more)
    return {k: v for k, v in result.to_dict().items() if k != "seconds"}


def test_a_measurement_that_is_stopped_goes_on(own, tmp_path):
    whole, cache = found(own), Cache(tmp_path / "kept")
    for stop in range(1, 4):

        def impatient(done, total, what, stop=stop):
            if len(list(cache.files())) >= stop:
                raise KeyboardInterrupt

        assert found(own, cache, progress=impatient)["complete"] is False
        assert len(list(cache.files())) == stop
    cache.taken = 0
    assert found(own, cache) == whole and cache.taken == 3
    assert found(own, cache) == whole and cache.taken == 7


CHANGED = {
    "update": "-eta*g", "seeds": 3, "seed": 1, "inputs": IDS, "final_state": "maps.0",
    "depths": (1, 3),
}  # fmt: skip


def test_a_changed_setting_is_measured_anew(own, tmp_path):
    cache = Cache(tmp_path / "kept")
    results = [found(own, cache)]
    for more in (*({name: value} for name, value in CHANGED.items()), {"inputs": IDS + 1}):
        results.append(found(own, cache, **more))
        assert results[-1] not in results[:-1]
        if more.keys() & {"seeds", "depths"}:  # which take a part of what is kept
            assert results[-1] == found(own, **more)
    assert found(own, cache) == results[0]


EDITS = [("own.py", "1.0", "3.0"), ("own.py", "0.5 /", "0.7 *"), ("sizes.py", "8", "6")]


def edited(own, monkeypatch, name, old, new):
    """An edit that leaves the file's time and its length."""
    file = own.with_name(name)
    assert file.read_text().count(old) == 1
    write(file, file.read_text().replace(old, new))
    forget(monkeypatch)


def test_a_changed_model_file_takes_no_stale_result(own, tmp_path, monkeypatch):
    cache = Cache(tmp_path / "kept")
    more = {"update": None, "optimizer": f"{own}:optimizer"}
    results = [found(own, cache, **more)]
    assert len(list(cache.files())) == 4
    for edit in EDITS:
        edited(own, monkeypatch, *edit)
        results.append(found(own, cache, **more))
        assert results[-1] not in results[:-1] and not cache.taken, edit
        forget(monkeypatch)
        assert results[-1] == found(own, **more)
