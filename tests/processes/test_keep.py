"""Finished work is found again under all that it depends on, and is numbers alone."""

import json
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.cli import main
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.processes.jobs import Job, run_jobs
from deepnet_theory.processes.keep import MISSING, Cache, cache_of, digest, machine, sources


@dataclass(frozen=True)
class Point:
    depth: int
    sizes: tuple[float, ...]
    why: str | None = None


@dataclass(frozen=True)
class Found:
    first: Point
    others: dict[str, Point]


FOUND = Found(Point(1, (0.1, float("inf"))), {"a": Point(2, (1 / 3,), "ended")})


def measured() -> Found:
    return FOUND


def test_a_result_comes_back_as_it_was(tmp_path):
    cache, came = Cache(tmp_path), []
    job = Job("one", 1, partial(measured), came.append, depends_on=("work", 1))
    for _ in range(2):
        run_jobs([job], 1, cache=cache)
    assert came == [FOUND, FOUND] and (cache.asked, cache.taken) == (2, 1)
    run_jobs([replace(job, depends_on=("work", 2))], 1, cache=cache)
    run_jobs([replace(job, depends_on=None)], 1, cache=cache)
    run_jobs([replace(job, depends_on=3, lasting=lambda _: False)], 1, cache=cache)
    assert cache.taken == 1 and len(cache.files()) == 2
    for file in cache.files():  # numbers and words: nothing in the folder is run
        assert json.loads(file.read_text(encoding="utf-8"))["others"]["a"]["depth"] == 2


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '{"first": 1, "others": {}}', "\ud800"])
def test_what_is_no_result_counts_as_none(tmp_path, text):
    cache = Cache(tmp_path)
    cache.put("work", FOUND)
    (file,) = cache.files()
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert cache.get("work", Found) is MISSING
    cache.put("work", FOUND)
    assert cache.get("work", Found) == FOUND


POINTS = st.builds(
    Point, st.integers(), st.lists(st.floats(allow_nan=False)).map(tuple), st.none() | st.text()
)
RESULTS = st.builds(Found, POINTS, st.dictionaries(st.text(), POINTS))


@settings(max_examples=30)
@given(RESULTS, RESULTS)
def test_what_is_kept_is_found_under_its_name_as_it_was(one, other):
    assert (digest(one) == digest(other)) == (repr(one) == repr(other))
    with TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        cache.put(other, other)
        cache.put(one, one)
        assert repr(cache.get(one, Found)) == repr(one)
        assert repr(cache.get(other, Found)) == repr(other)


def test_names_tell_apart_what_differs():
    values = [1, 1.0, True, "1", None, [1], {"a": 1}, measured, Found, partial(measured, 1)]
    assert len({*map(digest, values)}) == len(values)
    for nothing in (lambda: 1, object()):  # their names say nothing of what they do
        with pytest.raises(TypeError):
            digest(nothing)


def test_the_name_holds_the_code_of_the_package_and_of_a_folder(tmp_path):
    assert len(machine()["deepnet-theory"].split()[1]) == 64 and machine()["cuda"]
    (tmp_path / "one.py").write_text("A = 1")
    before = sources(tmp_path)
    (tmp_path / "notes.txt").write_text("1")
    assert sources(tmp_path) == before
    (tmp_path / "one.py").write_text("A = 2")
    assert sources(tmp_path) != before


def test_a_cache_that_is_cleared_loses_its_results_and_no_other_file(tmp_path):
    (mine := tmp_path / "mine.json").write_text("1")
    with pytest.raises(InputError, match="cannot keep anything in"):
        cache_of(mine)
    cache = cache_of(tmp_path)
    cache.put(1, FOUND)
    assert cache_of(tmp_path).get(1, Found) == FOUND
    cache.clear()
    assert cache.files() == [] and mine.exists() and cache_of(False) is None


def test_a_user_without_a_home_keeps_nothing(monkeypatch, capsys):
    """As in containers: a number without a name."""
    for name in ("HOME", "XDG_CACHE_HOME", "DEEPNET_THEORY_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    for what in ("show", "clear"):
        assert main(["cache", what]) == 0
        assert "nothing is kept" in capsys.readouterr().out
