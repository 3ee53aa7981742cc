"""Values where they stand, and the sentences of what is not in them."""

import pickle

import pytest

from deepnet_theory.definitions.discovery import KINDS, Folder, choose, declared, names
from deepnet_theory.definitions.optimizer import OPTIMIZERS, Optimizer
from deepnet_theory.definitions.outcome import LONGEST_SENTENCE, InputError, short, shown, unknown
from deepnet_theory.definitions.placement import PLACEMENTS
from deepnet_theory.definitions.record import require_seed
from deepnet_theory.definitions.scheme import SCHEMES
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import SUBLAYERS, Norm

GOOD = """
from deepnet_theory.definitions.optimizer import Optimizer
MINE = Optimizer(name="my-rule", update="-eta*g*norm(theta)")
"""


def folder(tmp_path, **files):
    for name, content in files.items():
        (tmp_path / f"{name}.py").write_text(content, encoding="utf-8")
    return Folder(tmp_path, Optimizer)


def test_adding_one_file_is_enough_and_it_is_loaded_when_its_value_is_asked_for(tmp_path):
    nameless = GOOD.replace('name="my-rule", ', "")
    found = folder(tmp_path, broken="raise RuntimeError", my_rule=GOOD, nameless=nameless)
    assert [*found] == ["broken", "my-rule", "nameless"] and "broken" in found
    assert [found[name].name for name in ("my-rule", "nameless")] == ["my-rule", "nameless"]
    assert found["my-rule"].expression.names == {"eta", "g", "theta"}
    with pytest.raises(InputError, match="valid are: broken, my-rule, nameless"):
        choose("optimizer", "other", found)
    for values in (OPTIMIZERS, PLACEMENTS, SCHEMES, SUBLAYERS):
        assert values and all(value.name == name for name, value in values.items())


@pytest.mark.parametrize(
    "content",
    [
        "",
        "X = 1",
        GOOD.replace('"my-rule"', '"other"'),
        GOOD + "ANOTHER = Optimizer(name='second', update='-eta*g')\n",
        "raise RuntimeError('broken')",
    ],
)
def test_an_irregular_file_raises(tmp_path, content):
    with pytest.raises((TypeError, RuntimeError)):
        dict(folder(tmp_path, my_rule=content))


def test_a_constant_bears_the_name_of_its_value():
    norms = {"MY_NORM": Norm("my-norm", centred=True, bias=False), "EPSILON": 1e-5, "Norm": Norm}
    assert declared(norms, Norm) == {"my-norm": norms["MY_NORM"]}
    with pytest.raises(TypeError, match="OTHER: its Norm is named 'my-norm'"):
        declared({"OTHER": norms["MY_NORM"]}, Norm)


def test_an_unknown_name_lists_the_valid_ones_and_one_of_another_kind_is_said_to_be_one():
    with pytest.raises(InputError, match=r"unknown optimizer 'adamm'; valid are: .*adam.*sgd"):
        choose("optimizer", "adamm", OPTIMIZERS)
    for name, kind in (("Post-LN", "placements"), ("rms", "norms"), ("deepnorm", "schemes")):
        with pytest.raises(InputError, match=f"'{name}' is one of the {kind}$"):
            choose("optimizer", name, OPTIMIZERS)
    assert all(names(kind) for kind in KINDS)


def test_what_is_too_long_is_shortened_and_what_is_not_is_kept():
    assert short("as it is, 12345") == "as it is, 12345"
    told = str(InputError(f"seed {'7' * 5000} is not valid; valid are: 0 to 9"))
    assert shown(10**5000) == "of type int, too large to show" and shown("x") == "'x'"
    assert len(told) < 300 and told.endswith("7 is not valid; valid are: 0 to 9")
    assert "4880 characters" in told
    assert len(short("a b " * 5000)) < LONGEST_SENTENCE
    assert str(InputError("two\n  lines")) == "two lines"
    assert str(pickle.loads(pickle.dumps(InputError(told)))) == told


def test_the_nearest_name_is_offered_where_one_is_near():
    for typed, meant in (("adamm", "adam"), ("Adan", "adam"), ("lam", "lamb")):
        with pytest.raises(InputError, match=f"; did you mean {meant!r}\\?$"):
            Selection(optimizer=typed)
    assert "did you mean" not in str(unknown("optimizer", "xyz", ["adam", "sgd"]))


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
