"""A model held against one published scheme: its own numbers, its own form, and nothing nearer."""

import json
import math
from dataclasses import replace

import jsonschema
import pytest
import torch
from torch import nn
from written_models import GPT, VOCAB, post, pre, with_inner_norms

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.scheme import not_exportable, schemes
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.runtime import build, schema

pytestmark = pytest.mark.usefixtures("unmeasured")

LAYERS, WIDTH = 2, 32
IDS = torch.arange(16).view(2, 8)
EXPORTED = [name for name, given in schemes().items() if not not_exportable(given)]


def export(name, **given):
    two = schemes()[name].stack == "encoder-decoder"
    depth = f"{LAYERS},2" if two else LAYERS if schemes()[name].uses == "1" else 8
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


def test_a_scheme_of_sublayers_of_its_own_is_exported_for_these_alone():
    assert [s.kind for s in export("sub-ln").parts[0].sublayers] == [
        "attention-sub-ln", "ffn-sub-ln",
    ]  # fmt: skip
    plain = Selection("adamw", placement="pre-ln", layer="attention,ffn")
    with pytest.raises(InputError, match="is of the layer attention-sub-ln,ffn-sub-ln, not of att"):
        dt.export(plain, LAYERS, scheme="sub-ln")


def test_what_constants_hold_is_exported():
    assert {"deepnorm", "deepnorm-encoder-decoder", "gpt-2", "completep", "depth-mup"} <= set(
        EXPORTED
    )
    for name in schemes().keys() - set(EXPORTED):
        with pytest.raises(Refusal, match="cannot be exported: constants have no place for"):
            export(name)


@pytest.mark.filterwarnings("ignore:Unstable")
@pytest.mark.parametrize("name", EXPORTED)
def test_what_is_built_from_a_scheme_follows_it(name):
    constants = export(name)
    jsonschema.validate(json.loads(constants.to_json()), schema())
    assert Constants.from_json(constants.to_json()) == constants
    told = constants.origin
    assert (told["scheme"], told["row"], told["verdict"]) == (name, name, "ASSUMED")
    assert told["source"] == schemes()[name].source and "not derived" in told["meaning"]
    audit = dt.audit(*made(constants), scheme=name)
    assert (audit.verdict, audit.follows, audit.findings) == ("SUPPORTED", name, ())
    assert (audit.scheme, json.loads(audit.to_json())["scheme"]) == (name, name)

    def forgotten(model):
        last = next(n for n, p in reversed(list(model.named_parameters())) if "fc2.weight" in n)
        model.get_parameter(last).mul_(2)

    wrong = dt.audit(*made(constants, forgotten), scheme=name)
    assert (wrong.verdict, wrong.follows, of_roles(wrong)) == ("REFUTED", None, {"fc2"})
    assert [f.size for f in wrong.findings] == pytest.approx([2.0], rel=0.05)


@pytest.mark.filterwarnings("ignore:Unstable")
@pytest.mark.parametrize("name", ["deepnorm", "deepnorm-encoder-decoder", "completep", "depth-mup"])
def test_a_scheme_whose_alpha_is_in_the_weights_follows_it_too(name):
    constants = export(name, form="weights")
    model, ids = made(constants)
    optimizer = torch.optim.AdamW(parameter_groups(model, 1e-3), lr=1e-3)
    audit = dt.audit(model, ids, scheme=name, optimizer=optimizer)
    assert (audit.follows, audit.findings) == (name, ())
    assert (audit.verdict == "SUPPORTED") is not bool(audit.growth)  # the author meant another
    assert {s.sublayer.alpha for s in audit.sublayers} == {1.0}
    alpha = export(name).parts[-1].sublayers[1].alpha
    assert alpha > 1 and audit.detail.endswith("alpha is in the last matrices")

    def dropped(model):  # planted: the matrix as in the author's form, so that α is lost
        for path, p in model.named_parameters():
            if "fc2.weight" in path and f".{constants.parts[-1].name}." in path:
                p.mul_(alpha)

    wrong = dt.audit(*made(constants, dropped), scheme=name)
    assert wrong.verdict == "REFUTED" and "fc2" in of_roles(wrong)
    last = next(p for path, p in model.named_parameters() if "fc2.weight" in path)
    (group,) = (g for g in optimizer.param_groups if any(p is last for p in g["params"]))
    knob = "eps" if name == "completep" else "lr"  # which sets nothing of rates
    group[knob] *= alpha  # planted
    assert dt.audit(model, ids, scheme=name, optimizer=optimizer).follows is None


