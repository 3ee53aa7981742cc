"""Patterns of parameter names: what they generalise, what they match, what they refuse."""

import re
import string
from fnmatch import fnmatchcase

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from written_models import GPT, post

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.trainers.patterns import WRAPPERS, generalised, glob, names, patterns_of

IDS = torch.randint(61, (2, 16), generator=torch.Generator().manual_seed(0))
WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=3)
NAMES = st.lists(st.one_of(WORDS, st.integers(0, 11).map(str)), min_size=1, max_size=5).map(
    ".".join
)
NUMBERED = st.dictionaries(NAMES, st.integers(0, 2), min_size=1, max_size=12)


def constants(model, placement="pre-ln", **given):
    rule = dt.Selection("adamw", placement=placement, stack="decoder", closure="complete")
    return dt.export(rule, len(model.h), width=32, heads=4, vocab=61, **given)


@settings(max_examples=25)
@given(NUMBERED)
def test_each_name_is_found_by_one_pattern_and_it_has_its_value(numbers):
    made = generalised(numbers)
    assert set(made) == set(numbers.values())
    for name, value in numbers.items():
        assert [v for v, own in made.items() if re.search(names(*own), name)] == [value]
        assert [v for v, own in made.items() if re.match(names(*own), name)] == [value]


@settings(max_examples=25)
@given(NUMBERED, st.data())
def test_wrappers_change_no_pattern(numbers, data):
    made = generalised(numbers)
    for name, value in numbers.items():
        words = []
        for word in name.split("."):
            words += [*data.draw(st.lists(st.sampled_from(WRAPPERS), max_size=2)), word]
        prefix = data.draw(st.sampled_from(["", "module.", "module.module."]))
        written = prefix + ".".join(words)
        assert [v for v, own in made.items() if re.search(names(*own), written)] == [value]


@settings(max_examples=25)
@given(NUMBERED, st.sampled_from(("", *WRAPPERS)), st.sampled_from((-1, 1)))
def test_a_shell_pattern_matches_its_own_names_alone(numbers, wrapper, count):
    made = generalised(numbers)
    known = [name for own in made.values() for name in own]
    for template in known:
        try:
            pattern = glob(template, numbers)
        except Refusal:
            continue
        for name in numbers:
            written = name.replace(".", f".{wrapper}." if wrapper else ".", count)
            own = bool(re.search(names(template), name))
            assert fnmatchcase(written, pattern) == own, (pattern, written)


def test_a_name_that_ends_others_has_no_shell_pattern():
    numbers = {"norm.weight": 0, "h.0.norm.weight": 1, "h.1.norm.weight": 1}
    assert glob("h.#.norm.weight", numbers) == "*h.*norm.*weight"
    with pytest.raises(Refusal, match=r"for norm.weight matches h\.0\."):
        glob("norm.weight", numbers)


def test_layers_that_differ_keep_their_indices():
    numbers = {f"h.{i}.q.weight": i == 0 for i in range(3)}
    numbers |= {f"h.{i}.mlp.{at}.weight": at for i in range(3) for at in (3, 5)}
    made = generalised(numbers)
    assert made[True] == ("h.0.q.weight",) and made[False] == ("h.1.q.weight", "h.2.q.weight")
    assert made[3] == ("h.#.mlp.3.weight",) and made[5] == ("h.#.mlp.5.weight",)


def test_a_compiled_model_is_read_as_what_it_compiles():
    model = GPT()
    compiled = nn.Module()
    compiled._orig_mod = model
    made = patterns_of(compiled, constants(model), 1.0, inputs=IDS)
    assert made.rows == patterns_of(GPT(), constants(model), 1.0, inputs=IDS).rows


def test_a_tied_matrix_has_one_name():
    model = GPT(tied=True)
    made = patterns_of(model, constants(model, tied_head=True), 1.0, inputs=IDS)
    rates = {name: row.lr for row in made.rows for name in row.names}
    assert rates["wte.weight"] == 1.0 and "lm_head.weight" not in rates
    assert any("logits = logits *" in line for line in made.lines)


def test_alpha_is_a_line_where_the_placement_has_one():
    model = GPT(line=post, final=False)
    made = patterns_of(model, constants(model, placement="post-ln"), 1.0, inputs=IDS)
    alpha = constants(model, placement="post-ln").parts[0].sublayers[0].alpha
    assert f"x = norm({alpha:.6g}*x + branch(x))  # attention of the decoder" in made.lines
