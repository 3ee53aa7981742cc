"""Norms behind a branch whose gain holds alpha: Gemma 2 and 3, OLMo 2, from transformers."""

import pytest
import torch

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models import applying

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("unmeasured")

V, D = 61, 32
IDS = torch.randint(1, V, (2, 16), generator=torch.Generator().manual_seed(0))


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
