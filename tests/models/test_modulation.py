"""adaLN-zero: gates of branches that a matrix of zeros computes of a condition."""

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from mended import depth_exponents, put_right
from torch import nn
from written_models import GPT, started

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.laboratory.stepping import update
from deepnet_theory.models import read
from deepnet_theory.sizes.entries import moved_by_a_condition

pytestmark = pytest.mark.usefixtures("unmeasured")

IDS = torch.arange(16).view(2, 8)
V = 61


class Modulated(GPT):
    """A GPT whose branches are modulated by a condition: the first token's label."""

    def __init__(self, layers=3, d=32, std=0.0, bias=True, line=None, gate=0.0):
        held, norm = {}, partial(nn.LayerNorm, elementwise_affine=False)
        super().__init__(layers, partial(line or modulated, held), d=d, norm=norm)
        self.held = held
        self.label = nn.Embedding(V, d)
        for block in self.h:
            for branch in (block.attn, block.mlp):
                branch.ada = nn.Linear(d, 3 * d, bias=bias)
                branch.table = nn.Parameter(torch.ones(d))
                nn.init.normal_(branch.ada.weight, std=std)
                if bias:
                    nn.init.zeros_(branch.ada.bias)
                    nn.init.constant_(branch.ada.bias[d : 2 * d], gate)

    def forward(self, ids):
        self.held["condition"] = F.silu(self.label(ids[:, :1]))
        return super().forward(ids)


def modulated(held, x, f, norm):
    shift, gate, scale = f.ada(held["condition"]).chunk(3, -1)
    return x + gate * f(norm(x) * (1 + scale) + shift)


def exported(layers=3, optimizer="adam", closure="complete", width=32):
    rule = dt.Selection(optimizer, placement="layer-scale", stack="decoder", closure=closure)
    return dt.export(rule, layers, width=width, heads=4, vocab=V)


def condition(model, ids=IDS):
    return F.silu(model.label(ids[:, :1])).detach().flatten(0, 1)


def test_a_gate_of_zeros_is_read_as_the_multiplier_that_its_bias_is():
    reading = read(Modulated(), IDS)
    assert reading.select["placement"] == "layer-scale" and reading.understood
    first = reading.sublayers[0]
    assert (first.learnt, first.branch) == ("h.0.attn.ada.bias[32:64]", 0.0)
    assert first.modulation.name == "h.0.attn.ada.weight" and first.modulation.of_norm
    assert [m.role for m in first.matrices] == ["query", "key", "value", "output"]
    assert {n.where for n in first.norms} == {"input"}
    assert [s.branch for s in read(Modulated(gate=0.25), IDS).sublayers] == [0.25] * 6


def test_it_is_judged_and_mended_at_the_rate_of_the_multiplier_and_of_the_condition():
    torch.manual_seed(0)
    model = Modulated()
    audit = dt.audit(model, IDS, optimizer="adam")
    assert audit.verdict == "REFUTED"
    assert any('"h.0.mlp.ada.bias").data[32:64].fill_(' in f.mend for f in audit.findings)
    assert "h.0.attn.ada.bias[32:64] is 0: the first step moves" in " ".join(audit.remarks)
    constants = exported()
    put_right(model, constants, IDS)
    torch.testing.assert_close(
        model.h[1].mlp.ada.bias.view(3, -1)[:, 0].detach(), torch.tensor([0.0, 1 / 6, 0.0])
    )
    audit = dt.audit(model, IDS, optimizer="adam")
    assert audit.follows == "adam"
    moved = condition(model).square().mean(0).sqrt().sum().item()
    (said,) = (r for r in audit.remarks if "compute gates" in r)
    assert (
        f"h.0.attn.ada.weight: at one learning rate its step moves a gate up to {moved:.3g} times"
        in said
    )
    with pytest.warns(UserWarning, match="gain.bias are packed into one parameter"):
        groups = parameter_groups(model, 1e-3)
    rates = {id(p): g["lr"] for g in groups for p in g["params"]}
    named = [g["name"] for g in groups if g["name"] != "other"]
    assert len(set(named)) == len(named)
    ada = model.h[2].attn.ada
    assert rates[id(ada.bias)] == pytest.approx(1e-3 / 6)
    assert rates[id(ada.weight)] == pytest.approx(1e-3 / 6 / moved)
    right = torch.optim.Adam(groups)
    assert dt.audit(model, IDS, optimizer=right, constants=constants).findings == ()
    assert dt.audit(model, IDS, optimizer=right).findings == ()
    plain = torch.optim.Adam(model.parameters(), 1e-3)
    said = " ".join(f.where for f in dt.audit(model, IDS, optimizer=plain).findings)
    assert "ada.weight" in said and "ada.bias" in said


