"""Learnt multipliers of other people's models: LayerScale, scalars of the stream, ReZero."""

import copy
import math
import warnings

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from mended import depth_exponents, put_right
from torch import nn
from written_models import GPT, branch_step

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models import read
from deepnet_theory.runtime.linear import described_blocks

pytestmark = pytest.mark.usefixtures("unmeasured")

IDS = torch.arange(16).view(2, 8)
V = 61


def scaled(line, layers=3, value=0.1, shape=(32,), **options):
    """A GPT whose residual line multiplies by a parameter of each branch."""
    model = GPT(layers, line, **options)
    for block in model.h:
        for branch in (block.attn, block.mlp):
            branch.scale = nn.Parameter(torch.full(shape, value))
    return model


def layer_scale(x, f, norm):
    return x + f.scale * f(norm(x))


def stream_scalar(x, f, norm):
    return f.scale * x + f(norm(x))


def exported(layers=3, optimizer="adamw", closure="complete", placement="layer-scale", **sizes):
    rule = dt.Selection(optimizer, placement=placement, stack="decoder", closure=closure)
    return dt.export(rule, layers, **{"width": 32, "heads": 4, "vocab": V, **sizes})


def test_layer_scale_is_read_judged_and_mended():
    model = scaled(layer_scale)
    assert read(model, IDS).select["placement"] == "layer-scale"
    audit = dt.audit(model, IDS, optimizer="adamw")
    assert audit.verdict == "REFUTED"
    assert any("mlp.scale" in f.mend for f in audit.findings)
    constants = exported()
    apply_(model, constants, inputs=IDS)
    torch.testing.assert_close(model.h[1].mlp.scale.data, torch.full((32,), 1 / 6))
    assert dt.audit(model, IDS, optimizer="adamw").follows == "adamw"
    right = torch.optim.AdamW(parameter_groups(model, 1e-3))
    assert dt.audit(model, IDS, constants=constants, optimizer=right).findings == ()
    with torch.no_grad():
        model.h[2].attn.scale.mul_(3)  # planted: one layer's multiplier is 3 times too large
    (found,) = dt.audit(model, IDS, constants=constants).findings
    assert "layer 2, attention: alpha" in found.where and "h.2.attn.scale" in found.mend
    trained = scaled(layer_scale)
    with torch.no_grad():
        trained.h[2].attn.scale[0] = 2.0
    with pytest.raises(Refusal, match=r"the entries of h\.2\.attn\.scale differ"):
        apply_(trained, constants, inputs=IDS)


def test_one_rate_for_multipliers_and_matrices_is_said():
    model = scaled(layer_scale)
    apply_(model, exported(), inputs=IDS)
    audit = dt.audit(model, IDS, optimizer=torch.optim.AdamW(model.parameters(), 1e-3))
    (found,) = audit.findings
    assert "learns at 0.001, wanted 0.000167" in found.what and "attn.scale" in found.where


def test_a_scalar_on_the_stream_is_judged_and_steps_at_its_own_rate():
    model = scaled(stream_scalar, value=1.0, shape=())
    assert read(model, IDS).select["placement"] == "stream-scalar"
    apply_(model, exported(placement="stream-scalar"), inputs=IDS)
    groups = {g["name"]: g["lr_scale"] for g in parameter_groups(model, 1.0)}
    assert groups["decoder/residual-gain"] == pytest.approx(6**-0.5)
    assert dt.audit(model, IDS, optimizer="adamw").follows == "adamw"


def test_a_multiplier_beside_other_norms_has_no_law_and_is_named():
    model = scaled(lambda x, f, norm: norm(x + f.scale * f(x)), final=False)
    audit = dt.audit(model, IDS)
    assert audit.verdict == "UNDECIDED"
    assert "multiplied by h.0.attn.scale, which is learnt" in audit.refusal
    with pytest.raises(Refusal, match="is learnt, the constants are for"):
        apply_(scaled(layer_scale), exported(placement="pre-ln"), inputs=IDS)


