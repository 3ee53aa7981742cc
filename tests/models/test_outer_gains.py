"""Norms behind a branch whose gain holds alpha: Gemma 2 and 3, OLMo 2, from transformers."""

import copy
import warnings
from functools import partial

import pytest
import torch

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models import applying, read

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("unmeasured")

V, D = 61, 32
IDS = torch.randint(1, V, (2, 16), generator=torch.Generator().manual_seed(0))
PLACED = {"Gemma2": "sandwich-gain", "Gemma3": "sandwich-gain", "Olmo2": "res-post-gain"}


def made(name, n, d=D):
    of = {
        "vocab_size": V, "hidden_size": d, "intermediate_size": 4 * d, "num_hidden_layers": n,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64,
        "pad_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": False,
        "attn_implementation": "eager",
    }  # fmt: skip
    if name.startswith("Gemma"):
        of |= {"head_dim": d // 4, "query_pre_attn_scalar": d // 4}
        of |= {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    text = "Text" if name == "Gemma3" else ""
    config = getattr(transformers, f"{name}{text}Config")(**of)
    return getattr(transformers, f"{name}ForCausalLM")(config)


def constants(name, n, d=D, placement=""):
    rule = dt.Selection(
        "adam", placement=placement or PLACED[name], norm="rms", stack="decoder",
        layer="attention,ffn-swiglu",
    )  # fmt: skip
    return dt.export(rule, n, width=d, heads=4, vocab=V)


def applied(name, n):
    model = made(name, n)
    apply_(model, constants(name, n), inputs=IDS)
    return model, IDS


def stepped(model):
    with warnings.catch_warnings(action="ignore"):
        return torch.optim.Adam(parameter_groups(model, 2.0**-10))


@pytest.mark.parametrize("name", ["Gemma3", "Olmo2"])
def test_alpha_is_put_into_the_gain_of_the_norm_behind_the_branch(name):
    model = made(name, 3)
    norms = [layer.post_attention_layernorm.weight for layer in model.model.layers]
    plain = norms[0][0].item()  # 0 where the code has 1 + w
    assert apply_(model, constants(name, 3), inputs=IDS).changes
    torch.testing.assert_close(norms[0], torch.full((D,), plain - 1 + 1 / 6))
    for judged in (
        dt.audit(model, IDS, constants=constants(name, 3)),
        dt.audit(model, IDS, optimizer="adam"),
    ):
        assert (judged.verdict, judged.placement) == ("SUPPORTED", PLACED[name])
    assert apply_(model, constants(name, 3), inputs=IDS).changes == ()
    rates = {g["name"]: g["lr_scale"] for g in parameter_groups(model, 1.0)}
    assert rates["decoder/residual-gain"] == 1 / 6
    with torch.no_grad():
        norms[1] += 1
    wrong = dt.audit(model, IDS, constants=constants(name, 3))
    assert wrong.verdict == "REFUTED" and "alpha" in wrong.findings[0].where


def of_sgd(placement="res-post-gain"):
    rule = dt.Selection(
        "sgd", placement=placement, norm="rms", stack="decoder", layer="attention,ffn-swiglu",
        closure="complete",
    )  # fmt: skip
    return dt.export(rule, 4, width=D, heads=4, vocab=V)


def test_an_epsilon_that_is_to_be_smaller_is_set_and_put_back_on_refusal(monkeypatch):
    model, c = made("Olmo2", 4), of_sgd()
    (times,) = {s.norm_epsilon["output"] for s in c.parts[0].sublayers[:1]}
    norm = model.model.layers[1].post_attention_layernorm
    norm.variance_epsilon = 1e-5
    kept = [m.variance_epsilon for m in model.modules() if hasattr(m, "variance_epsilon")]
    with monkeypatch.context() as refusing, pytest.raises(Refusal, match="planted"):
        refusing.setattr(applying, "describe_", lambda *_, **__: _refuse())
        apply_(model, c, inputs=IDS)
    assert kept == [m.variance_epsilon for m in model.modules() if hasattr(m, "variance_epsilon")]
    told = str(apply_(model, c, inputs=IDS))
    assert norm.variance_epsilon == pytest.approx(times * 1e-5) and times < 0.1
    assert f"epsilon {times * 1e-5:.3g} was set in the norms that need it" in told
    assert model.model.norm.variance_epsilon == kept[-1]  # no rule speaks of it
    small = made("Olmo2", 4)
    small.model.layers[0].post_attention_layernorm.variance_epsilon = 1e-12
    apply_(small, c, inputs=IDS)
    assert small.model.layers[0].post_attention_layernorm.variance_epsilon == 1e-12


def _refuse():
    raise Refusal("planted")


def test_a_model_without_that_norm_and_one_without_its_gain_are_refused():
    with pytest.raises(Refusal, match=r"or take the placement res-post-gain, whose alpha starts"):
        apply_(made("Olmo2", 2), constants("Olmo2", 2, placement="res-post-ln"), inputs=IDS)
    with pytest.raises(Refusal, match=r"the constants are for x \+ norm\(branch\(x\)\)"):
        apply_(made("Gemma2", 2), constants("Olmo2", 2), inputs=IDS)
    bare = made("Olmo2", 2)
    kept = copy.deepcopy(bare.state_dict())
    for layer in bare.model.layers:
        layer.post_attention_layernorm = torch.nn.RMSNorm(D, elementwise_affine=False)
    assert read(bare, IDS).in_gains.sublayers[0].learnt is None
    with pytest.raises(Refusal):
        apply_(bare, constants("Olmo2", 2), inputs=IDS)
    assert all(torch.equal(value, kept[key]) for key, value in bare.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACED)
def test_one_step_moves_it_alike_at_every_depth(name):
    found = dt.measure(partial(applied, name), [4, 16], optimizer=stepped, seeds=2)
    assert abs(found.exponents[0].estimate) < 0.1, found
    plain = dt.measure(lambda n: (made(name, n), IDS), [4, 16], optimizer="adam", seeds=2)
    assert plain.exponents[0].estimate > 0.2, plain
