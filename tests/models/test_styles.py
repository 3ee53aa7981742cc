"""The ways in which people write residual sums, norms and branches; and what stays unknown."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import heads, joined

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.models import read

D = 16
X = torch.randn(2, 6, D, generator=torch.Generator().manual_seed(0))


class Stack(nn.Module):
    """Three residual feed-forward sublayers around a line of your own."""

    def __init__(self, line, branch, **own):
        super().__init__()
        torch.manual_seed(0)
        self.line = line
        self.branches = nn.ModuleList(branch() for _ in range(3))
        self.norms = nn.ModuleList(own.get("norm", lambda: nn.LayerNorm(D))() for _ in range(3))
        self.s = nn.Parameter(own.get("s", torch.tensor([0.3])))

    def forward(self, x):
        for branch, norm in zip(self.branches, self.norms, strict=True):
            x = self.line(x, branch, norm, self.s)
        return x


def scaled(x, f, n, s):
    return x + 0.1 * f(n(x))


# ----------------------------------------------------------------------------------- branches


class Branch(nn.Module):
    """A branch from parameters and a formula of them."""

    def __init__(self, formula, **shapes):
        super().__init__()
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape) / D**0.5))
        self.formula = formula

    def forward(self, x):
        return self.formula(x, self)


def mlp():
    return nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))


def mixed(q, k, v, mask=None):
    return joined(F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True))


def in_parts(x, p):
    """Queries that are written part by part, as DeepSeek writes those with and without position."""
    q = x.new_empty(*x.shape[:-1], D)
    q[..., :4] = x @ p.q
    q[..., 4:] = x @ p.r
    return mixed(heads(q), heads(x @ p.k), heads(x @ p.v)) @ p.o


def test_a_query_may_be_made_of_several_parameters():
    shapes = {"q": (D, 4), "r": (D, D - 4)} | dict.fromkeys("kvo", (D, D))
    reading = read(Stack(scaled, lambda: Branch(in_parts, **shapes)), X)
    assert reading.understood
    for i, s in enumerate(reading.sublayers):
        rows = [(m.role, m.name.removeprefix(f"branches.{i}."), m.rows) for m in s.matrices]
        assert s.kind == "attention" and rows == [
            ("query", "q", [0, 4]), ("query", "r", [0, 12]), ("key", "k", [0, 16]),
            ("value", "v", [0, 16]), ("output", "o", [0, 16]),
        ]  # fmt: skip


def test_a_weight_that_is_computed_is_read_as_it_is_used():
    formula = lambda x, p: F.relu(x @ (0.5 * p.a)) @ p.b  # noqa: E731
    model = Stack(scaled, lambda: Branch(formula, a=(D, 64), b=(64, D)))
    for s in read(model, X).sublayers:
        fc1, fc2 = s.matrices
        used = 0.5 * model.get_parameter(fc1.name)
        assert fc1.computed and not fc2.computed
        assert fc1.size == pytest.approx(float(used.square().mean().sqrt().detach()))


def test_torchs_own_attention_multiplies_no_query_and_no_key_of_other_sizes_than_values():
    """It then multiplies both by k^(-1/4), which together divides the scores by √k."""
    formula = lambda x, p: mixed(heads(x @ p.q), heads(x @ p.k), heads(x @ p.v)) @ p.o  # noqa: E731
    shapes = {"q": (D, 2 * D), "k": (D, 2 * D), "v": (D, D), "o": (D, D)}
    for s in read(Stack(scaled, lambda: Branch(formula, **shapes)), X).sublayers:
        assert s.kind == "attention" and [m.times for m in s.matrices] == pytest.approx([1.0] * 4)


# -------------------------------------------------------------------------------- the unknown


def test_what_is_not_understood_is_named_and_roles_fill_the_gap():
    deep = lambda: nn.Sequential(  # noqa: E731
        nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, D)
    )
    model = Stack(scaled, deep)
    assert "branches.0.0.weight" in read(model, X).strange
    roles = {"fc1": "*.0.weight"}
    assert read(model, X, roles=roles).understood
    with pytest.raises(InputError, match="unknown role 'fc9'"):
        read(model, X, roles={"fc9": "*"})
    with pytest.raises(InputError, match="no matrix without a role fits 'nothing'"):
        read(model, X, roles={"fc1": "nothing"})
    with pytest.raises(InputError, match="Sequential has no residual stream"):
        read(mlp(), X)
    with pytest.raises(InputError, match="does not depend on its inputs"):
        read(Stack(lambda x, f, n, s: 2 * s, mlp), X)