@given(
    st.sampled_from(sorted(optimizers())),
    st.integers(1, 12), st.integers(1, 9), st.sampled_from([0.0, 0.1, 3.0]), st.integers(0, 99),
)  # fmt: skip
def test_the_step_of_a_matrix_of_zeros_is_that_of_its_bias_times_the_condition(
    name, rows, columns, bias, seed
):
    """The law on an explicit matrix, for every optimizer: gradient δcᵀ beside δ."""
    of = optimizers()[name]
    generator = torch.Generator().manual_seed(seed)
    c = torch.rand(columns, generator=generator).double() + 0.1
    delta = torch.ones(rows, 1, dtype=torch.float64)
    theta = torch.full_like(delta, bias)
    own = of.expression if bias else of.from_zero
    by_bias = update(own, 1.0, delta[None], theta[None])[0, 0, 0].item()
    zero = torch.zeros(rows, columns, dtype=torch.float64)
    by_matrix = (update(of.from_zero, 1.0, (delta * c)[None], zero[None])[0] @ c)[0].item()
    said = moved_by_a_condition(of, c.tolist(), rows, bias)
    assert said * by_bias == pytest.approx(by_matrix)


# ---- real steps ----


@pytest.mark.parametrize(("step", "power"), [(torch.sign, 1), (lambda g: g, 2)])
@pytest.mark.parametrize(("samples", "low", "high"), [(1, 0.999, 1.001), (16, 0.2, 0.4)])
def test_a_real_step_of_the_matrix_is_that_of_the_bias_times_the_condition(
    samples, low, high, step, power
):
    """So far where samples share a condition; a third of it where they are as good as drawn."""
    torch.manual_seed(0)
    model = started(Modulated(4, gate=0.25)).double()
    ids = torch.randint(V, (samples, 32), generator=torch.Generator().manual_seed(5))
    targets = torch.randint(V, (32 * samples,), generator=torch.Generator().manual_seed(6))
    model.lm_head = nn.Identity()  # what it gives is then the final state
    head = torch.randn(V, 32, generator=torch.Generator().manual_seed(7)).double()
    start = model(ids)
    F.cross_entropy((start @ head.T).flatten(0, 1), targets).backward()

    def moved(which):
        own = {n: p for n, p in model.named_parameters() if n.endswith(f"ada.{which}")}
        changed = {n: (p - 1e-6 * step(p.grad)).detach() for n, p in own.items()}
        after = torch.func.functional_call(model, changed, (ids,))
        return (after - start).detach().norm(dim=-1).mean()

    most = condition(model, ids).square().mean(0).sqrt().pow(power).sum()
    assert low < float(moved("weight") / moved("bias") / most) < high


@pytest.mark.slow  # as LayerScale: one depth of a multiplier is compared below
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_one_step_moves_a_mended_model_alike_at_every_depth(optimizer):
    mended, plain = depth_exponents(
        lambda n: Modulated(n, gate=0.5), lambda n: exported(n, optimizer), IDS, optimizer
    )
    assert abs(mended) < 0.1 and plain > 0.8


# ---- what is refused ----


def to_values(held, x, f, norm):
    """The condition's shift enters behind the norm's linear map, and not the norm."""
    shift, gate, scale = f.ada(held["condition"]).chunk(3, -1)
    return x + gate * (f(norm(x) * (1 + scale)) + shift)


def bent(held, x, f, norm):
    shift, gate, scale = f.ada(held["condition"]).chunk(3, -1)
    return x + gate.sigmoid() * f(norm(x) * (1 + scale) + shift)


def of_two(held, x, f, norm):
    shift, gate, scale = f.ada(held["condition"]).chunk(3, -1)
    return x + gate * scale * f(norm(x) + shift)


def with_a_table(held, x, f, norm):
    """PixArt's: a table of the layer's own beside what the condition gives."""
    shift, gate, scale = f.ada(held["condition"]).chunk(3, -1)
    return x + (f.table + gate) * f(norm(x) * (1 + scale) + shift)


def scaled_too(held, x, f, norm):
    shift, gate, scale = f.ada(held["condition"]).chunk(3, -1)
    return x + gate * (f.table * f(norm(x) * (1 + scale) + shift))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Modulated(std=0.02),
        lambda: Modulated(bias=False),
        lambda: Modulated(line=to_values),
        lambda: Modulated(line=bent),
        lambda: Modulated(line=of_two),
        lambda: Modulated(line=with_a_table),
        lambda: Modulated(line=scaled_too),
    ],
    ids=["drawn", "no bias", "beside the norm", "bent", "of two", "with a table", "scaled too"],
)
def test_other_gates_are_refused_by_their_matrix(make):
    model = make()
    audit = dt.audit(model, IDS, optimizer="adam")
    assert (audit.verdict, audit.findings) == ("UNDECIDED", ())
    assert "h.0.attn.ada.weight" in audit.refusal and "no law here" in audit.refusal
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(Refusal, match=r"h\.0\.attn\.ada\.weight"):
        apply_(model, exported(), inputs=IDS)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
