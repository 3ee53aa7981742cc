r"""The norms of a forward pass and its residual sums, :math:`x_{l+1} = a x_l + b\,G(x_l)`.

A norm, from a library or written by hand, is known by what it does: its output has the shape of
its input and does not change where the input is multiplied; nor, for a LayerNorm, where a constant
is added. A candidate is computed again on other inputs to see that.

A sum is written as what it is linear in, :math:`\sum_i c_i t_i`, through products with
numbers, views and further sums that nothing else uses. It is a residual one where all terms but
one depend on that one through a matrix.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from deepnet_theory.definitions import reading
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.models.operations import (
    CHOICES,
    ELEMENTWISE,
    LAYOUT,
    PRODUCTS,
    REDUCTIONS,
    SUMS,
    Term,
    bounded,
    multiple,
    onward,
    stripped,
    summands,
)
from deepnet_theory.models.recording import Graph, Node

LONGEST = 16  # operations of a norm written by hand
SHORT = 0.05  # of a size: the unbiased deviation of few entries is not quite one
TOLERANCE = 1e-3  # of entries near 1; the ε of a norm moves them by 1e-5
ROUNDINGS = 4  # that the tolerance allows for at least, in a coarser type


# ---- norms ----


@dataclass(frozen=True)
class RecordedNorm:
    """One norm: ``start`` → ``end``, gain and bias included, by the names of the parameters."""

    start: Node
    end: Node
    centred: bool
    gain: str | None = None
    bias: str | None = None
    size: float = 1.0  # root mean square of the gain's entries

    def placed(self, where: str, enters: tuple[str, ...] = ()) -> reading.FoundNorm:
        """The norm of a reading."""
        return reading.FoundNorm(where, self.centred, self.gain, self.bias, self.size, enters)


Norms = Mapping[Node, RecordedNorm]  # by the last node


def norms(graph: Graph) -> dict[Node, RecordedNorm]:
    """Every norm of a graph, by its last node."""
    by_end: dict[Node, RecordedNorm] = {}
    inner: set[Node] = set()
    for node in graph.nodes:
        if not node.live or node in inner:
            continue
        norm = _of_a_library(node)
        if norm is None and node.op in ("mul", "div"):
            norm = _by_hand(graph, node, by_end)
        if norm is None:
            continue
        if norm.gain is None:
            norm, used = _with_gain(graph, norm)
            inner |= used
        by_end[norm.end] = norm
    return by_end


def _of_a_library(node: Node) -> RecordedNorm | None:
    if node.op not in ("native_layer_norm", "_fused_rms_norm") or node.which != 0:
        return None
    centred = node.op == "native_layer_norm"
    gain, bias = node.args[2], node.args[3] if centred else None
    names = [vector.name if vector else None for vector in (gain, bias)]
    return RecordedNorm(node.args[0], node, centred, names[0], names[1], gain.rms if gain else 1.0)


def _by_hand(graph: Graph, end: Node, by_end: Container[Node]) -> RecordedNorm | None:
    """The norm that ends in a node; one of RMS behind the mean's subtraction is a LayerNorm."""
    start = _entry(end, by_end)
    norm = None if start is None else _normalising(graph, start, end)
    if norm is not None and not norm.centred and (x := _entry(norm.start, by_end)) is not None:
        whole = _normalising(graph, x, end)
        return whole if whole is not None and whole.centred else norm
    return norm


def _entry(end: Node, by_end: Container[Node]) -> Node | None:
    """The one node that all paths of a candidate come from, where it has a reduction.

    None where they come through the end of a norm: a multiple of its output is no other norm.
    """
    frontier = {n.index: n for n in end.live_inputs}
    reduced = False
    for _ in range(LONGEST):
        if len(frontier) == 1 and reduced:
            (start,) = frontier.values()
            return start if start.value.shape == end.value.shape else None
        if not frontier:
            return None
        node = frontier.pop(max(frontier))
        if node.op not in ELEMENTWISE or node in by_end:
            return None
        reduced |= node.op in REDUCTIONS
        frontier |= {n.index: n for n in node.live_inputs}
    return None


