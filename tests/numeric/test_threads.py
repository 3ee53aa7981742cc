"""How many processes share the work where nobody says: as many as fill the cores, if it is long."""

import os
import sys

import pytest
import torch

from deepnet_theory import verify
from deepnet_theory.numeric.settings import Settings, fitting_processes

# 8 seeds of 32 tokens in width 64, 4 draws: 2^16 activations a layer
SETTINGS = Settings(width=64, tokens=32, seeds=8, batch=1, draws=4, device="cpu")


@pytest.fixture
def six_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)


@pytest.mark.usefixtures("six_cores")
def test_long_work_fills_the_cores_and_short_work_is_done_here():
    assert fitting_processes(None, [{"N": 2048}], SETTINGS) == 6
    assert fitting_processes(None, [{"N": 1024}, {"N": 512, "M": 511}], SETTINGS) == 1
    assert fitting_processes(3, [{"N": 8}], SETTINGS) == 3


@pytest.mark.usefixtures("six_cores")
@pytest.mark.parametrize("threads", [1, 4, 12])
def test_what_takes_many_threads_takes_as_many_fewer_processes(monkeypatch, threads):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    large = Settings(width=4096, heads=4, tokens=512, seeds=8, draws=4, device="cpu")
    assert fitting_processes(None, [{"N": 64}], large) == max(1, 6 // threads)


def test_a_measurement_starts_no_process_by_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "loky", None)  # pools are made of it
    assert verify("adam", depths="1,2", width=4, heads=1, tokens=3, seeds=2, draws=1).points
