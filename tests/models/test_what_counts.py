"""What counts in a branch: its scores, its activation's degree, numbers; and what stays unknown."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import Lone, Stack, heads, joined, post, pre

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.models import read

D, K = 32, 8  # the width, and a head's
X = torch.randn(2, 12, D, generator=torch.Generator().manual_seed(0))
HEADS = dict.fromkeys("qkvo", (D, D))
MAPS = {"a": (D, 4 * D), "b": (4 * D, D)}


class Branch(nn.Module):
    """A branch from parameters and a formula of them."""

    def __init__(self, formula, shapes):
        super().__init__()
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape) / D**0.5))
        self.formula = formula

    def forward(self, x):
        return self.formula(x, self)


def written(formula, shapes, layers=3, **options):
    """A model whose feed-forward is another branch, and what is read of these."""
    torch.manual_seed(0)
    model = Stack(layers, d=D, mlp=lambda d: Branch(formula, shapes), **options)
    return model, read(model, X).sublayers[1::2]


def attends(mix, **options):
    """The branches of an attention by what it does with its heads."""
    formula = lambda x, p: joined(mix(*(heads(x @ w) for w in (p.q, p.k, p.v)), p)) @ p.o  # noqa: E731
    return written(formula, HEADS | options.pop("more", {}), **options)[1]


def feeds(activation, **options):
    """The branches of a feed-forward by its activation."""
    return written(lambda x, p: activation(x @ p.a) @ p.b, MAPS, **options)[1]


class Own(torch.autograd.Function):
    """A function with a gradient of its own, as BLOOM's GELU is."""

    @staticmethod
    def forward(context, z):
        return z.sigmoid() * z


DEGREES = {
    "a function of its own": (Own.apply, 1), "none, of two factors": (torch.clone, 0),
    "tanh": (torch.tanh, 1), "silu to the power 2": (lambda z: F.silu(z) ** 2, 2),
    "relu cubed": (lambda z: F.relu(z) ** 3, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", DEGREES)
def test_the_degree_of_an_activation_is_measured(name):
    activation, degree = DEGREES[name]
    s = feeds(activation)[0]
    assert s.kind == {1: "ffn", 2: "ffn-relu2"}.get(degree, "unknown")
    assert s.why == ("" if degree < 3 else (
        f"its hidden layer grows as the power {degree} of what its first matrices give, which has "
        "no law here"))  # fmt: skip


def differential(q, k, v, p):
    """The difference of two attentions, with a learnt number, under a norm."""
    v = torch.cat(v.chunk(2, 1), -1).repeat(1, 2, 1, 1)
    one, two = F.scaled_dot_product_attention(q, k, v).chunk(2, 1)
    return F.rms_norm(one - p.second * two, (2 * K,))


def test_a_number_that_is_learnt_between_two_attentions_has_no_law():
    s = attends(differential, more={"second": ()})[0]
    assert s.kind == "unknown"
    assert s.why == "what it mixes is multiplied by h.0.mlp.second, which has no law there"


@pytest.mark.parametrize(
    "bound",
    [
        lambda z: 15 * torch.tanh(z / 15),
        lambda z: 15 * (2 * torch.sigmoid(2 * z / 15) - 1),
        lambda z: torch.atan(z / 15) * 15,
        lambda z: z.clamp(-15, 15),
    ],
)
def test_a_soft_bound_is_no_multiplier(bound):
    fused = F.scaled_dot_product_attention
    for branches in (
        attends(lambda q, k, v, p: fused(q, k, bound(v))),
        attends(lambda q, k, v, p: bound(fused(q, k, v))),
        feeds(lambda z: bound(F.gelu(z))),
        feeds(F.gelu, line=lambda x, f, n: x + bound(f(n(x)))),
    ):
        for s in branches:
            assert (s.stream, s.branch) == pytest.approx((1, 1))
            assert [m.times for m in s.matrices] == pytest.approx([1] * len(s.matrices))
    half = attends(lambda q, k, v, p: fused(q, k, 7.5 * torch.tanh(v / 15)))
    assert [m.times for m in half[0].matrices] == pytest.approx([1, 1, 0.5, 1])


def test_a_computed_gate_costs_no_more_in_a_deep_stack():
    gated = lambda x, p: (1 + x @ p.gate) * (F.gelu(x @ p.a) @ p.b)  # noqa: E731
    model, _ = written(gated, MAPS | {"gate": (D, 1)}, layers=16)  # at 2^depth this does not end
    audit = dt.audit(model, X)
    assert audit.verdict == "UNDECIDED" and "multiplied by values computed" in audit.refusal


@pytest.mark.parametrize(
    ("line", "final", "equation"),
    [
        (pre, True, "x + branch(norm(x))"),
        (lambda x, f, n: x + n(f(x)), True, "x + norm(branch(x))"),
        (post, False, "norm(x + branch(x))"),
    ],
)
def test_the_norm_behind_a_lone_sublayer_is_the_final_one_where_the_sublayer_has_its_own(
    line, final, equation
):
    reading = read(Stack(1, line, D, final, block=Lone), X)
    assert [s.equation for s in reading.sublayers] == [equation]
    assert len(reading.norms) == final


def loops(z):
    for _ in range(700):
        z = F.relu(z)
    return z


def test_a_long_loop_is_left_alone_with_a_sentence():
    model, seen = written(lambda x, p: loops(x @ p.a) @ p.b, MAPS)[0], []
    attention, feed, *_ = read(model, X, progress=lambda *at: seen.append(at)).sublayers
    assert "operations, as a loop over tokens has; one of more than" in feed.why
    assert attention.kind == "attention"
    assert seen == [(i, 6, f"sublayer {i + 1} of 6") for i in range(6)]


def mixed(q, k, v):
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v)))


