"""Layers that are used several times: built, kept in files, trained once a step, generated with."""

from dataclasses import replace

import pytest
import torch

import deepnet_theory as dt
from deepnet_theory.runtime import build, load, parameter_groups, save
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError

SIZES = {"width": 16, "heads": 2, "vocab": 32}


def exported(optimizer="sgd", uses="N/2", depth=6, **more):
    answer = dt.derive(optimizer=optimizer, uses=uses, **more)
    return dt.export(answer, depth=depth, **SIZES)


def drawn(constants, **more):
    return build(constants, generator=torch.Generator().manual_seed(0), **more)


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
