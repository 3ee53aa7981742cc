"""Branches in parallel on one residual sum: what is built, kept in files, and refused."""

import json
from dataclasses import replace

import pytest
import torch

from deepnet_theory.numeric.trace import take_trace
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.runtime import build
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.placement import placements

F64 = torch.float64


@pytest.fixture
def make_constants(constants):
    return constants


def parallel(constants):
    """The same constants, the branches of a layer on one sum."""
    parts = tuple(
        replace(p, sublayers=tuple(replace(s, parallel=i > 0) for i, s in enumerate(p.sublayers)))
        for p in constants.parts
    )
    return replace(constants, parts=parts)


def drawn(constants):
    return build(constants, dtype=F64, generator=torch.Generator().manual_seed(0))


# learnt, and not next to the branch; or several streams
APART = {"res-post-gain", "sandwich-gain", "stream-scalar"} | {
    name for name, one in placements().items() if one.streams
}


@pytest.mark.parametrize("placement", sorted(APART))
def test_parallel_branches_share_no_other_multiplier_and_no_several_streams(
    make_constants, placement
):
    with pytest.raises(InputError, match="parallel branches are built for"):
        drawn(parallel(make_constants(placement=placement)))


@pytest.mark.parametrize("placement", sorted(placements().keys() - APART))
def test_a_sum_of_branches_is_the_placements_equation_with_both(make_constants, placement):
    constants = parallel(make_constants(placement=placement))
    model = drawn(constants)
    where, x = placements()[placement], torch.randn(2, 5, 16, dtype=F64)
    for layer in model.parts["encoder"].layers:
        first, last = layer
        assert len(first.norms) + where.normalises_sum == len(last.norms) == len(where.places)
        times, _ = where.coefficients(first.alpha)
        if where.normalises_sum:
            want = last.norms[0](times * x + first.branch(x) + last.branch(x))
        else:  # each adds what it adds to a stream alone
            want = x + (first(x) - x) + (last(x) - x)
        torch.testing.assert_close(layer(x), want, rtol=0, atol=1e-12)


def test_a_decoder_in_parallel_generates_what_it_computes_at_once(make_constants):
    model = drawn(parallel(make_constants("decoder", "pre-ln")))
    tokens = model.generate(torch.tensor([[3, 1, 4]]), 4)
    assert torch.equal(tokens[:, 3:], model(tokens).argmax(-1)[:, 2:-1])


def test_only_parallel_constants_say_so_and_they_come_back_from_a_file(make_constants):
    sequence = make_constants()
    assert "parallel" not in sequence.to_json()
    joined = parallel(sequence)
    assert Constants.from_json(joined.to_json()) == joined != sequence
    told = json.loads(joined.to_json())["parts"][0]
    assert [s.get("parallel") for s in told["sublayers"]] == [None, True]
    assert joined.parts[0].described() == "attention+ffn"


WRONG = {
    "nothing to join": (lambda s: (replace(s[1], parallel=True), s[0]), "has no sum to join"),
    "two alphas": (
        lambda s: (s[0], replace(s[1], parallel=True, alpha=2.0)),
        "the branches of one residual sum have one alpha, not 1.7 and 2.0",
    ),
    "a number": (lambda s: (s[0], replace(s[1], parallel=1)), "parallel must be a boolean"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sum_that_cannot_be_is_refused_in_a_sentence(make_constants, name):
    change, why = WRONG[name]
    (part,) = (constants := make_constants()).parts
    with pytest.raises(InputError, match=why):
        replace(constants, parts=(replace(part, sublayers=change(part.sublayers)),))


@pytest.mark.parametrize("placement", ["pre-ln", "post-ln"])
def test_two_branches_move_the_output_as_a_sequence_does_to_first_order(make_constants, placement):
    """Of equal weights: the difference falls as r² where what the branches add falls as r."""
    x = torch.nn.functional.layer_norm(torch.randn(2, 5, 16, dtype=F64), (16,), eps=0.0)
    apart, added = [], []
    for scale in (1.0, 0.5):
        beta = 0.1 * scale**0.5  # r is as its square
        constants = make_constants(placement=placement, beta=beta)
        sequence, joined = drawn(constants), drawn(parallel(constants))
        for own, other in zip(joined.residuals(), sequence.residuals(), strict=True):
            own.branch.load_state_dict(other.branch.state_dict())
        with torch.no_grad():
            still = drawn(replace(constants, parts=tuple(
                replace(p, sublayers=tuple(replace(s, beta=1e-9) for s in p.sublayers))
                for p in constants.parts)))  # fmt: skip
            apart.append((joined.body(x) - sequence.body(x)).norm())
            added.append((sequence.body(x) - still.body(x)).norm())
    assert apart[0] / apart[1] == pytest.approx(4, rel=0.1)
    assert added[0] / added[1] == pytest.approx(2, rel=0.1)


def test_a_trace_takes_each_branch_beside_the_stream_that_both_read():
    from deepnet_theory.numeric.case import Case
    from deepnet_theory.numeric.settings import Settings
    from deepnet_theory.sizes.rule import solve_rule
    from deepnet_theory.sizes.table import texts
    from deepnet_theory.spec.selection import Selection

    small = Settings(width=16, heads=2, tokens=8, seeds=2, device="cpu")
    for where in ("pre-ln", "post-ln"):
        weights = []
        for layer in ("attention,ffn", "attention+ffn"):
            chosen = Selection("adam", placement=where, layer=layer)
            case = Case(chosen, texts(solve_rule(chosen)), {"N": 16}, small)
            weights.append(take_trace(Trial(case)).over_sublayers("branch_weight"))
        torch.testing.assert_close(*weights, rtol=0.2, atol=0)