def in_parts(x, p):
    """Queries that are written part by part, as DeepSeek writes those with and without position."""
    q = x.new_empty(*x.shape[:-1], D)
    q[..., :4] = x @ p.q
    q[..., 4:] = x @ p.r
    return mixed(q, x @ p.k, x @ p.v) @ p.o


def test_a_query_may_be_made_of_several_parameters():
    for s in written(in_parts, HEADS | {"q": (D, 4), "r": (D, D - 4)})[1]:
        rows = [(m.role, m.name.rpartition(".")[2], m.rows) for m in s.matrices]
        assert s.kind == "attention" and rows == [
            ("query", "q", [0, 4]), ("query", "r", [0, D - 4]), ("key", "k", [0, D]),
            ("value", "v", [0, D]), ("output", "o", [0, D]),
        ]  # fmt: skip


def test_a_weight_that_is_computed_is_read_as_it_is_used():
    model, branches = written(lambda x, p: F.relu(x @ (0.5 * p.a)) @ p.b, MAPS)
    for s in branches:
        fc1, fc2 = s.matrices
        used = 0.5 * model.get_parameter(fc1.name)
        assert fc1.computed and not fc2.computed
        assert fc1.size == pytest.approx(float(used.square().mean().sqrt().detach()))


def test_torchs_own_attention_multiplies_no_query_and_no_key_of_other_sizes_than_values():
    """It then multiplies both by k^(-1/4), which together divides the scores by √k."""
    formula = lambda x, p: mixed(x @ p.q, x @ p.k, x @ p.v) @ p.o  # noqa: E731
    for s in written(formula, HEADS | {"q": (D, 2 * D), "k": (D, 2 * D)})[1]:
        assert s.kind == "attention" and [m.times for m in s.matrices] == pytest.approx([1.0] * 4)


def test_what_is_not_understood_is_named_and_roles_fill_the_gap():
    deep = lambda x, p: F.relu(F.relu(x @ p.a) @ p.b) @ p.c  # noqa: E731
    model, _ = written(deep, {"a": (D, 32), "b": (32, 32), "c": (32, D)})
    assert "h.0.mlp.a" in read(model, X).strange
    assert read(model, X, roles={"fc1": "*.mlp.a"}).understood
    blind = Stack(3, lambda x, f, n: n.weight, D)
    for wrong, roles, said in (
        (model, {"fc9": "*"}, "unknown role 'fc9'"),
        (model, {"fc1": "nothing"}, "no matrix without a role fits 'nothing'"),
        (nn.Sequential(nn.Linear(D, D)), {}, "Sequential has no residual stream"),
        (blind, {}, "does not depend on its inputs"),
    ):
        with pytest.raises(InputError, match=said):
            read(wrong, X, roles=roles)
