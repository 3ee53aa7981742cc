"""What is finished is found again, for the same question alone, whatever has become of its file."""

import errno
import os
import pickle
import random
import resource
import subprocess
import sys
import time
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.definitions.measurement import Predictions
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.model_update import measure_draw, measure_model_update
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.verify import verify
from deepnet_theory.processes import MISSING, Cache, cache_of
from deepnet_theory.processes import identity as identities
from deepnet_theory.processes.identity import identity

ADAM = Selection(optimizer="adam")
RULE = own_rule(("encoder",), "(2*N)**(1/2)", "(2*N)**(-1/2)")
TINY = Settings(width=8, heads=2, tokens=4, seeds=2, draws=1, device="cpu")

# values that a field of the settings may take, all of them valid beside any others
VALUES = {
    "width": st.sampled_from([8, 16, 24]),
    "heads": st.sampled_from([1, 2, 4]),
    "tokens": st.integers(1, 99),
    "batch": st.integers(1, 99),
    "seeds": st.integers(2, 99),
    "activation": st.sampled_from(["relu", "gelu", "silu"]),
    "step": st.sampled_from(["matrices", "all"]),
    "data": st.sampled_from(["text", "gaussian:0", "gaussian:0.5"]),
    "device": st.sampled_from(["auto", "cpu"]),
    "dtype": st.sampled_from(["float32", "float64"]),
    "seed": st.integers(0, 2**31 - 1),
    "draws": st.integers(1, 99),
    "ffn_ratio": st.sampled_from([0.5, 1.0, 4.0, 4]),
    "updates": st.integers(1, 99),
    "eta": st.floats(1e-9, 1.0, exclude_min=True),
}
SETTINGS = st.fixed_dictionaries(VALUES)


def job(settings):
    return partial(measure_model_update, Case(ADAM, RULE, {"N": 2}, Settings(**settings)))


def same(a, b):
    """Alike in value and in type: 4 and 4.0 are two questions."""
    return a == b and [*map(type, a.values())] == [*map(type, b.values())]


@given(SETTINGS, st.data())
def test_a_changed_setting_is_another_question_and_an_equal_one_is_not(settings, data):
    name = data.draw(st.sampled_from(sorted(VALUES)))
    changed = {**settings, name: data.draw(VALUES[name])}
    assert identity(job(settings)) == identity(job(dict(settings)))
    alike = same(settings, changed)
    assert (identity(job(settings)) == identity(job(changed))) is alike


OTHERS = (
    {"settings": replace(TINY, activation="silu")},
    {"selection": Selection(optimizer="sgd")},
    {"selection": Selection(optimizer="adam", placement="sandwich-ln")},
    {"selection": Selection(update="-eta*sign(g)*abs(g)**(1/2)")},
    {"rule": own_rule(("encoder",), "(2*N)**(1/2)", "(3*N)**(-1/2)")},
    {"depth": {"N": 2}},
)


def test_no_change_of_a_case_takes_a_stale_result():
    """Of settings this is the law above: all of them are in the identity of a case."""
    assert set(VALUES) == {field.name for field in fields(Settings)}
    case = Case(ADAM, RULE, {"N": 1}, TINY)
    cases = [case, *(replace(case, **other) for other in OTHERS)]
    assert len({identity(partial(measure_model_update, one)) for one in cases}) == len(cases)
    assert identity(partial(measure_draw, case)) != identity(partial(measure_model_update, case))


def found(settings, cache=None, depths=(1, 2)):
    asked = [{"N": n} for n in depths]
    result = verify(ADAM, RULE, Predictions(()), asked, settings, cache=cache)
    return result.points, result.exponents, result.checks


def test_another_version_machine_or_source_is_another_question(tmp_path):
    here = Cache(tmp_path / "cache")
    here.put("asked", 1)
    for name in ("torch", "deepnet-theory", "cpu", "gpu"):
        there = Cache(tmp_path / "cache")
        there._environment = {**here._environment, name: "other"}
        assert (here.get("asked"), there.get("asked")) == (1, MISSING)
    a, b = tmp_path / "a.py", tmp_path / "b.py"
    seen = set()
    for change in (
        lambda: (a.write_text("x = 1\n"), b.write_text("")),
        lambda: a.write_text("x = 2\n"),
        lambda: b.rename(tmp_path / "c.py"),
    ):
        change()
        seen.add(identities.sources(tmp_path))
    assert len(seen) == 3


