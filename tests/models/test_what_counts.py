"""What counts in a branch: its scores, its activation's degree, numbers; and what stays unknown."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import Block, Stack, heads, joined, post, pre

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.models import read

D, K = 32, 8  # the width, and a head's
X = torch.randn(2, 12, D, generator=torch.Generator().manual_seed(0))


class Mixed(nn.Module):
    """Attention whose scores and values are written by a function of the heads."""

    def __init__(self, d, mix):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.mix = mix

    def forward(self, x):
        q, k, v = (heads(f(x)) for f in (self.q, self.k, self.v))
        return self.o(joined(self.mix(q, k, v, x)))


class Feed(nn.Module):
    def __init__(self, d, activation):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.activation = activation

    def forward(self, x):
        return self.down(self.activation(self.up(x)))


class Differential(Mixed):
    """The difference of two attentions, with a learnt number, under a norm."""

    def __init__(self, d):
        super().__init__(d, self.differ)
        self.second = nn.Parameter(torch.tensor(0.5))

    def differ(self, q, k, v, x):
        v = torch.cat(v.chunk(2, 1), -1).repeat(1, 2, 1, 1)
        one, two = F.scaled_dot_product_attention(q, k, v).chunk(2, 1)
        return F.rms_norm(one - self.second * two, (2 * K,))


class Routed(nn.Module):
    """Two of four feed-forwards; no gradient passes the choice, nor, unless ``weighed``, gates."""

    def __init__(self, d, weighed):
        super().__init__()
        self.router, self.weighed = nn.Linear(d, 4, bias=False), weighed
        self.each = nn.ModuleList(Feed(d, F.gelu) for _ in range(4))

    def forward(self, x):
        rows = x.flatten(0, 1)
        with torch.set_grad_enabled(self.weighed):
            scores = self.router(rows).sigmoid()
        with torch.no_grad():
            which = scores.view(-1, 4).topk(2)[1]
        gates = scores.gather(1, which)
        gates = gates / gates.sum(-1, keepdim=True)
        gates = torch.zeros_like(scores).scatter(1, which, gates)
        ys = [gates[:, i, None] * of(rows) for i, of in enumerate(self.each)]
        return (ys[0] + ys[1] + ys[2] + ys[3]).view_as(x)


def stack(mix=None, activation=None, line=None, model=Stack, layers=3, **options):
    torch.manual_seed(0)
    parts = {} if mix is None else {"attn": lambda d: Mixed(d, mix)}
    parts |= {} if activation is None else {"mlp": lambda d: Feed(d, activation)}
    parts |= {} if line is None else {"line": line}
    return model(layers, d=D, **parts, **options)


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
    s = read(stack(activation=activation), X).sublayers[1]
    assert s.kind == {1: "ffn", 2: "ffn-relu2"}.get(degree, "unknown")
    assert s.why == ("" if degree < 3 else (
        f"its hidden layer grows as the power {degree} of what its first matrices give, which has "
        "no law here"))  # fmt: skip


def test_a_number_that_is_learnt_between_two_attentions_has_no_law():
    reading = read(Stack(3, d=D, attn=Differential), X)
    assert not reading.understood and reading.sublayers[0].kind == "unknown"
    name = "h.0.attn.second"
    assert reading.sublayers[0].why == (
        f"what it mixes is multiplied by {name}, which has no law there"
    )


def test_a_router_may_choose_by_a_view_without_gradients_but_not_weigh_so():
    chosen, alone = (
        read(Stack(3, d=D, mlp=partial(Routed, weighed=w)), X).sublayers[1] for w in (True, False)
    )
    assert (chosen.kind, chosen.why) == ("ffn@2/4", "")
    assert alone.kind == "unknown"
    assert alone.why == "a router chooses experts, and no gradient reaches its matrix"


def bounded(z, c=15.0):
    return c * torch.tanh(z / c)


@pytest.mark.parametrize(
    "bound",
    [
        bounded,
        lambda z: 15 * (2 * torch.sigmoid(2 * z / 15) - 1),
        lambda z: torch.atan(z / 15) * 15,
        lambda z: z.clamp(-15, 15),
    ],
)
def test_a_soft_bound_is_no_multiplier(bound):
    plain, fused = F.gelu, F.scaled_dot_product_attention
    models = {
        "values": stack(lambda q, k, v, x: fused(q, k, bound(v))),
        "what is mixed": stack(lambda q, k, v, x: bound(fused(q, k, v))),
        "hidden layer": stack(activation=lambda z: bound(plain(z))),
        "branch": stack(line=lambda x, f, n: x + bound(f(n(x)))),
    }
    for where, model in models.items():
        for s in read(model, X).sublayers:
            assert (s.stream, s.branch) == pytest.approx((1, 1)), where
            assert [m.times for m in s.matrices] == pytest.approx([1] * len(s.matrices)), where
    half = stack(lambda q, k, v, x: fused(q, k, 7.5 * torch.tanh(v / 15)))
    assert [m.times for m in read(half, X).sublayers[0].matrices] == pytest.approx([1, 1, 0.5, 1])


class Open(Block):
    """A gate for each token, computed from the stream, is 1 at the start."""

    def __init__(self, line, d, **options):
        super().__init__(line, d, **options)
        self.gate = nn.Linear(d, 1)
        nn.init.zeros_(self.gate.weight)
        nn.init.ones_(self.gate.bias)

    def forward(self, x):
        for branch, norm in ((self.attn, self.ln_1), (self.mlp, self.ln_2)):
            y = norm(x)
            x = x + self.gate(y) * branch(y)
        return x


def test_a_computed_gate_costs_no_more_in_a_deep_stack():
    audit = dt.audit(Stack(16, d=D, block=Open), X)  # at 2^depth this does not end
    assert audit.verdict == "UNDECIDED" and "multiplied by values computed" in audit.refusal


class Lone(Block):
    """A feed-forward sublayer alone."""

    def forward(self, x):
        return self.line(x, self.mlp, self.ln_2)


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
    reading = read(stack(line=line, layers=1, final=final, block=Lone), X)
    assert [s.equation for s in reading.sublayers] == [equation]
    assert len(reading.norms) == final


def loops(z):
    for _ in range(700):
        z = F.relu(z)
    return z


def test_a_long_loop_is_left_alone_with_a_sentence():
    seen = []
    reading = read(stack(activation=loops), X, progress=lambda *at: seen.append(at))
    assert "operations, as a loop over tokens has; one of more than" in reading.sublayers[1].why
    assert reading.sublayers[0].kind == "attention"
    assert seen == [(i, 6, f"sublayer {i + 1} of 6") for i in range(6)]


# ------------------------------------------------------------------ branches by a formula


class Branch(nn.Module):
    """A branch from parameters and a formula of them."""

    def __init__(self, formula, **shapes):
        super().__init__()
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape) / D**0.5))
        self.formula = formula

    def forward(self, x):
        return self.formula(x, self)


def branches(make, **options):
    """A model whose feed-forward is another branch, and what is read of these."""
    torch.manual_seed(0)
    model = Stack(3, d=D, mlp=lambda d: make(), **options)
    return model, read(model, X)


def mixed(q, k, v):
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v)))


def in_parts(x, p):
    """Queries that are written part by part, as DeepSeek writes those with and without position."""
    q = x.new_empty(*x.shape[:-1], D)
    q[..., :4] = x @ p.q
    q[..., 4:] = x @ p.r
    return mixed(q, x @ p.k, x @ p.v) @ p.o


def test_a_query_may_be_made_of_several_parameters():
    shapes = {"q": (D, 4), "r": (D, D - 4)} | dict.fromkeys("kvo", (D, D))
    _, reading = branches(lambda: Branch(in_parts, **shapes))
    assert reading.understood
    for s in reading.sublayers[1::2]:
        rows = [(m.role, m.name.rpartition(".")[2], m.rows) for m in s.matrices]
        assert s.kind == "attention" and rows == [
            ("query", "q", [0, 4]), ("query", "r", [0, D - 4]), ("key", "k", [0, D]),
            ("value", "v", [0, D]), ("output", "o", [0, D]),
        ]  # fmt: skip


def test_a_weight_that_is_computed_is_read_as_it_is_used():
    formula = lambda x, p: F.relu(x @ (0.5 * p.a)) @ p.b  # noqa: E731
    model, reading = branches(lambda: Branch(formula, a=(D, 64), b=(64, D)))
    for s in reading.sublayers[1::2]:
        fc1, fc2 = s.matrices
        used = 0.5 * model.get_parameter(fc1.name)
        assert fc1.computed and not fc2.computed
        assert fc1.size == pytest.approx(float(used.square().mean().sqrt().detach()))


def test_torchs_own_attention_multiplies_no_query_and_no_key_of_other_sizes_than_values():
    """It then multiplies both by k^(-1/4), which together divides the scores by √k."""
    formula = lambda x, p: mixed(x @ p.q, x @ p.k, x @ p.v) @ p.o  # noqa: E731
    shapes = {"q": (D, 2 * D), "k": (D, 2 * D), "v": (D, D), "o": (D, D)}
    for s in branches(lambda: Branch(formula, **shapes))[1].sublayers[1::2]:
        assert s.kind == "attention" and [m.times for m in s.matrices] == pytest.approx([1.0] * 4)


def test_what_is_not_understood_is_named_and_roles_fill_the_gap():
    maps = (nn.Linear, D, 32), (nn.ReLU,), (nn.Linear, 32, 32), (nn.ReLU,), (nn.Linear, 32, D)
    model, reading = branches(lambda: nn.Sequential(*(of(*sizes) for of, *sizes in maps)))
    assert "h.0.mlp.0.weight" in reading.strange
    assert read(model, X, roles={"fc1": "*.mlp.0.weight"}).understood
    for wrong, roles, said in (
        (model, {"fc9": "*"}, "unknown role 'fc9'"),
        (model, {"fc1": "nothing"}, "no matrix without a role fits 'nothing'"),
        (nn.Sequential(nn.Linear(D, D)), {}, "Sequential has no residual stream"),
        (stack(line=lambda x, f, n: n.weight), {}, "does not depend on its inputs"),
    ):
        with pytest.raises(InputError, match=said):
            read(wrong, X, roles=roles)