@torch.no_grad()
def _normalising(graph: Graph, start: Node, end: Node) -> RecordedNorm | None:
    """What leads from start to end, where that is a norm of the last axis."""
    generator = torch.Generator().manual_seed(0)
    x = torch.empty(start.value.shape).normal_(1.0, 1.0, generator=generator).to(start.value)
    tolerance = max(TOLERANCE, ROUNDINGS * torch.finfo(x.dtype).eps)

    def again(given: Tensor) -> Tensor:
        return graph.replay(end, {start: given}).float()

    def alike(other: Tensor) -> bool:
        return bool((y - other).abs().max() <= tolerance * y.abs().max())

    try:
        y, scaled, shifted = again(x), again(4 * x), again(x + 1)
    except (InputError, RuntimeError):
        return None
    if y.shape != x.shape or not y.isfinite().all() or not alike(scaled):
        return None
    rows = x.clone()
    rows[..., : x.shape[-1] // 2] *= 2  # a norm over another axis, or of signs alone, is none
    if alike(again(rows)):
        return None
    size = float(scaled.square().mean().sqrt())  # of the two, where an ε counts less
    return RecordedNorm(start, end, alike(shifted), size=size)


def _with_gain(graph: Graph, norm: RecordedNorm) -> tuple[RecordedNorm, set[Node]]:
    """A norm with its gain and bias, where they are written by hand behind it or within it."""
    gain, bias, size, end, used = None, None, norm.size, norm.end, {norm.end}
    for node in graph.between(norm.start, norm.end)[1:]:
        if node.op == "mul" and (vector := _vector(node)) is not None:
            gain = _parameter(vector) or gain
    while (user := graph.only_user(end)) is not None:
        vector = _vector(user)
        fits = vector is not None and vector.value.numel() in (1, norm.end.value.shape[-1])
        name = _parameter(vector) if vector is not None and fits else None
        if user.op == "mul" and name is not None and gain is None and bias is None:
            gain, size = name, size * (vector.rms if vector else 1.0)
        elif user.op == "add" and name is not None and bias is None:
            bias = name
        elif (c := _to_one(user, size)) is not None:
            size *= c
        elif user.op not in ("_to_copy", "clone"):
            break
        end = user
        used.add(user)
    return RecordedNorm(norm.start, end, norm.centred, gain, bias, size), used


def _to_one(node: Node, size: float) -> float | None:
    """The number that brings a vector of length one to entries of size one, as √d does."""
    if not node.number:
        return None
    c = node.number if node.op == "mul" else 1 / node.number
    return c if abs(size - 1) > SHORT and abs(size * c - 1) <= SHORT else None


def _vector(node: Node) -> Node | None:
    return next((n for n in node.inputs if not n.live), None)


def _parameter(vector: Node) -> str | None:
    """The parameter that a vector is made of, as ``1 + gain`` is."""
    parameters = vector.parameters
    return parameters[0].name if len(parameters) == 1 else None


# ---- residual sums ----


@dataclass(frozen=True)
class ResidualSum:
    """a x + Σ b_i G_i: the stream's term, and one term a branch (several in parallel)."""

    node: Node
    stream: Term
    branches: tuple[Term, ...]
    biases: tuple[str, ...] = ()  # parameters that are added as they are


class Sums:
    """All sums of a graph, among them the residual ones."""

    def __init__(self, graph: Graph, by_end: Norms) -> None:
        self.graph, self.norms = graph, by_end
        self.choices = sum(1 << n.index for n in graph.nodes if n.live and n.op in CHOICES)
        self.products = 0  # with a matrix of parameters, as bits
        for node in graph.nodes:
            if node.op in PRODUCTS and node.live and any(not n.live for n in node.inputs):
                self.products |= 1 << node.index
        self.wholes = {self.whole(n)[0] for n in graph.nodes if n.live and n.op in SUMS}
        self.known: dict[Node, ResidualSum] = {}  # by the last node, those found so far

    def residual(self) -> tuple[list[ResidualSum], list[ResidualSum]]:
        """The residual sums of sublayers, in order, and the skips past several sublayers."""
        skips = []
        for node in self.graph.nodes:
            is_sum = node.live and node.op in SUMS and node not in self.norms
            if not is_sum or not self.graph.is_used(node):
                continue
            inner: set[Node] = set()
            whole, factor = self.whole(node)
            s = self._as_residual(whole, [*self._terms(node, factor, inner, root=True)])
            if s is None:
                continue
            others = {n: other for n, other in self.known.items() if n not in inner}
            passed = [n for n, other in others.items() if self._passes(s, other)]
            one = others[passed[0]] if len(passed) == 1 else None
            if one is not None and self.through_matrix(s.stream.node, one.stream.node):
                del others[passed[0]]  # a sum of its branch's own, as among scores
            elif passed:
                skips.append(s)
                continue
            self.known = {**others, node: s}  # what it is made of are no sums of their own
        return list(self.known.values()), skips

    def _passes(self, s: ResidualSum, other: ResidualSum) -> bool:
        """Whether another residual sum lies within a branch."""
        return other.node is not s.stream.node and any(
            self.graph.depends(b.node, other.node) and self.graph.depends(other.node, s.stream.node)
            for b in s.branches
        )

    def whole(self, node: Node) -> tuple[Node, float]:
        """A sum with the numbers that multiply it as a whole."""
        last, factor = node, 1.0
        for user, times, learnt in onward(self.graph, node) if node not in self.norms else ():
            if user in self.norms or learnt is not None or bounded(user):
                break
            if times != factor:
                last, factor = user, times
        return last, factor

    def _as_residual(self, node: Node, terms: list[Term]) -> ResidualSum | None:
        live = _collected([t for t in terms if t.node.live])
        for stream in live:
            others = [t for t in live if t is not stream]
            if others and all(self.through_matrix(stream.node, t.node) for t in others):
                biases = tuple(t.node.name for t in terms if t.node.name is not None)
                return ResidualSum(node, stream, tuple(others), biases)
        return None

    def through_matrix(self, start: Node, end: Node) -> bool:
        """Whether a way from one node to another leads through a matrix of parameters."""
        ancestors = self.graph.ancestors
        bits = (ancestors[end.index] & self.products) >> start.index
        return any(
            bits >> i & 1 and ancestors[start.index + i] >> start.index & 1
            for i in range(1, bits.bit_length())
        )

    def _terms(
        self, node: Node, factor: float, inner: set[Node], root: bool = False,
        learnt: str | None = None,
    ) -> Iterator[Term]:  # fmt: skip
        """``factor`` times ``node`` as terms; a sum that others use too is a term of its own."""
        alone = root or self.graph.only_user(node) is not None
        shared = (node in self.wholes or node.op in SUMS) and not alone
        parts = None if node in self.norms or not node.live or shared else self._parts(node)
        if parts and bounded(node) and stripped(node, self.norms)[0] in self.known:
            parts = None  # a stream is bounded, and not a branch
        if parts is not None and node.op in SUMS:
            inner.add(node)
            if not root and self._is_weighed(node):
                parts = None  # experts are one branch
        elif parts is not None and not alone:  # what is multiplied is not this sum's own
            ((source, c, name),) = parts
            base, times = stripped(source, self.norms, self.wholes)
            if source in self.wholes:
                yield Term(base, factor * c * times, name or learnt)
                return
            if node.op not in LAYOUT and base not in self.norms:
                parts = None  # a stream starts here, as scaled embeddings
        if parts is None:
            yield Term(node, factor, learnt)
        for part, c, name in parts or ():
            yield from self._terms(part, factor * c, inner, learnt=name or learnt)

    def _parts(self, node: Node) -> list[Term] | None:
        """What a node is the sum of, or a multiple of."""
        if node.op in SUMS and not bounded(node):
            return summands(node)
        one = multiple(node)
        return None if one is None else [one]

    def _is_weighed(self, node: Node) -> bool:
        """Whether a term is experts', each multiplied by the gate that a router gives it."""
        if node.op in SUMS:
            parts = summands(node) or ()
            return bool(parts) and all(self._is_weighed(part) for part, _, _ in parts)
        gated = node.op == "mul" and len(node.live_inputs) == 2
        return gated and bool(self.graph.ancestors[node.index] & self.choices)


def _collected(terms: list[Term]) -> list[Term]:
    """Terms of one node as one, as in x + w(G − x)."""
    by_node: dict[Node, Term] = {}
    for t in terms:
        known = by_node.get(t.node, Term(t.node, 0.0))
        total = t.coefficient + known.coefficient
        by_node[t.node] = Term(t.node, total, t.learnt or known.learnt)
    return list(by_node.values())
