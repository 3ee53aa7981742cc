"""Scores with tables of positions (DeBERTa, XLNet): their matrices are read, judged and mended."""

from functools import partial

import pytest
import torch
from mended import audit_of_a_real_step, depth_exponents, put_right, times
from torch import nn
from written_models import GPT, Block, branch_step, heads, joined, started

import deepnet_theory as dt
from deepnet_theory.models import read

pytestmark = pytest.mark.usefixtures("unpredicted")

D, T = 32, 32
IDS = torch.randint(61, (2, T), generator=torch.Generator().manual_seed(0))
APART = (torch.arange(T)[:, None] - torch.arange(T)).clamp(-8, 7) + 8  # of 16 buckets


class Disentangled(nn.Module):
    """DeBERTa's: the query meets the key and its place, the key the query's; ``shared`` matrices.

    ``beside`` may be ``talk``, a matrix on the heads' scores, or ``value``, which meets places too:
    neither is a score of a query or a key with a table of positions.
    """

    def __init__(self, d, shared=False, beside=""):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.table = nn.Parameter(torch.randn(16, d))
        self.pos_k, self.pos_q = (nn.Linear(d, d, bias=False) for _ in range(2))
        if shared:
            self.pos_k, self.pos_q = self.k, self.q
        self.talk = nn.Parameter(torch.eye(4)) if beside == "talk" else None
        self.beside = beside

    def forward(self, x):
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        place_k, place_q = heads(self.pos_k(self.table[None])), heads(self.pos_q(self.table[None]))
        at = APART[: x.shape[1], : x.shape[1]].expand(len(x), 4, -1, -1)
        scores = q @ k.mT + (q @ place_k.mT).gather(-1, at) + (k @ place_q.mT).gather(-1, at).mT
        if self.beside == "value":
            scores = scores + (v @ place_k.mT).gather(-1, at)
        if self.talk is not None:
            scores = scores + torch.einsum("hg,bgij->bhij", self.talk, scores)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (scores / (3 * q.shape[-1]) ** 0.5).masked_fill(future, float("-inf"))
        return self.o(joined(scores.softmax(-1) @ v))


class Placed(Block):
    def __init__(self, line, d, **options):
        super().__init__(line, d)
        self.attn = Disentangled(d, **options)


def made(layers, d=D, **options):
    torch.manual_seed(layers)
    return GPT(layers, d=d, block=partial(Placed, **options))


def exported(layers, optimizer="adamw", d=D):
    rule = dt.derive(optimizer, placement="pre-ln", stack="decoder", closure="complete")
    return dt.export(rule, layers, width=d, heads=4, vocab=61)


@pytest.mark.parametrize("shared", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_matrices_of_positions_are_queries_and_keys(shared):
    model = made(2, shared=shared)
    found = read(model, IDS)
    own = {m.name.removeprefix("h.0.attn."): m.role for m in found.sublayers[0].matrices}
    places = {} if shared else {"pos_k.weight": "key", "pos_q.weight": "query"}
    assert own == {"q.weight": "query", "k.weight": "key", "v.weight": "value",
                   "o.weight": "output"} | places  # fmt: skip
    assert found.understood and found.select["layer"] == "attention,ffn"
    constants = exported(2)
    put_right(model, constants, IDS)
    with torch.no_grad():
        model.h[1].attn.pos_k.weight *= 4
    (finding,) = dt.audit(model, IDS, constants=constants).findings
    assert ("k" if shared else "pos_k") + ".weight" in finding.where
    assert finding.size == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ("talk", "values computed with h.0.attn.talk enter it"),
        (
            "value",
            "activations are multiplied, and not as in attention (h.0.attn.q.weight and 3 more)",
        ),
    ],
)
def test_other_scores_are_no_scores_of_positions(beside, why):
    found = read(made(2, beside=beside), IDS)
    assert why in found.sublayers[0].why and not found.understood


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_step_moves_a_mended_model_alike_at_every_depth(optimizer):
    mended, plain = depth_exponents(
        made, partial(exported, optimizer=optimizer), IDS, optimizer, [4, 8, 16]
    )
    assert abs(mended) < 0.15 and plain > 0.3


@pytest.mark.slow
@pytest.mark.usefixtures("predicted")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("path", ["attn.o.weight", "attn.v.weight", "mlp.c_proj.weight"])
def test_a_predicted_effect_is_that_of_a_real_step(path, optimizer):
    right = started(made(8, d=64))
    put_right(right, exported(8, optimizer, d=64), IDS)
    sgd = {"step": lambda g: g, "text": True} if optimizer == "sgd" else {}
    of = partial(branch_step, **sgd)
    audit_of_a_real_step(right, times(3, path), IDS, of, optimizer=optimizer)