LINES = {  # α stands in the model's own code, where the equation has one
    "post-ln": lambda alpha: lambda x, f, norm: norm(alpha * x + f(x)),
    "pre-ln": lambda alpha: pre,
    "branch-multiplier": lambda alpha: lambda x, f, norm: x + f(norm(x)) / alpha,
    "sandwich-ln": lambda alpha: lambda x, f, norm: x + norm(f(norm(x))) / alpha,
}


@pytest.mark.filterwarnings("ignore:Unstable")
@pytest.mark.parametrize(
    "name", ["deepnorm", "gpt-2", "gpt-neox-wang", "completep", "pangu", "sub-ln"]
)
def test_what_apply_puts_into_a_decoder_follows_the_scheme(name):
    """One of each equation, law of the deviation and layer; all schemes are built above."""
    constants = dt.export(
        Selection("adamw", stack="decoder"), LAYERS, scheme=name, width=WIDTH, heads=4, vocab=VOCAB
    )
    line = LINES[constants.placement](constants.parts[0].sublayers[0].alpha)
    torch.manual_seed(0)
    model = GPT(LAYERS, line, d=WIDTH, final=constants.placement != "post-ln")
    if name == "sub-ln":
        model = with_inner_norms(model, WIDTH)
    assert dt.audit(model, IDS, scheme=name).verdict == "REFUTED"
    apply_(model, constants, inputs=IDS)
    assert dt.audit(model, IDS, scheme=name).follows == name
    audit = dt.audit(model, IDS, constants=constants)
    assert audit.verdict == "SUPPORTED" and f"export --scheme {name} " in audit.command


@pytest.mark.filterwarnings("ignore:Unstable")
def test_apply_puts_both_alphas_of_deepnorm_into_torchs_own_transformer():
    constants = export("deepnorm-encoder-decoder")
    model = nn.Transformer(WIDTH, 4, LAYERS, 2, 4 * WIDTH, 0.0, batch_first=True)
    model.encoder.norm = model.decoder.norm = None
    x = torch.randn(2, 2, 8, WIDTH)
    apply_(model, constants, inputs=tuple(x))
    audit = dt.audit(model, tuple(x), scheme="deepnorm-encoder-decoder")
    assert (audit.verdict, audit.findings) == ("SUPPORTED", ())
    assert {round(s.sublayer.alpha, 4) for s in audit.sublayers} == {
        round(0.81 * (LAYERS**4 * 2) ** (1 / 16), 4),
        round(6 ** (1 / 4), 4),
    }


def scaled(times, *roles):
    """Planted in every layer: these matrices times a number."""

    def change(model):
        for name, p in model.named_parameters():
            if any(f".{role}.weight" in name for role in roles):
                p.mul_(times)

    return change


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
    change = scaled((2 * LAYERS) ** -0.5, "query", "key")
    audit = dt.audit(*made(export("gpt-2"), change), scheme="gpt-2")
    assert (audit.verdict, audit.follows) == ("SUPPORTED", "gpt-2")
    assert {c.role for c in audit.plan} == {"query", "key"}
    assert of_roles(audit) == set() and of_roles(audit, "remark") == {"query", "key"}
    for f in json.loads(audit.to_json())["findings"]:
        assert f["severity"] == "remark"
    assert "Remark: encoder, all 2 layers, attention" in " ".join(str(audit).split())


@pytest.mark.usefixtures("measured")
def test_gpt_2_whose_outputs_were_not_scaled_differs_and_its_queries_stay_a_remark():
    def both(model):
        scaled(0.5, "query")(model)
        scaled(math.sqrt(2 * LAYERS), "output", "fc2")(model)

    audit = dt.audit(*made(export("gpt-2"), both), scheme="gpt-2")
    assert (audit.verdict, of_roles(audit)) == ("REFUTED", {"output", "fc2"})
    assert of_roles(audit, "remark") == {"query"}
    assert [f.severity for f in audit.findings] == ["difference"] * 2 + ["remark"]
    assert {c.role for c in audit.plan} == {"output", "fc2", "query"}
    assert repr(audit) == "Audit(REFUTED, against gpt-2, 2 findings)"


