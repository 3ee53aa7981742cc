"""A model held against one published scheme: its own numbers, its own form, and nothing nearer."""

import json
import math
from dataclasses import replace
from itertools import cycle

import jsonschema
import pytest
import torch
from torch import nn
from written_models import GPT, VOCAB, post, with_inner_norms

import deepnet_theory as dt
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.scheme import SCHEMES, not_exportable
from deepnet_theory.runtime import build, schema

pytestmark = pytest.mark.usefixtures("unmeasured")

LAYERS, WIDTH = 2, 32
IDS = torch.arange(16).view(2, 8)
EXPORTED = [name for name, given in SCHEMES.items() if not not_exportable(given)]


def export(name, **given):
    two = SCHEMES[name].stack == "encoder-decoder"
    depth = f"{LAYERS},2" if two else LAYERS
    return dt.export(scheme=name, depth=depth, width=WIDTH, heads=4, vocab=VOCAB, **given)


def made(constants, change=lambda model: None):
    """A model of the constants, changed, and its inputs."""
    torch.manual_seed(0)
    model = build(constants)
    with torch.no_grad():
        change(model)
    return model, (IDS, IDS) if len(constants.parts) > 1 else IDS


def of_roles(audit, severity="difference"):
    return {f.where.split(":")[0].split(", ")[-1] for f in audit.findings if f.severity == severity}


@pytest.mark.filterwarnings("ignore:Unstable")
@pytest.mark.parametrize("name", EXPORTED)
def test_what_is_built_from_a_scheme_follows_it(name):
    constants = export(name)
    jsonschema.validate(json.loads(constants.to_json()), schema())
    assert Constants.from_json(constants.to_json()) == constants
    told = constants.origin
    assert (told["scheme"], told["row"], told["verdict"]) == (name, name, "ASSUMED")
    assert told["source"] == SCHEMES[name].source and "not derived" in told["meaning"]
    audit = dt.audit(*made(constants), scheme=name)
    assert (audit.verdict, audit.follows, audit.findings) == ("SUPPORTED", name, ())
    assert (audit.scheme, json.loads(audit.to_json())["scheme"]) == (name, name)

    def forgotten(model):
        last = next(n for n, p in reversed(list(model.named_parameters())) if "fc2.weight" in n)
        model.get_parameter(last).mul_(2)

    wrong = dt.audit(*made(constants, forgotten), scheme=name)
    assert (wrong.verdict, wrong.follows, of_roles(wrong)) == ("REFUTED", None, {"fc2"})
    assert [f.size for f in wrong.findings] == pytest.approx([2.0], rel=0.05)


@pytest.mark.usefixtures("measured")
@pytest.mark.filterwarnings("ignore:Unstable")
def test_alpha_forgotten_in_the_decoder_is_the_finding():
    name = "deepnorm-encoder-decoder"
    constants = export(name)
    encoder, decoder = constants.parts
    bare = replace(decoder, sublayers=tuple(replace(s, alpha=1.0) for s in decoder.sublayers))
    audit = dt.audit(*made(replace(constants, parts=(encoder, bare))), scheme=name)
    assert (audit.verdict, audit.follows) == ("REFUTED", None)
    assert [f.where for f in audit.findings if f.severity == "remark"] == []
    assert {f.where for f in audit.findings} == {
        f"decoder, all 2 layers, {kind}: alpha" for kind in ("attention", "cross", "ffn")
    }
    for f in audit.findings:
        assert f.size == pytest.approx(6 ** (1 / 4)) and f.mend.startswith("x = norm(1.565*x")
    assert audit.effect > 1.1


@pytest.mark.usefixtures("measured")
@pytest.mark.filterwarnings("ignore:Unstable")
def test_beta_on_query_and_key_is_a_remark():
    def scaled(model):
        for name, p in model.named_parameters():
            if any(f".{role}.weight" in name for role in ("query", "key")):
                p.mul_((2 * LAYERS) ** -0.5)

    audit = dt.audit(*made(export("gpt-2"), scaled), scheme="gpt-2")
    assert (audit.verdict, audit.follows) == ("SUPPORTED", "gpt-2")
    assert {c.role for c in audit.plan} == {"query", "key"}
    assert of_roles(audit) == set() and of_roles(audit, "remark") == {"query", "key"}
    for f in json.loads(audit.to_json())["findings"]:
        assert f["severity"] == "remark"
    assert "Remark: encoder, all 2 layers, attention" in " ".join(str(audit).split())


def drawn(model, gain=1.0):
    """Every branch matrix by Xavier's law, all but query and key at this gain."""
    torch.manual_seed(0)
    for name, p in model.named_parameters():
        if p.dim() == 2 and name.startswith("h."):
            *unscaled, last = p.chunk(3) if "c_attn" in name else (p,)
            nn.init.xavier_normal_(last, gain)
            for block in unscaled:
                nn.init.xavier_normal_(block)
    return model


def indexed():
    """norm(α_l x + G(x)), α = √(2l) in layer l from 1."""
    alphas = cycle(math.sqrt(2 * layer) for layer in range(1, LAYERS + 1) for _ in range(2))
    return lambda x, f, norm: norm(next(alphas) * x + f(x))


FORMS = {  # a model, its scheme, and a model that lacks one thing, with the words for it
    "alpha by the layer": (
        lambda: drawn(GPT(LAYERS, indexed(), final=False)), "admin",
        lambda: drawn(GPT(LAYERS, post, final=False)),
        "alpha is 1, expected 1.414 to 2",
    ),
    "a factor that no norm takes back": (
        lambda: drawn(GPT(LAYERS, lambda x, f, n: (1 - 1 / 4) * x + f(x) / 4, final=False)),
        "modula", lambda: drawn(GPT(LAYERS, lambda x, f, n: x + f(x) / 4, final=False)),
        "alpha is 4, expected 1.266 to 2.25",
    ),
    "norms within the branch": (
        lambda: drawn(with_inner_norms(GPT(LAYERS)), math.sqrt(math.log(2 * LAYERS))), "sub-ln",
        lambda: drawn(GPT(LAYERS)), "with one more norm within the branch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_schemes_own_form_is_no_fault_and_its_lack_is(name):
    right, scheme, wrong, words = FORMS[name]
    audit = dt.audit(right(), IDS, scheme=scheme)
    assert (audit.verdict, audit.follows, audit.findings) == ("SUPPORTED", scheme, ())
    other = dt.audit(wrong(), IDS, scheme=scheme)
    assert other.verdict == "REFUTED" and any(words in f.what for f in other.findings), [
        f.what for f in other.findings
    ]


def test_a_scheme_that_no_forward_pass_shows_is_refused():
    with pytest.raises(Refusal, match="divides what enters a branch by alpha"):
        dt.audit(GPT(LAYERS), IDS, scheme="layernorm-scaling")
