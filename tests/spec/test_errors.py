"""Sentences: what a user gave is restated as far as it can be read; the nearest name is offered."""

import pickle

import pytest

from deepnet_theory.spec.discovery import choose
from deepnet_theory.spec.errors import LONGEST_SENTENCE, InputError, short, shown, unknown
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.selection import Selection


def test_what_is_too_long_is_shortened_and_what_is_not_is_kept():
    assert short("as it is, 12345") == "as it is, 12345"
    told = str(InputError(f"seed {'7' * 5000} is not valid; valid are: 0 to 9"))
    assert len(told) < 300 and told.endswith("7 is not valid; valid are: 0 to 9")
    assert "4880 characters" in told
    assert len(short("a b " * 5000)) < LONGEST_SENTENCE
    assert str(InputError("two\n  lines")) == "two lines"
    assert str(pickle.loads(pickle.dumps(InputError(told)))) == told


def test_what_python_cannot_write_is_shown_by_its_type():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(10**5000) == "of type int, too large to show"
    assert shown(deep) == "of type list, too large to show"
    assert shown("x") == "'x'"


@pytest.mark.parametrize(("typed", "meant"), [("adamm", "adam"), ("Adan", "adam"), ("lam", "lamb")])
def test_the_nearest_name_is_offered(typed, meant):
    with pytest.raises(InputError, match=f"; did you mean {meant!r}\\?$"):
        Selection(optimizer=typed)


def test_where_no_name_is_near_none_is_offered():
    assert "did you mean" not in str(unknown("optimizer", "xyz", ["adam", "sgd"]))
    for value in (5, [], None, 10**5000):
        with pytest.raises(InputError, match="unknown optimizer"):
            choose("optimizer", value, {"adam": 1})


def test_a_selection_of_something_that_is_no_name_and_a_bad_seed_are_refused():
    for name in ("stack", "placement", "norm", "method", "closure", "layer"):
        for value in (5, [], {}, 10**5000):
            with pytest.raises(InputError):
                Selection(optimizer="adam", **{name: value})
    for good in (0, 1, 2**31 - 1):
        require_seed(good)
    for bad in (-1, 2**31, 1.0, True, "1", None):
        with pytest.raises(InputError, match=f"seed {bad!r}"):
            require_seed(bad)