@pytest.mark.usefixtures("measured")
@pytest.mark.filterwarnings("ignore:Unstable")
def test_no_threshold_makes_a_remark_of_an_alpha_and_0_makes_one_of_nothing(monkeypatch):
    constants = export("deepnorm")
    (part,) = constants.parts
    near = replace(part, sublayers=tuple(replace(s, alpha=1.03 * s.alpha) for s in part.sublayers))
    audit = dt.audit(*made(replace(constants, parts=(near,))), scheme="deepnorm")
    assert audit.verdict == "REFUTED" and audit.effect == pytest.approx(1.0, abs=0.1)
    monkeypatch.setattr("deepnet_theory.models.effect.SLIGHT", 0.0)
    audit = dt.audit(*made(constants, scaled(0.5, "query", "key")), scheme="deepnorm")
    assert (audit.verdict, of_roles(audit)) == ("REFUTED", {"query", "key"})


# ------------------------------------------------------------------ what is of a scheme's own form


def gated(value, layers=LAYERS):
    """x + gate·G(x), the gate learnt, drawn by Xavier's law."""
    model = GPT(layers, lambda x, f, norm: x + f.gate * f(x), final=False)
    for block in model.h:
        for branch in (block.attn, block.mlp):
            branch.gate = nn.Parameter(torch.tensor(value))
    return model


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


def indexed(*, alpha):
    """norm(α_l x + G(x)), α by the layer, from 1."""
    calls = []

    def line(x, f, norm):
        calls.append(f)
        return norm(alpha((len(calls) - 1) // 2 % LAYERS + 1) * x + f(x))

    return line


FORMS = {  # a model, its scheme, and a model that lacks one thing, with the words for it
    "alpha by the layer": (
        lambda: drawn(GPT(LAYERS, indexed(alpha=lambda layer: math.sqrt(2 * layer)), final=False)),
        "admin", lambda: drawn(GPT(LAYERS, post, final=False)),
        "alpha is 1, wanted 1.414 to 2 by the layer",
    ),
    "a factor that no norm takes back": (
        lambda: drawn(GPT(LAYERS, lambda x, f, n: (1 - 1 / 4) * x + f(x) / 4, final=False)),
        "modula", lambda: drawn(GPT(LAYERS, lambda x, f, n: x + f(x) / 4, final=False)),
        "alpha is 4, wanted 1.266 to 2.25 by the layer",
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


UNSHOWN = {
    "branchnorm": "in the step t of training",
    "layernorm-scaling": "divides what enters a branch by alpha",
}


@pytest.mark.parametrize("name", UNSHOWN)
def test_a_scheme_that_no_forward_pass_shows_is_refused(name):
    with pytest.raises(Refusal, match=UNSHOWN[name]):
        dt.audit(GPT(LAYERS), IDS, scheme=name)


@pytest.mark.filterwarnings("ignore:Unstable")
def test_what_was_not_understood_is_undecided_and_said():
    pair = dt.audit(*made(export("deepnorm-encoder-decoder")), scheme="deepnorm")
    assert pair.verdict == "UNDECIDED" and "deepnorm-encoder-decoder" in pair.refusal
    learnt = dt.audit(gated(0.1), IDS, scheme="deepnorm")
    assert learnt.verdict == "UNDECIDED" and "which is learnt" in learnt.refusal
    assert not (pair.findings or learnt.findings)
    with pytest.raises(InputError, match="give one of them"):
        dt.audit(GPT(LAYERS), IDS, scheme="gpt-2", constants=export("gpt-2"))


@pytest.mark.parametrize("name", ["depth-mup", "completep"])
def test_the_multipliers_of_a_scheme_are_held_against_an_optimizers_groups(name):
    model, ids = made(export(name))
    groups = parameter_groups(model, 1e-3, weight_decay=0.1)
    right = dt.audit(model, ids, scheme=name, optimizer=torch.optim.AdamW(groups, lr=1e-3))
    assert (right.verdict, right.follows) == ("SUPPORTED", name)
    scaled = next(g for g in groups if "/scaled" in g["name"])
    scaled["lr"], scaled["eps"] = 5 * scaled["lr"], 7 * scaled["eps"]
    wrong = dt.audit(model, ids, scheme=name, optimizer=torch.optim.AdamW(groups, lr=1e-3))
    assert wrong.verdict == "REFUTED"
    sizes = [f.size for f in wrong.findings]
    assert sizes == pytest.approx([5.0, 7.0] if name == "depth-mup" else [7.0])
