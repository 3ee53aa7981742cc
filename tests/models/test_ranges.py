"""Stacks of ranges of layers: what differs is said, and no rule is asked of them."""

import pytest
import torch
from written_models import GPT, Block, SwiGLU, post, pre

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.subject import differences
from deepnet_theory.models import read
from deepnet_theory.models.audit import of_constants
from deepnet_theory.sizes.wanted import wanted

pytestmark = pytest.mark.usefixtures("unmeasured")

D, V = 32, 61
IDS = torch.randint(V, (2, 16), generator=torch.Generator().manual_seed(0))


class Skipping(Block):
    """A layer without a feed-forward."""

    def forward(self, x):
        return self.line(x, self.attn, self.ln_1)


def mix_ln(n):
    model = GPT(n, d=D, vocab=V)
    for index, block in enumerate(model.h):
        block.line = post if index < n // 4 else pre
    return model


def dense_first(n):
    """DeepSeek's: plain feed-forwards, then gated ones."""
    model = GPT(n, d=D, vocab=V)
    for block in model.h[1:]:
        block.mlp = SwiGLU(D)
    return model


def without_last(n):
    model = GPT(n, d=D, vocab=V)
    model.h[-1] = Skipping(pre, D)
    return model


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            mix_ln(8),
            "norms stand in several ways, layer 0 of the decoder: norm(x + branch(x)); layer 2",
        ),
        (dense_first(4), "layer 0 is attention,ffn, others are attention,ffn-swiglu, and no rule"),
        (without_last(4), "layer 3 is attention, others are attention,ffn, and no rule here"),
    ],
    ids=["mix-ln", "dense-first", "last-without"],
)
def test_layers_that_differ_are_said_and_are_held_against_no_rule(model, says):
    audit = dt.audit(model, IDS, optimizer="adam")
    assert (audit.verdict, audit.against) == ("UNDECIDED", None)
    assert says in audit.refusal and says in " ".join(str(audit).split())
    constants = dt.export(dt.Selection("adam", placement="pre-ln", stack="decoder"), 8, width=D)
    with pytest.raises(Refusal, match="the constants are for"):
        apply_(model, constants, inputs=IDS)


def test_a_norm_left_out_in_one_layer_is_its_fault_and_no_range():
    constants = dt.export(
        dt.Selection("adam", placement="pre-ln", stack="decoder", closure="complete"),
        6, width=D, heads=4, vocab=V,
    )  # fmt: skip
    model = GPT(6, d=D, vocab=V)
    apply_(model, constants, inputs=IDS)
    model.h[1].line = lambda x, branch, norm: x + branch(x)
    found = read(model, IDS)
    for rule in (wanted(found, "adam")[0], of_constants(found, constants)):
        of_norms = [found.sublayers[d.index] for d in differences(found, rule) if d.item == "norms"]
        assert [(s.layer, s.kind) for s in of_norms] == [(1, "attention"), (1, "ffn")]
