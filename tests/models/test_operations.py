"""What single operations of a recorded pass are taken for: multiples, sums, products and norms."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from deepnet_theory.models.branches import outputs_of
from deepnet_theory.models.factory import made
from deepnet_theory.models.operations import (
    as_product,
    bare,
    factors,
    is_linear,
    multiple,
    multiples,
    onward,
    stripped,
    summands,
)
from deepnet_theory.models.outer import tables_of
from deepnet_theory.models.recording import record
from deepnet_theory.models.sums import Sums, norms

D = 8
X = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(0))


class Formula(nn.Module):
    """Some line of code with the parameters w (a matrix), v (a vector) and c (a number)."""

    def __init__(self, line):
        super().__init__()
        torch.manual_seed(0)
        self.line, self.w = line, nn.Parameter(torch.randn(D, D))
        self.v, self.c = nn.Parameter(torch.full((D,), -2.0)), nn.Parameter(torch.tensor(3.0))
        self.rows, self.entries = nn.Parameter(torch.ones(4, D)), nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.line(x, self)


def graph_of(line, x=X):
    return record(made(Formula(line), x))


def end_of(line):
    return graph_of(line).outputs[0]


MULTIPLES = {  # of the input: the factor, and the parameter that it is
    "3 * x": (lambda x, p: 3 * x, 3, None),
    "x / 4": (lambda x, p: x / 4, 0.25, None),
    "-x": (lambda x, p: -x, -1, None),
    "c x": (lambda x, p: x * p.c, 3, "c"),
    "x / c": (lambda x, p: x / p.c, 1 / 3, "c"),
    "v x": (lambda x, p: p.v * x, -2, "v"),  # one factor a channel, by its rms and sign
    "an entry": (lambda x, p: p.entries[2] * x, 1, "entries[2]"),
    "an entry, unbound": (lambda x, p: p.entries.unbind()[1] * x, 1, "entries[1]"),
    "layout": (lambda x, p: x.transpose(0, 1), 1, None),
    "a mask of ones": (lambda x, p: x * (x[..., :1] == x[..., :1]).float(), 1, None),
}


@pytest.mark.parametrize("name", MULTIPLES)
def test_what_is_a_multiple_of_its_input(name):
    line, factor, learnt = MULTIPLES[name]
    graph = graph_of(line)
    term = multiple(graph.outputs[0])
    assert term.coefficient == pytest.approx(factor) and term.learnt == learnt
    assert term.node is graph.nodes[0]
    (*_, last) = (
        onward(graph, graph.nodes[0]) if "entr" not in name and "mask" not in name else [term]
    )
    assert (last.coefficient, last.learnt) == (term.coefficient, learnt)


@pytest.mark.parametrize(
    "line",
    [
        lambda x, p: p.v / x, lambda x, p: x + 1, lambda x, p: x * p.rows[:3], lambda x, p: x * x,
        lambda x, p: x[:, 1:], lambda x, p: x * (x[..., :1] > 0).float(), lambda x, p: x[0] @ p.w,
    ],
)  # fmt: skip
def test_what_is_no_multiple(line):
    assert multiple(end_of(line)) is None


def test_multiples_of_multiples_gather_their_factors():
    graph = graph_of(lambda x, p: -(2 * x).transpose(0, 1) / 8)
    end = graph.outputs[0]
    assert [t.coefficient for t in multiples(end)] == [1, 0.125, -0.125, -0.125, -0.25]
    assert stripped(end) == (graph.nodes[0], -0.25)
    (turned,) = (n for n in graph.nodes if n.op == "transpose")
    assert stripped(end, {turned}) == (turned, -0.125)
    assert [t.coefficient for t in onward(graph, graph.nodes[0])] == [2, 2, -2, -0.25]


SUMMED = {  # x and y = 2x: their coefficients
    "x + y": (lambda x, y, p: x + y, {1: 1, 2: 1}),
    "x - y": (lambda x, y, p: x - y, {1: 1, 2: -1}),
    "x + 3y": (lambda x, y, p: torch.add(x, y, alpha=3), {1: 1, 2: 3}),
    "x - 3y": (lambda x, y, p: torch.sub(x, y, alpha=3), {1: 1, 2: -3}),
    "y - 3x, turned": (lambda x, y, p: torch.rsub(x, y, alpha=3), {1: -3, 2: 1}),
    "lerp": (lambda x, y, p: torch.lerp(x, y, 0.25), {1: 0.75, 2: 0.25}),
    "lerp by c": (lambda x, y, p: torch.lerp(x, y, p.c), {1: -2, 2: 3}),
    "addcmul": (lambda x, y, p: torch.addcmul(x, y, p.v, value=0.5), {1: 1, 2: -1}),
    "addcmul, turned": (lambda x, y, p: torch.addcmul(x, p.v, y), {1: 1, 2: -2}),
}


@pytest.mark.parametrize("name", SUMMED)
def test_a_sum_has_its_terms(name):
    line, coefficients = SUMMED[name]
    end = end_of(lambda x, p: line(x, 2 * x, p))
    terms = {1 if t.node.op == "source" else 2: t.coefficient for t in summands(end)}
    assert terms == pytest.approx(coefficients)
    learnt = {t.learnt for t in summands(end)} - {None}
    assert learnt == ({"c"} if "by c" in name else {"v"} if "addcmul" in name else set())


def test_a_sum_by_computed_values_has_no_terms():
    assert summands(end_of(lambda x, p: torch.lerp(x, 2 * x, x))) is None
    assert summands(end_of(lambda x, p: torch.addcmul(x, x, 2 * x))) is None


PRODUCTS = {  # the axis of the outputs in the parameter, their first, and the bias
    "Linear": (lambda x, p: F.linear(x, p.w), (0, 0, None)),
    "with a bias": (lambda x, p: F.linear(x, p.w, p.v), (0, 0, "v")),
    "a bias behind": (lambda x, p: x @ p.w.T + p.v, (0, 0, "v")),
    "Conv1D": (lambda x, p: x @ p.w, (1, 0, None)),
    "rows": (lambda x, p: F.linear(x, p.w[4:6]), (0, 4, None)),
    "columns": (lambda x, p: x @ p.w[:, 2:5], (1, 2, None)),
    "on the left": (lambda x, p: p.w @ x[0].T, (0, 0, None)),
    "computed": (lambda x, p: F.linear(x, 2 * p.w), (0, None, None)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_has_the_matrix_as_it_uses_it(name):
    line, (axis, offset, bias) = PRODUCTS[name]
    graph = graph_of(line)
    (product,) = filter(None, (as_product(graph, n) for n in graph.nodes))
    assert (product.axis, product.offset, product.bias) == (axis, offset, bias)
    assert product.name == "w" and product.stacked == 1
    w = Formula(None).w.detach()
    rows = w if axis == 0 else w.T
    start = offset or 0
    wanted = rows[start : start + len(product.matrix)] * (1 if offset is not None else 2)
    torch.testing.assert_close(product.matrix, wanted)
    assert factors(product.node)[int(name == "on the left")] in (
        product.source,
        bare(product.source),
    )


def test_what_multiplies_no_matrix_of_parameters_is_no_product():
    for line in (lambda x, p: x @ x.mT, lambda x, p: x @ torch.ones(D, D), lambda x, p: 2 * x):
        graph = graph_of(line)
        assert not any(as_product(graph, n) for n in graph.nodes)


def test_what_is_linear_in_what_depends_on_the_input():
    linear = (lambda x, p: 2 * x, lambda x, p: x - p.v, lambda x, p: x.chunk(2)[0])
    assert all(is_linear(end_of(line)) for line in linear)
    others = (lambda x, p: x * x, lambda x, p: x.relu(), lambda x, p: x / x, lambda x, p: p.v / x)
    assert not any(is_linear(end_of(line)) for line in others)


def test_between_two_nodes_lies_what_depends_on_one_and_enters_the_other():
    graph = graph_of(lambda x, p: (2 * x + p.v).relu() + (3 * x) * 5 + p.c)
    double = next(n for n in graph.nodes if n.number == 2)
    assert [n.op for n in graph.between(double, graph.outputs[0])] == [
        "mul", "add", "relu", "add", "add",
    ]  # fmt: skip
    triple = next(n for n in graph.nodes if n.number == 3)
    first = next(n for n in graph.nodes if n.op == "relu")
    assert graph.between(triple, first) == [] and graph.between(first, first) == [first]
    assert graph.depends(graph.outputs[0], triple) and not graph.depends(triple, graph.outputs[0])
    assert graph.only_user(double).op == "add" and graph.only_user(graph.nodes[0]) is None


FELT = {  # which outputs of x w the end feels
    "all": (lambda y: F.gelu(y).transpose(0, 1) + 1, range(D)),
    "where they are positive": (lambda y: y.relu().view(-1), range(D)),
    "a slice": (lambda y: y[..., 2:5] + 1, [2, 3, 4]),
    "a part": (lambda y: y.split([2, 6], -1)[0], [0, 1]),
    "one": (lambda y: y[..., 3], [3]),
    "masked": (lambda y: y * torch.arange(D).gt(5), [6, 7]),
    "less itself": (lambda y: y - y, []),
}


@pytest.mark.parametrize("name", FELT)
def test_the_outputs_of_a_product_that_an_end_feels(name):
    line, felt = FELT[name]
    graph = graph_of(lambda x, p: line(x @ p.w))
    product = next(filter(None, (as_product(graph, n) for n in graph.nodes)))
    assert outputs_of(graph, product, graph.outputs[0]) == list(felt)
    assert outputs_of(graph, product, graph.nodes[0]) == []


def test_a_replay_takes_other_values_and_leaves_the_rest():
    graph = graph_of(lambda x, p: (2 * x + p.v).relu() * (x + 1))
    end, (x, double) = graph.outputs[0], (graph.nodes[0], graph.nodes[1])
    v = torch.full((D,), -2.0)
    assert torch.equal(graph.replay(end, {x: X + 1}), (2 * (X + 1) + v).relu() * (X + 1 + 1))
    assert torch.equal(graph.replay(end, {double: X}), (X + v).relu() * (X + 1))
    assert graph.replay(double, {end: X}) is double.value


NORMS = {  # written by hand: centred, gain, bias, and the size of its output
    "RMS": (lambda x, p: x * x.square().mean(-1, True).rsqrt(), (False, None, None, 1)),
    "RMS, gain": (lambda x, p: p.v * (x / x.square().mean(-1, True).sqrt()), (False, "v", None, 2)),
    "1 + gain": (
        lambda x, p: x / x.square().mean(-1, True).sqrt() * (1 + p.v), (False, "v", None, 1),
    ),
    "length one": (lambda x, p: x / x.norm(dim=-1, keepdim=True), (False, None, None, D**-0.5)),
    "length √d": (
        lambda x, p: x / x.norm(dim=-1, keepdim=True) * math.sqrt(D), (False, None, None, 1),
    ),
    "layer": (
        lambda x, p: (x - x.mean(-1, True)) / x.var(-1, keepdim=True, correction=0).sqrt(),
        (True, None, None, 1),
    ),
    "library": (lambda x, p: F.layer_norm(x, (D,), p.v, p.v), (True, "v", "v", 2)),
    "library, RMS": (lambda x, p: F.rms_norm(x, (D,), p.v), (False, "v", None, 2)),
    "gain and bias": (
        lambda x, p: F.layer_norm(x, (D,)) * p.v + p.rows[0], (True, "v", "rows", 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_is_known_by_what_it_does(name):
    line, (centred, gain, bias, size) = NORMS[name]
    graph = graph_of(lambda x, p: line(2 * x, p).relu())
    (norm,) = norms(graph).values()
    assert (norm.centred, norm.gain, norm.bias) == (centred, gain, bias)
    assert norm.size == pytest.approx(size, rel=0.02)
    assert norm.start.op == "mul" and norm.end is graph.outputs[0].inputs[0]


@pytest.mark.parametrize(
    "line",
    [
        lambda x, p: x / x.square().mean(1, True).sqrt(),  # over tokens
        lambda x, p: x * x.sign(), lambda x, p: x / x.abs().max(),
        lambda x, p: x * x.mean(-1, True),
        lambda x, p: x / (1 + x.square().mean(-1, True)).sqrt(),
    ],
)  # fmt: skip
def test_what_is_no_norm_of_the_last_axis(line):
    assert norms(graph_of(lambda x, p: line(2 * x, p).relu())) == {}


def test_a_residual_sum_has_its_stream_and_its_branches():
    def sums_of(line):
        graph = graph_of(line)
        return Sums(graph, norms(graph)).residual()

    (one,), skips = sums_of(lambda x, p: 3 * x + 0.5 * F.linear(x.relu(), p.w) + p.v)
    (branch,) = one.branches
    assert (one.stream.coefficient, branch.coefficient, one.biases) == (3, 0.5, ("v",))
    assert skips == []
    (two,), _ = sums_of(lambda x, p: x + F.linear(x, p.w) + p.c * F.linear(x.relu(), p.w))
    assert [(b.coefficient, b.learnt) for b in two.branches] == [(1, None), (3, "c")]
    (half,), _ = sums_of(lambda x, p: (x + F.linear(x, p.w)) / 2)
    assert (half.stream.coefficient, half.branches[0].coefficient) == (0.5, 0.5)
    assert sums_of(lambda x, p: x + x.relu()) == ([], [])
    assert sums_of(lambda x, p: F.linear(x, p.w) + F.linear(x.relu(), p.w)) == ([], [])

    def skipping(x, p):
        y = x + F.linear(x, p.w)
        z = y + F.linear(y.relu(), p.w)
        return x + F.linear(z.relu() + z, p.w)

    found, (skip,) = sums_of(skipping)
    assert len(found) == 2 and skip.stream.node.op == "source"


def test_a_stream_starts_from_tables_by_tokens_and_by_places():
    ids, places = torch.tensor([[0, 1, 3]]), torch.linspace(0, 1, 3 * D).view(3, D)

    def started(line):
        graph = graph_of(line, ids)
        return tables_of(graph.outputs[0], "decoder")

    (rows, sines) = started(lambda x, p: 2 * F.embedding(x, p.rows) + places)
    assert (rows.name, rows.rows, rows.times, rows.size, rows.of_inputs) == ("rows", 4, 2, 1, True)
    assert (sines.name, sines.rows, sines.times, sines.of_inputs) == ("", 0, 1, False)
    (_, learnt) = started(lambda x, p: F.embedding(x, p.rows) + p.w[:3])
    assert (learnt.name, learnt.rows, learnt.of_inputs) == ("w", D, False)
    (quarter,) = started(lambda x, p: F.embedding(x, 2 * p.rows / 16) * 2)
    assert (quarter.name, quarter.times, quarter.of_inputs) == ("rows", 0.25, True)
    assert started(lambda x, p: F.embedding(x, p.rows).relu()) == ()
