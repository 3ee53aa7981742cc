"""The published parametrisations are data that parses, and says nothing of what it does."""

from dataclasses import replace

import pytest

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.parametrisation import (
    CLASSES,
    SIZES,
    Column,
    parametrisation,
    parametrisations,
    said,
)
from deepnet_theory.definitions.scheme import schemes

EVERY = list(parametrisations().values())


def test_the_folder_holds_what_its_files_say():
    assert len(EVERY) >= 20
    assert all(p.source and p.summary and p.columns for p in EVERY)


def test_a_class_that_is_not_named_belongs_to_the_one_beside_it():
    given = parametrisation("nanochat")
    assert said(given.init, "residual-output") == "0"
    assert said(given.init, "hidden") == "d**(-1/2)"
    assert said(parametrisation("mup").init, "residual-output") == "d**(-1/2)"
    assert said(given.columns[1].rate, "hidden") is None


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"init": {"matrix": "1"}}, "unknown class of parameters 'matrix'; valid are: embedding"),
        ({"init": {"hidden": "1/n"}}, "'n' is not known"),
        ({"branch": "1/L"}, "'L' is not known"),
        ({"multiplier": {"head": "exec(1)"}}, "exec"),
    ],
)
def test_a_fact_that_names_what_is_not_there_is_refused(wrong, sentence):
    with pytest.raises(InputError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        replace(parametrisation("mup"), **wrong)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"optimizer": "adamm"}, "unknown optimizer 'adamm'"),
        ({"alignment": "some"}, "unknown alignment 'some'; valid are: full, none"),
        ({"decay": {"hidden": "d"}}, "a weight decay and how it is applied are given together"),
        ({"decays": "decoupled"}, "a weight decay and how it is applied are given together"),
        ({"decay": {"hidden": "d"}, "decays": "both"}, "unknown decays 'both'; valid are: dec"),
    ],
)
def test_a_column_that_names_what_is_not_there_is_refused(wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        Column(**{"optimizer": "adam", "rate": {"hidden": "1/d"}, **wrong})


@pytest.mark.parametrize("name", sorted(set(schemes()) & set(parametrisations())))
def test_what_stands_in_both_dimensions_says_the_same_of_the_depth(name):
    """N's power in ε is written twice, once beside the depth's equation, once beside the width."""
    deep, wide = schemes()[name], parametrisations()[name]
    beside = {"hidden": "scaled", "gain": "norm-gain", "bias": "output-bias"}
    for of, role in beside.items():
        for text in (wide.columns[0].epsilon.get(of), deep.epsilon.get(role)):
            assert (text is None) == (role not in deep.epsilon)
        if role in deep.epsilon:
            ratio = SIZES.parse(f"({wide.columns[0].epsilon[of]})/({deep.epsilon[role]})")
            assert power_of_depth(ratio) == 0
    if wide.branch != "1" and "l" not in deep.parts[0].alpha:
        assert power_of_depth(SIZES.parse(f"({wide.branch})*({deep.parts[0].alpha})")) == 0


def power_of_depth(expression):
    from math import log

    from deepnet_theory.definitions.expression import evaluate

    return round(log(evaluate(expression, d=7, N=64) / evaluate(expression, d=7, N=8), 8), 9)


def test_every_class_is_spoken_of_somewhere():
    spoken = {of for p in EVERY for c in p.columns for of in (*p.init, *c.rate, *c.epsilon)}
    assert spoken == set(CLASSES)
