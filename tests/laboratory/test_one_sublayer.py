"""What stands for a stack: sampled layers between blocks, their places, and shares of ΔF."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from published_rules import SMALL, SU, rule

from deepnet_theory.definitions.placement import PLACEMENTS
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.scheme import measurable, scheme
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.judging import power_deep_down
from deepnet_theory.laboratory.model_update import measure_model_update
from deepnet_theory.laboratory.one_sublayer import places_in, predict_depth, predict_shares
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.statistics import positive_interval
from deepnet_theory.laboratory.trial import Case, Sampled, Trial, _standing_for
from deepnet_theory.laboratory.verify import cases_of, predict

LAB = Settings(width=32, heads=2, tokens=8, seeds=6, draws=2)
PLAIN = own_rule(("encoder",), "1", "1")
BETA = "(2*N)**(-1/4)"


def sampled(given, layers, *places, **more):
    return Sampled(Selection("adam"), given, {"N": layers}, SMALL, *places, **more)


def of_scheme(name):
    given = scheme(name)
    selection, rules = measurable(given, "adam", None)
    return Case(selection, rules, {"N": 14}, LAB, scheme=given)


def test_it_costs_the_same_at_any_depth():
    stacks = [Trial(sampled(rule("adam"), layers)) for layers in (8, 10_000)]
    assert [len(list(stack.model.residuals())) for stack in stacks] == [10, 10]
    assert torch.equal(*(next(stack.model.parameters()) for stack in stacks))


def test_blocks_stand_for_as_many_layers_as_are_left_out():
    case = sampled(rule("adam"), 14, (0.25, 0.5))
    groups = list(case.groups(14))
    assert [g.copy for g in groups] == [None, 0, None, 1, None]
    assert [g.layers for g in groups] == [3, 1, 3, 1, 6]
    copies = {d.layer: case.copy_of(d) for _, d in Trial(case).parameters()}
    assert [copies[layer] for layer in range(5)] == [None, 0, None, 1, None]
    assert not of_scheme("modula").alike and not of_scheme("admin").alike
    for layers in (1, 2):  # these are the stack itself
        case = sampled(rule("adam"), layers)
        assert len(case.layers(case.constants.parts[0])) == layers


OF_ALPHA = [name for name, where in PLACEMENTS.items() if "alpha" in where.expression.names]
GIVEN = own_rule(("encoder",), "2*N", "1/2"), {"N": 14}, SMALL


@given(st.sampled_from(["u-mup", "ngpt", *OF_ALPHA]), st.floats(2, 100))
def test_the_branch_of_a_block_is_as_the_root_of_its_layers_in_every_form_of_the_sum(name, layers):
    is_ruled = name in OF_ALPHA
    case = Case(Selection("adam", placement=name), *GIVEN) if is_ruled else of_scheme(name)
    one = case.layer(case.constants.parts[0], 7)[0]

    def weights(placed):
        """Of the stream and of the branch; a norm behind a branch forgets the gain in it."""
        stream, branch = placed.placement.coefficients(placed.constants.alpha)
        forgets = "output" in placed.placement.norms
        return stream, branch * (1.0 if forgets else placed.constants.gain("output"))

    (stream, branch), (x, y) = weights(one), weights(_standing_for(one, layers))
    assert y / x == pytest.approx(math.sqrt(layers) * branch / stream)
    assert name != "u-mup" or x * x + y * y == pytest.approx(1)  # which its α is made for


@given(st.integers(1, 50), st.data())
def test_two_places_come_with_their_mirror_image(draws, data):
    (u, v), (first, second) = places_in(data.draw(st.integers(0, draws - 1)), draws)
    assert 0 <= u <= v <= 1 and (first, second) == pytest.approx((1 - v, 1 - u))


def test_places_are_spread_over_all_pairs():
    pairs = np.array([pair for draw in range(16) for pair in places_in(draw, 16)])
    u, v = pairs.T
    for expected, moment in ((1 / 3, v - u), (1, u + v), (1 / 4, u * v), (2 / 3, u * u + v * v)):
        assert moment.mean() == pytest.approx(expected, abs=0.005)


def test_copies_see_the_same_data_with_branches_of_their_own(adam):
    case = Case(adam, rule("adam"), {"N": 2}, SMALL)
    plain, copied = Trial(case), Trial(case, copies=3)
    assert copied.seeds == 3 * plain.seeds
    for ours, theirs in zip(copied.inputs, plain.inputs, strict=True):
        assert torch.equal(ours, theirs.repeat_interleave(3, 0))
    assert torch.equal(copied.model.head.weight[::3], plain.model.head.weight)
    value = next(copied.model.residuals()).branch.value.weight
    assert not torch.equal(value[0], value[1])


def test_a_prediction_has_its_seeds_interval_and_says_how_far_it_reaches(adam):
    lab = replace(LAB, seeds=2, draws=1)
    (warning,) = predict(cases_of(adam, PLAIN, [{"N": 8}], lab)).provenance.warnings
    assert "not near the identity" in warning
    near = predict(cases_of(adam, rule("adam"), [{"N": 8}], lab))
    (point,) = near.points
    assert not near.provenance.warnings
    sizes = predict_depth(Case(adam, rule("adam"), {"N": 8}, lab))["all"].values
    assert positive_interval(sizes).numbers == (point.mean, point.low, point.high)
    long = Selection(optimizer="adam", layer=",".join(["ffn"] * 13))
    assert predict_depth(Case(long, rule("adam"), {"N": 4}, SMALL))["all"].mean > 0


def test_shares_are_those_of_every_kind_and_bound_the_whole(adam):
    case = Case(adam, rule("adam"), {"N": 8}, replace(LAB, draws=1))
    shares = {key: of.values for key, of in predict_shares(case).items()}
    names = [f"attention {name}" for name in ("query", "key", "value", "output")]
    assert list(shares) == [f"encoder {name}" for name in (*names, "ffn fc1", "ffn fc2")]
    whole = measure_model_update(case)
    sizes = np.array(list(shares.values())).mean(1)
    assert sizes.max() < np.mean(whole) < sizes.sum()
    alone = measure_model_update(case, chosen=lambda d: d.name == "fc2")
    assert np.mean(shares["encoder ffn fc2"]) == pytest.approx(np.mean(alone), rel=0.05)
    for layer, last in (("attention-qk-norm+ffn", "fc2"), ("ffn-swiglu", "down")):
        other = Case(Selection("adam", layer=layer), rule("adam"), {"N": 4}, SMALL)
        found = predict_shares(other)
        assert list(found)[-1].endswith(last) and all(one.mean > 0 for one in found.values())
    # THEORY: queries and keys matter little for Adam's own rule
    assert max(shares["encoder attention query"]) < min(shares["encoder attention value"])


def test_a_power_that_leads_later_is_found_deep_down(adam):
    """Under ‖θ‖² sign(g) query and key grow as N^{1/4}, and are a small part at first."""

    def deep_down(selection, given):
        return power_deep_down(Case(selection, given, {"N": 64}, SMALL), "N")

    squared = Selection(update="-eta*norm(theta)**2*sign(g)")
    found = deep_down(squared, own_rule(("encoder",), "(2*N)**(1/4)", BETA))
    assert found == pytest.approx(0.25, abs=0.05)
    assert deep_down(adam, rule("adam")) == pytest.approx(0, abs=0.05)
    assert deep_down(adam, PLAIN) is None  # far from the identity


# ---- beside what real stacks do: every kind of stack ----

ALL = replace(LAB, step="all", data="gaussian:0.5")
PAIR = own_rule(("encoder", "decoder"), "N**(1/4)", "N**(-1/4)", "M**(1/4)", "M**(-1/4)")
LAMB, BLUNT = SU["lamb"], 0.2  # a standard error that shows nothing


def stack(optimizer, knobs, settings=LAB, **select):
    return Case(Selection(optimizer, **select), own_rule(("encoder",), *knobs), {"N": 12}, settings)


FAST = {
    "adam": stack("adam", SU["adam"]),
    "a pair": Case(Selection("sgd", stack="encoder-decoder"), PAIR, {"N": 10, "M": 8}, LAB),
    "parallel": stack("adam", LAMB, placement="pre-ln", layer="attention+ffn:swiglu"),
}
CASES = FAST | {
    "sgd": stack("sgd", SU["sgd"]),
    "lamb": stack("lamb", LAMB),
    "lion": stack("lion", ("1", "(2*N)**-1"), ALL, placement="pre-ln"),
    "muon": stack("muon", ("2*N", "1"), ALL, placement="res-post-ln"),
    "swiglu": stack("adam", LAMB, ALL, layer="attention,ffn:swiglu"),
}


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in FAST]


@pytest.mark.parametrize("name", [*FAST, *SLOW])
def test_it_is_what_is_measured_of_a_real_stack(name):
    """Predicted over measured is 1: the mean over seeds of the same data, within its error."""
    case = CASES[name]
    measured = measure_model_update(case, draws=case.settings.draws)
    predicted = predict_depth(case)["all"].values
    logs = torch.tensor(predicted).log() - torch.tensor(measured).log()
    error = float(logs.std() / math.sqrt(len(logs)))
    assert error < BLUNT and abs(math.exp(logs.mean()) - 1) < 0.01 + 3 * error
