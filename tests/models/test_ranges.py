"""Stacks of ranges of layers: read, judged, mended and measured as a list of layers."""

from functools import partial

import pytest
import torch
from mended import depth_exponents, put_right
from torch import nn
from written_models import GPT, Attention, Block, SwiGLU, post, pre

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.subject import differences
from deepnet_theory.models import read
from deepnet_theory.models.audit import of_constants
from deepnet_theory.runtime import build
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts
from deepnet_theory.sizes.wanted import wanted

pytestmark = pytest.mark.usefixtures("unmeasured")

D, V = 32, 61
IDS = torch.randint(V, (2, 16), generator=torch.Generator().manual_seed(0))


class Skipping(Block):
    """A layer without a feed-forward."""

    def forward(self, x):
        return self.line(x, self.attn, self.ln_1)


class ByKind(Block):
    """A norm before attention, and one on the sum behind the feed-forward."""

    def forward(self, x):
        return post(pre(x, self.attn, self.ln_1), self.mlp, self.ln_2)


def mix_ln(n, low=None, d=D, lines=(post, pre)):
    model = GPT(n, d=d, vocab=V)
    for index, block in enumerate(model.h):
        block.line = lines[index >= (n // 4 if low is None else low)]
    return model


def dense_first(n, dense=1, d=D):
    """DeepSeek's: plain feed-forwards, then gated ones."""
    model = GPT(n, d=d, vocab=V)
    for block in model.h[dense:]:
        block.mlp = SwiGLU(d)
    return model


def without_last(n, d=D):
    model = GPT(n, d=d, vocab=V)
    model.h[-1] = Skipping(pre, d)
    return model


class Crossing(Block):
    """A decoder's layer, with cross-attention or without it."""

    def __init__(self, crosses, d=D):
        super().__init__(pre, d)
        self.attn, self.ln_3 = Attention(d), nn.LayerNorm(d)
        self.cross = Attention(d, causal=False) if crosses else None

    def forward(self, x, memory):
        x = x + self.attn(self.ln_1(x))
        if self.cross is not None:
            x = x + self.cross(self.ln_3(x), memory)
        return x + self.mlp(self.ln_2(x))


class Apart(GPT):
    """An encoder of gated layers; cross-attention in every second layer of the decoder."""

    def __init__(self, n):
        super().__init__(0, vocab=V)
        self.encoder = nn.ModuleList(Block() for _ in range(n))
        for block in self.encoder:
            block.attn, block.mlp = Attention(D, causal=False), SwiGLU(D)
        self.decoder = nn.ModuleList(Crossing(i % 2 == 1) for i in range(n))
        self.ln_m = nn.LayerNorm(D)

    def forward(self, ids):
        x, memory = self.first(ids), self.first(ids.flip(1))
        for block in self.encoder:
            memory = block(memory)
        for block in self.decoder:
            x = block(x, self.ln_m(memory))
        return self.lm_head(self.ln_f(x))


LAYERS_APART = "attention,ffn-swiglu;attention,ffn,1/2*cross"


def of_both(n):
    rule = dt.Selection("adam", placement="pre-ln", stack="encoder-decoder", layer=LAYERS_APART)
    return dt.export(rule, (n, n), width=D, heads=4, vocab=V)


def exported(n, optimizer="adam", d=D, form="weights", **select):
    """Constants of pre-LN beside those of post-LN; the weights of post-LN carry its alpha."""
    pre_ln, post_ln = (
        dt.export(
            dt.Selection(optimizer, placement=p, stack="decoder", closure="complete", **select),
            n, width=d, heads=4, vocab=V, form=form,
        )
        for p in ("pre-ln", "post-ln")
    )  # fmt: skip
    return pre_ln.beside(post_ln)


def of_kinds(n, layer, d=D, placement="pre-ln", form="forward"):
    rule = dt.Selection("adam", placement=placement, stack="decoder", layer=layer)
    return dt.export(rule, n, width=d, heads=4, vocab=V, form=form)


# ---------------------------------------------------------------------------------- read and said


def test_ranges_of_layers_are_said_and_are_in_the_json():
    torch.manual_seed(0)
    model = mix_ln(8)
    apply_(model, exported(8), inputs=IDS)
    audit = dt.audit(model, IDS, constants=exported(8))
    said = " ".join(str(audit).split())
    assert "layers 0-1: norm(x + branch(x)); layers 2-7: x + branch(norm(x)), layers: 8" in said
    for equation in ("norm(x + branch(x))", "x + branch(norm(x))"):
        assert f"decoder attention, {equation} alpha" in said  # gains of each range
    assert audit.to_dict()["ranges"] == [
        {"stack": "decoder", "first": 0, "last": 1, "layer": "attention, ffn",
         "equations": ("norm(x + branch(x))",)},
        {"stack": "decoder", "first": 2, "last": 7, "layer": "attention, ffn",
         "equations": ("x + branch(norm(x))",)},
    ]  # fmt: skip
    assert (audit.placement, audit.verdict) == (None, "SUPPORTED")
    assert [audit.command.count(f"--placement {p}") for p in ("post-ln", "pre-ln")] == [1, 1]


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        (dense_first(4), "attention,1/4*ffn,3/4*ffn-swiglu"),
        (without_last(4), "attention,3/4*ffn"),
        (GPT(3, vocab=V), "attention,ffn"),
    ],
    ids=["dense-first", "last-without", "alike"],
)
def test_layers_that_differ_are_a_selection_with_shares(model, layer):
    found = read(model, IDS)
    assert found.select["layer"] == layer
    constants = of_kinds(found.layers["decoder"], layer)
    put_right(model, constants, IDS)
    assert dt.audit(model, IDS, optimizer="adam").follows == "adam"
    made = build(constants)
    assert read(made, IDS).select == found.select | {"norm": "layer"}