# ---- a real step ----


LINES = [
    ("layer-scale", (layer_scale, 0.5, (32,))),
    pytest.param("stream-scalar", (stream_scalar, 1.0, ()), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("placement", "kind"), LINES)
def test_one_step_moves_a_mended_model_alike_at_every_depth(placement, kind):
    line, value, shape = kind
    mended, plain = depth_exponents(
        lambda n: scaled(line, n, value, shape), lambda n: exported(n, placement=placement),
        IDS, "adamw", (2, 8),
    )  # fmt: skip
    assert abs(mended) < 0.15 and plain > 0.2


def rule_rates(model):
    """Small rates of the branches' matrices and multipliers, in the rule's ratio."""
    own = {n: p.dim() for n, p in model.named_parameters() if n.startswith("h.") and ".ln" not in n}
    return {name: 1e-6 if dim > 1 else 1e-6 / 16 for name, dim in own.items()}


def rule_step(model):
    return branch_step(model, rule_rates(model))


# ---- models of libraries, and as they are written ----


def test_a_public_model_with_layer_scale_is_judged_and_mended():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = transformers.Dinov2Model(
        transformers.Dinov2Config(**sizes, image_size=16, patch_size=8, layerscale_value=1e-5)
    )
    pixels = torch.randn(1, 3, 16, 16)
    audit = dt.audit(model, pixels, optimizer="adamw")
    assert audit.verdict == "REFUTED"
    assert any(": alpha" in f.where and "data.fill_(" in f.mend for f in audit.findings)
    rule = dt.Selection("adamw", closure="complete", **read(model, pixels).select)
    with warnings.catch_warnings(action="ignore"):
        put_right(model, dt.export(rule, 3, width=32, heads=4), pixels)
    (group,) = (g for g in parameter_groups(model, 1.0) if "residual-gain" in g["name"])
    assert group["lr"] == pytest.approx(1 / 6) and len(group["params"]) == 6


class Nanochat(GPT):
    """A learnt scalar of the stream in each layer, and one of the embedding beside it or none."""

    def __init__(self, layers=3, skips=False):
        super().__init__(layers, norm=lambda d: nn.RMSNorm(d, elementwise_affine=False))
        self.resid = nn.Parameter(torch.ones(layers))
        self.skip = nn.Parameter(torch.full((layers,), 0.1)) if skips else None

    def forward(self, ids):
        x = start = F.rms_norm(self.wte(ids), (32,))
        for index, block in enumerate(self.h):
            x = self.resid[index] * x
            x = block(x if self.skip is None else x + self.skip[index] * start)
        return self.lm_head(F.rms_norm(x, (32,)))


def test_scalars_of_some_sublayers_are_judged_and_step_at_their_own_rate():
    audit = dt.audit(Nanochat(), IDS, optimizer="muon")
    assert audit.verdict == "REFUTED" and audit.findings
    remarks = " ".join(audit.remarks)
    assert "multiples of the learning rate too" in remarks and "stream_gain 0.408" in remarks


def test_a_second_stream_is_refused():
    audit = dt.audit(Nanochat(skips=True), IDS, optimizer="muon")
    assert (audit.verdict, audit.findings) == ("UNDECIDED", ())
    assert "a skip past several" in audit.refusal


class Entries(GPT):
    """One vector with a multiplier for every branch."""

    def __init__(self, layers=3):
        super().__init__(layers)
        self.gates = nn.Parameter(torch.full((2 * layers,), 0.5))

    def forward(self, ids):
        x = self.wte(ids)
        for index, block in enumerate(self.h):
            x = x + self.gates[2 * index] * block.attn(block.ln_1(x))
            x = x + self.gates[2 * index + 1] * block.mlp(block.ln_2(x))
        return self.lm_head(self.ln_f(x))


def test_entries_of_one_parameter_are_multipliers_and_one_of_all_is_shared():
    model = Entries()
    apply_(model, exported(), inputs=IDS)
    torch.testing.assert_close(model.gates.data, torch.full((6,), 1 / 6))
    one = scaled(layer_scale)
    for block in one.h:
        block.attn.scale = block.mlp.scale = one.h[0].attn.scale
    assert "6 sublayers share h.0.attn.scale" in dt.audit(one, IDS).refusal


# ---- what adds nothing at the start ----


def zero_outputs(model):
    with torch.no_grad():
        for block in model.h:
            block.attn.c_proj.weight.zero_()
            block.mlp.c_proj.weight.zero_()
    return model


def remarks(model, under):
    said = dt.audit(model, IDS, optimizer=under).remarks
    return [remark for remark in said if "add nothing at the start" in remark]


def test_the_first_steps_of_branches_of_zero_are_said():
    (output,) = remarks(zero_outputs(GPT(3)), "adamw")
    assert output.startswith("6 of 6 branches") and "h.0.attn.c_proj.weight is 0" in output
    assert output.endswith("by order eta^(2)")
    (gate,) = remarks(scaled(layer_scale, value=0.0), "sgd")
    assert "h.0.attn.scale is 0" in gate and gate.endswith("by order eta^(3)")
    (both,) = remarks(zero_outputs(scaled(layer_scale, value=0.0)), "adamw")
    assert "and never do" in both
    (ratio,) = remarks(zero_outputs(GPT(3)), "lamb")
    assert "leaves it there" in ratio
    assert remarks(GPT(3), "adamw") == []
    audit = dt.audit(scaled(layer_scale, value=0.0), IDS, optimizer="adamw")
    assert audit.effect is None  # and not 0: the multipliers move the output


def through_others(model, zero, step, eta):
    """What a second step moves the output by through what was not 0, all else as after it."""
    model = copy.deepcopy(model).double()
    parameters = {
        n: p for n, p in model.named_parameters() if n.startswith("h.") and ".ln" not in n
    }

    def stepped():
        model.zero_grad()
        loss = F.cross_entropy(model(IDS).flatten(0, 1), IDS.flatten())
        loss.backward()
        return {n: p - eta * step(p.grad) for n, p in parameters.items()}

    first = stepped()
    assert all(torch.equal(first[n], parameters[n]) for n in first if zero not in n)
    assert not any(torch.equal(first[n], parameters[n]) for n in first if zero in n)
    with torch.no_grad():
        for name, value in first.items():
            parameters[name].copy_(value)
    second = stepped()
    alone = {n: second[n] if zero in n else p for n, p in parameters.items()}
    call = torch.func.functional_call
    with torch.no_grad():
        return float((call(model, second, (IDS,)) - call(model, alone, (IDS,))).norm())


@pytest.mark.parametrize(
    ("step", "order", "eta"), [(torch.sign, 2.0, 1e-5), (lambda g: g, 3.0, 1e-2)]
)
@pytest.mark.parametrize("zero", ["c_proj", "scale"])
def test_two_real_steps_from_zero_move_the_output_by_the_order_that_is_said(zero, step, order, eta):
    """No gradient but that of what is 0 in the first step; eta^(2 + p) through all else next."""
    torch.manual_seed(0)
    line = scaled(layer_scale, value=0.0) if zero == "scale" else zero_outputs(GPT(3))
    sizes = [through_others(line, zero, step, eta) for eta in (eta, 4 * eta)]
    assert math.log(sizes[1] / sizes[0], 4) == pytest.approx(order, abs=0.1)


def test_a_learnt_multiplier_is_called_by_the_number_that_it_starts_at():
    model, constants = scaled(layer_scale, value=0.5), exported()
    apply_(model, constants, inputs=IDS)
    described = described_blocks(model)[model.h[0].mlp.scale]
    alpha = constants.parts[0].sublayers[0].alpha
    assert [d.gain for d in described] == pytest.approx([1 / alpha]) and alpha == 6
