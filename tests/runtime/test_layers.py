"""Layers that are no plain sequence: branches in parallel, looped layers."""

import json
from dataclasses import replace

import pytest
import torch

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.placement import placements
from deepnet_theory.laboratory.trace import take_trace
from deepnet_theory.laboratory.trial import Trial
from deepnet_theory.runtime import build, load, save

F64 = torch.float64


# ------------------------------------------------------------------ branches in parallel


def parallel(made):
    """The same constants, the branches of a layer on one sum."""
    parts = tuple(
        replace(p, sublayers=tuple(replace(s, parallel=i > 0) for i, s in enumerate(p.sublayers)))
        for p in made.parts
    )
    return replace(made, parts=parts)


def drawn(made, **more):
    return build(made, dtype=F64, generator=torch.Generator().manual_seed(0), **more)


APART = {"res-post-gain", "sandwich-gain", "stream-scalar"}  # learnt, not next to the branch


@pytest.mark.parametrize("placement", sorted(APART))
def test_parallel_branches_share_no_other_multiplier(constants, placement):
    with pytest.raises(InputError, match="parallel branches are built for"):
        drawn(parallel(constants(placement=placement)))


@pytest.mark.parametrize("placement", sorted(placements().keys() - APART))
def test_a_sum_of_branches_is_the_placements_equation_with_both(constants, placement):
    model = drawn(parallel(constants(placement=placement)))
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


def test_a_decoder_in_parallel_generates_what_it_computes_at_once(constants):
    model = drawn(parallel(constants("decoder", "pre-ln")))
    tokens = model.generate(torch.tensor([[3, 1, 4]]), 4)
    assert torch.equal(tokens[:, 3:], model(tokens).argmax(-1)[:, 2:-1])


def test_only_parallel_constants_say_so_and_they_come_back_from_a_file(constants):
    sequence = constants()
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
def test_a_sum_that_cannot_be_is_refused_in_a_sentence(constants, name):
    change, why = WRONG[name]
    (part,) = (made := constants()).parts
    with pytest.raises(InputError, match=why):
        replace(made, parts=(replace(part, sublayers=change(part.sublayers)),))


@pytest.mark.parametrize("placement", ["pre-ln", "post-ln"])
def test_two_branches_move_the_output_as_a_sequence_does_to_first_order(constants, placement):
    """Of equal weights: the difference falls as r² where what the branches add falls as r."""
    x = torch.nn.functional.layer_norm(torch.randn(2, 5, 16, dtype=F64), (16,), eps=0.0)
    apart, added = [], []
    for scale in (1.0, 0.5):
        beta = 0.1 * scale**0.5  # r is as its square
        made = constants(placement=placement, beta=beta)
        sequence, joined = drawn(made), drawn(parallel(made))
        for own, other in zip(joined.residuals(), sequence.residuals(), strict=True):
            own.branch.load_state_dict(other.branch.state_dict())
        with torch.no_grad():
            still = drawn(replace(made, parts=tuple(
                replace(p, sublayers=tuple(replace(s, beta=1e-9) for s in p.sublayers))
                for p in made.parts)))  # fmt: skip
            apart.append((joined.body(x) - sequence.body(x)).norm())
            added.append((sequence.body(x) - still.body(x)).norm())
    assert apart[0] / apart[1] == pytest.approx(4, rel=0.1)
    assert added[0] / added[1] == pytest.approx(2, rel=0.1)


def test_a_trace_takes_each_branch_beside_the_stream_that_both_read():
    from deepnet_theory.definitions.selection import Selection
    from deepnet_theory.laboratory.case import Case
    from deepnet_theory.laboratory.settings import Settings
    from deepnet_theory.sizes.rule import solve_rule
    from deepnet_theory.sizes.table import texts

    small = Settings(width=16, heads=2, tokens=8, seeds=2, device="cpu")
    for where in ("pre-ln", "post-ln"):
        weights = []
        for layer in ("attention,ffn", "attention+ffn"):
            chosen = Selection("adam", placement=where, layer=layer)
            case = Case(chosen, texts(solve_rule(chosen)), {"N": 16}, small)
            weights.append(take_trace(Trial(case)).over_sublayers("branch_weight"))
        torch.testing.assert_close(*weights, rtol=0.2, atol=0)


# ------------------------------------------------------------------ layers that are looped


SIZES = {"width": 16, "heads": 2, "vocab": 32}


def exported(optimizer="sgd", uses="N/2", depth=6, **more):
    answer = dt.Selection(optimizer, uses=uses, **more)
    return dt.export(answer, depth=depth, **SIZES)


def test_constants_say_how_often_a_layer_is_used_and_come_back_from_a_file():
    shared = exported()
    assert shared.parts[0].uses == 3
    assert Constants.from_json(shared.to_json()) == shared
    assert '"uses": 3' in shared.to_json() and shared.origin["select"]["uses"] == "N/2"
    assert '"uses"' not in exported(uses="1").to_json()
    with pytest.raises(InputError, match="6 layers cannot be layers that are used 4 times"):
        replace(shared, parts=(replace(shared.parts[0], uses=4),))
    with pytest.raises(InputError, match="7 layers of the encoder cannot"):
        exported(depth=7)


def test_a_block_is_looped_as_the_same_layers_written_out():
    shared = exported()
    model = drawn(shared)
    (part,) = shared.parts
    whole = drawn(replace(shared, parts=(replace(part, uses=1),)))
    assert len(model.parts["encoder"].layers) == 2
    for place, layer in enumerate(whole.parts["encoder"].layers):
        layer.load_state_dict(model.parts["encoder"].layers[place % 2].state_dict())
    tokens = torch.randint(32, (2, 5))
    for one in (whole, model):
        one(tokens).square().mean().backward()
    torch.testing.assert_close(model(tokens), whole(tokens))
    # one gradient, the sum of those of its uses
    for place, own in enumerate(model.parts["encoder"].layers):
        uses = [whole.parts["encoder"].layers[i] for i in range(place, 6, 2)]
        for p, *each in zip(own.parameters(), *(u.parameters() for u in uses), strict=True):
            torch.testing.assert_close(p.grad, sum(e.grad for e in each))


def test_it_is_saved_loaded_and_stepped_once_a_parameter(tmp_path):
    model = drawn(exported("adamw"))
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    tokens = torch.randint(32, (2, 5))
    torch.testing.assert_close(again(tokens), model(tokens))
    drawn(exported("adamw")).load_state_dict(model.state_dict())
    groups = parameter_groups(model, lr=1e-3)
    listed = [p for group in groups for p in group["params"]]
    assert len(listed) == len({id(p) for p in listed}) == len(list(model.parameters()))
    epsilons = {
        uses: {g["eps"] for g in parameter_groups(drawn(exported("adamw", uses)), lr=1e-3)
               if g["name"] == "encoder/scaled"}
        for uses in ("1", "N")
    }  # fmt: skip
    (alone,), (shared,) = epsilons["1"], epsilons["N"]
    assert shared == pytest.approx(6 * alone)  # beside a gradient six times as large


def test_a_looped_decoder_generates_what_it_computes_at_once():
    model = drawn(exported(stack="decoder", placement="pre-ln"))
    tokens = model.generate(torch.tensor([[3, 1, 4]]), 4)
    assert torch.equal(tokens[:, 3:], model(tokens).argmax(-1)[:, 2:-1])
