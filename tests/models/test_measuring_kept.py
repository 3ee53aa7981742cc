"""A measurement of one's own models goes on, is shared by processes, and is never stale."""

import os
import pickle
from functools import partial

import pytest
import torch

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.laboratory.measuring import _plain, measure
from deepnet_theory.models import factory
from deepnet_theory.processes import Cache, ThisProcess

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


class Elsewhere(ThisProcess):
    """Work and result travel by pickle, as to a process whose default type is torch's own."""

    def submit(self, fn, /, *given, **more):
        work, here = pickle.dumps(partial(fn, *given, **more)), torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            done = super().submit(pickle.loads(work))
        finally:
            torch.set_default_dtype(here)
        if done.exception() is None:
            assert pickle.loads(pickle.dumps(done.result())) == done.result()
        return done


def test_work_that_travels_gives_the_same_bits(own):
    more = {"update": None, "optimizer": f"{own}:optimizer"}
    single = found(own, **more)
    assert found(own, executor=Elsewhere(), **more) == single
    torch.set_default_dtype(torch.float64)
    try:
        double = found(own, **more)
        assert found(own, executor=Elsewhere(), **more) == double != single
    finally:
        torch.set_default_dtype(torch.float32)


class Pickles:
    """An executor that may be given nothing that it does not understand."""

    def submit(self, *given):
        raise AssertionError("a lambda cannot travel")


def test_a_lambda_runs_here_and_is_not_kept(own, tmp_path):
    cache, make = Cache(tmp_path / "kept"), factory.load_factory(f"{own}:make").function
    more = {"update": "-eta*sign(g)", "seeds": 2, "cache": cache}
    here = measure(lambda n: (make(n), IDS), [1, 2], executor=Pickles(), **more)
    again = measure(lambda n: (make(n), IDS), [1, 2], **more)
    assert here.points == again.points and not list(cache.files()) and not cache.taken
    # planted: a text does travel, to an executor that fails
    with pytest.raises(AssertionError, match="cannot travel"):
        found(own, executor=Pickles())
    step = factory.load_factory(f"{own}:optimizer").function  # nor is a function in memory kept
    found(own, cache, update=None, optimizer=step)
    assert not list(cache.files())
    found(own, cache, update=None, optimizer=torch.optim.SGD)
    assert len(list(cache.files())) == 4


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


def test_inputs_are_known_by_all_that_they_are():
    one = torch.ones(2, 3)
    given = [(one, 2), (one, 3), [one, 2], (one + 1, 2), (one.double(), 2), (one.T, 2)]
    given += [{"x": one}, {"y": one}]
    known = [_plain(inputs) for inputs in given]
    assert all(a != b for i, a in enumerate(known) for b in known[:i])
    assert _plain((one.clone(), 2)) == known[0]


def test_another_process_takes_no_other_code(own, monkeypatch):
    given = factory.load_known_factory(f"{own}:make")
    make, arguments = given.__reduce__()
    forget(monkeypatch)
    edited(own, monkeypatch, *EDITS[0])
    with pytest.raises(InputError, match="has changed since"):
        make(*arguments).make(2)
    edited(own, monkeypatch, *EDITS[0][:1], *EDITS[0][:0:-1])  # and back
    assert make(*arguments).make(2).module.maps