def test_both_stacks_may_have_layers_of_their_own():
    model = Apart(4)
    assert read(model, IDS).select["layer"] == LAYERS_APART
    put_right(model, of_both(4), IDS)
    audit = dt.audit(model, IDS, optimizer="adam")
    assert audit.follows == "adam"
    assert f"--layer '{LAYERS_APART}' --closure complete --depth 4,4" in audit.command


def test_a_sublayer_takes_what_its_own_placement_has_at_the_whole_S():
    found = read(mix_ln(8, low=3), IDS)
    rules = {w.detail: w for w in wanted(found, "adam") if w.placement == "post-ln and pre-ln"}
    of = {"optimizer": "adam", "stack": "decoder", "closure": "complete"}
    rule = rules["closure complete"]
    for s, asked in zip(found.sublayers, rule.sublayers, strict=True):
        where = "post-ln" if s.layer < 3 else "pre-ln"
        alone = texts(solve_rule(dt.Selection(**of, placement=where))).entry("decoder", s.kind)
        alpha, beta = alone.at(M=8)
        assert asked.alpha == (pytest.approx(alpha) if where == "post-ln" else 1)
        assert asked.gains["output" if s.kind == "attention" else "fc2"] == pytest.approx(beta)
        assert asked.rates["value" if s.kind == "attention" else "fc1"] == alone.rate_at(M=8)


def test_a_norm_left_out_in_one_layer_is_its_fault_and_no_range():
    model = mix_ln(12)
    apply_(model, exported(12), inputs=IDS)
    model.h[1].line = lambda x, branch, norm: x + branch(x)
    found = read(model, IDS)
    of_name = wanted(found, "adam")[0]
    assert "post-ln and" in of_name.placement
    for rule in (of_name, of_constants(found, exported(12))):
        assert rule.sublayers[2].norms == {"sum"} and rule.sublayers[6].norms == {"input"}
        of_norms = [found.sublayers[d.index] for d in differences(found, rule) if d.item == "norms"]
        assert [(s.layer, s.kind) for s in of_norms] == [(1, "attention"), (1, "ffn")]


# ----------------------------------------------------------------------------------- mended


def by_kind(n):
    return GPT(n, block=ByKind, final=False, vocab=V)


MADE = {
    "mix-ln": (mix_ln, exported),
    "of-each-kind": (by_kind, partial(of_kinds, layer="attention,ffn:post-ln", form="weights")),
    "encoder-decoder": (Apart, of_both),
    "dense-first": (
        lambda n: dense_first(n, dense=n // 4),
        lambda n: of_kinds(n, "attention,1/4*ffn,3/4*ffn-swiglu"),
    ),
}


@pytest.mark.parametrize(
    "name",
    [name if name == "mix-ln" else pytest.param(name, marks=pytest.mark.slow) for name in MADE],
)
def test_one_step_moves_a_mended_stack_alike_at_every_depth(name):
    few = {"depths": (2, 8)} if name == "mix-ln" else {"seeds": 4}
    mended, plain = depth_exponents(*MADE[name], IDS, **few)
    assert abs(mended) < 0.1 and plain > 0.2


def test_a_placement_of_each_kind_is_the_same_model_as_two_beside_each_other():
    model, named = by_kind(4), MADE["of-each-kind"][1](4)
    apply_(model, named, inputs=IDS)
    for constants in (named, exported(4)):
        assert dt.audit(model, IDS, constants=constants).verdict == "SUPPORTED"
    assert named.placements == ("pre-ln", "post-ln")
    with pytest.raises(Refusal, match=r"is x \+ branch\(norm\(x\)\), the constants are for norm"):
        apply_(GPT(4, vocab=V), named, inputs=IDS)
    with torch.no_grad():
        model.h[2].mlp.c_proj.weight.mul_(3)
    assert dt.audit(model, IDS, constants=named).verdict == "REFUTED"


def test_constants_of_two_placements_stand_beside_each_other():
    both = exported(4)
    assert both.placements == ("pre-ln", "post-ln")
    assert Constants.from_json(both.to_json()) == both
    with pytest.raises(Refusal, match="do not say which layers are pre-ln and which are post-ln"):
        build(both)
    with pytest.raises(InputError, match=r"differ in placement, which is to be another"):
        both.beside(exported(4))
    with pytest.raises(InputError, match="differ in form"):
        exported(4).beside(of_kinds(8, "attention,ffn", placement="branch-multiplier"))
    pre_ln, post_ln = (
        dt.export(dt.Selection("adam", placement=p, stack="encoder-decoder"), (2, 2), width=D)
        for p in ("pre-ln", "post-ln")
    )
    with pytest.raises(InputError, match=r"differ in their parts$"):
        pre_ln.beside(post_ln)  # an encoder and its decoder
    model = GPT(4, vocab=V)
    model.h[0] = Skipping()
    with pytest.raises(
        Refusal, match=r"is attention, 3/4\*ffn, the constants are for attention, ffn"
    ):
        apply_(model, exported(4), inputs=IDS)


# ---------------------------------------------------------------------- effects and real steps


def with_alpha(n, d=D):
    """Mix-LN whose code multiplies the stream by the alpha that the rule asks for, S."""
    return mix_ln(n, d=d, lines=(lambda x, branch, norm: norm(2 * n * x + branch(x)), pre))


class KindWithAlpha(Block):
    def forward(self, x):
        x = pre(x, self.attn, self.ln_1)
        return self.ln_2(8 * x + self.mlp(x))