def test_an_identity_is_the_same_in_every_process():
    code = (
        "from deepnet_theory.processes.identity import identity\n"
        "from deepnet_theory.definitions.selection import Selection\n"
        "from deepnet_theory.definitions.optimizer import optimizer\n"
        "print(identity((Selection(optimizer='lamb'), optimizer('adam'), {'a': 0.1, 'b': None})))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(seen) == 1


@pytest.mark.parametrize("value", [object(), lambda: 0, partial(lambda: 0), {1, 2}, Path("x")])
def test_what_has_no_known_identity_is_not_guessed(value):
    with pytest.raises(TypeError, match="identity"):
        identity(value)


def test_values_that_compare_equal_and_are_not_are_told_apart():
    values = [1, 1.0, True, "1", b"1", None, "None", [1], (1,), {1: 1}, [[1]], Verdict.PROVED, 0.0]
    values += [-0.0, [1, [2]], [1, 2], [[1], 2], "PROVED", {}, []]
    assert len({identity(value) for value in values}) == len(values)


def stored(cache):
    (file,) = cache.files()
    return file


def test_a_file_that_was_cut_short_or_changed_is_as_good_as_none(tmp_path):
    cache = Cache(tmp_path)
    result = {"a": (1.5, float("inf")), "b": [Verdict.SUPPORTED]}
    kind = dict[str, tuple[float, ...] | list[Verdict]]
    cache.put("asked", result)
    assert cache.get("asked", kind) == result
    whole = stored(cache).read_bytes()
    for length in range(0, len(whole), 3):
        stored(cache).write_bytes(whole[:length])
        assert cache.get("asked", kind) is MISSING
    for place in range(0, len(whole), 3):
        stored(cache).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert cache.get("asked", kind) is MISSING
    cache.put("asked", result)
    assert cache.get("asked", kind) == result


class Hostile:
    def __reduce__(self):
        return os.system, ("touch hostile",)


@pytest.mark.parametrize("content", [Hostile(), Path("x"), Cache, os.getcwd])
def test_a_file_runs_nothing(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    cache = Cache(tmp_path / "cache")
    cache.put("asked", content)
    pickle.loads(stored(cache).read_bytes()[32:])  # planted: an ordinary reader obeys it
    (tmp_path / "hostile").unlink(missing_ok=True)
    assert cache.get("asked") is MISSING
    assert not (tmp_path / "hostile").exists()


def contend(folder, number):
    """Write and read one result again and again; what is read that is not whole."""
    cache, broken = Cache(folder), 0
    for _ in range(100):
        cache.put("asked", [number] * 2000)
        seen = cache.get("asked")
        broken += not (seen is not MISSING and len(seen) == 2000 and len(set(seen)) == 1)
    return broken


@pytest.mark.skipif(not hasattr(os, "fork"), reason="writes in a copy of this process too")
def test_processes_that_write_at_once_leave_whole_results(tmp_path):
    Cache(tmp_path).put("asked", [0] * 2000)
    child = os.fork()
    if not child:
        os._exit(contend(tmp_path, 1))
    assert contend(tmp_path, 2) == 0
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(Cache(tmp_path).files())) == 1  # nothing begun is left


def test_a_full_disk_stops_no_work(tmp_path):
    cache = Cache(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))  # no file may grow further
    try:
        seen = found(TINY, cache)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.strerror(errno.EFBIG) in cache.trouble and "\n" not in cache.trouble
    assert not list(cache.files()) and seen == found(TINY)


def test_a_folder_of_other_files_is_refused_and_nothing_else_is_cleared(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="a folder of its own"):
        cache_of(tmp_path)
    cache = cache_of(tmp_path / "own")
    cache.put("asked", 1)
    mine = stored(cache).with_name("mine")
    mine.write_text("")
    (tmp_path / "own" / "notes").write_text("")
    assert cache_of(tmp_path / "own").clear() == 1
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [
        "CACHEDIR.TAG", "mine", "notes", "thesis.tex",
    ]  # fmt: skip
    for bad in ("", str(tmp_path / "thesis.tex"), "/dev/null", "x" * 400, "a\0b"):
        with pytest.raises(InputError, match="cannot keep anything in"):
            cache_of(bad)


def test_the_users_own_folder_is_where_the_environment_says(monkeypatch, tmp_path):
    assert cache_of(True) is None  # the tests' own setting
    monkeypatch.setenv("DEEPNET_THEORY_CACHE", str(tmp_path / "named"))
    assert cache_of(True).folder == tmp_path / "named"
    monkeypatch.delenv("DEEPNET_THEORY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_of(True).folder == tmp_path / "deepnet-theory"
    assert not list(tmp_path.iterdir())  # made when something is kept
    assert cache_of(None) is None and cache_of(False) is None


SWEEP = (1, 2, 3, 4)
THRICE = replace(TINY, draws=3)


def kept_in(cache):
    """How many results are there."""
    return sum(file.name[0] != "." for file in cache.files())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a copy of this process")
def test_a_sweep_that_is_killed_three_times_ends_as_an_undisturbed_one(tmp_path):
    undisturbed = found(THRICE, depths=SWEEP)
    draw, cache, kept = random.Random(0), Cache(tmp_path), [0]
    cache.get("the environment is looked at before")
    for _ in range(3):
        child = os.fork()
        if not child:
            try:
                found(THRICE, cache, depths=SWEEP)
            finally:
                os._exit(1)
        wanted = kept[-1] + draw.randint(1, 2)
        while kept_in(cache) < wanted and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.0002)
        time.sleep(draw.uniform(0, 0.005))  # anywhere within a job
        os.kill(child, 9)
        os.waitpid(child, 0)
        kept.append(kept_in(cache))
    assert kept == sorted(set(kept))  # nothing is lost, and it goes on
    assert found(THRICE, cache, depths=SWEEP) == undisturbed
    assert cache.taken == kept[-1] < kept_in(cache)  # nothing is done twice
