r"""The residual sums of a forward pass: x_{l+1} = a x_l + b G(x_l), with both coefficients.

A sum is written as what it is linear in, :math:`\sum_i c_i t_i`, through products with
numbers, views and further sums that nothing else uses. It is a residual one where all terms but
one depend on that one through a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass

from deepnet_theory.models.norms import Norm
from deepnet_theory.models.recording import LAYOUT, Graph, Node

SUMS = {"add", "sub", "rsub", "lerp", "addcmul"}
GROUPED = {"_grouped_mm", "grouped_mm_fallback"}  # a matrix for each group of rows
CHOICES = {"topk", "argmax"}  # of experts, by a router
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "convolution", "dot"} | GROUPED


@dataclass(frozen=True)
class Term:
    """One term of a sum: ``coefficient`` times ``node``; ``learnt`` names its parameter."""

    node: Node
    coefficient: float
    learnt: str | None = None


@dataclass(frozen=True)
class ResidualSum:
    """a x + Σ b_i G_i: the stream's term, and one term a branch (several in parallel)."""

    node: Node
    stream: Term
    branches: tuple[Term, ...]
    biases: tuple[str, ...] = ()  # parameters that are added as they are


class Sums:
    """All sums of a graph, among them the residual ones."""

    def __init__(self, graph: Graph, found: dict[Node, Norm]) -> None:
        self.graph, self.norms = graph, found
        self.choices = sum(1 << n.index for n in graph.nodes if n.live and n.op in CHOICES)
        self.products = 0  # with a matrix of parameters, as bits
        for node in graph.nodes:
            if node.op in PRODUCTS and node.live and any(not n.live for n in node.inputs):
                self.products |= 1 << node.index
        self.wholes = {self.whole(n)[0] for n in graph.nodes if n.live and n.op in SUMS}

    def residual(self) -> tuple[list[ResidualSum], list[ResidualSum]]:
        """The residual sums of sublayers, in order, and the skips past several sublayers."""
        found: dict[Node, ResidualSum] = {}
        skips = []
        for node in self.graph.nodes:
            is_sum = node.live and node.op in SUMS and node not in self.norms
            if not is_sum or not self.graph.is_used(node):
                continue
            inner: set[Node] = set()
            whole, factor = self.whole(node)
            s = self._as_residual(whole, self.terms(node, factor, inner, root=True))
            if s is None:
                continue
            others = {n: other for n, other in found.items() if n not in inner}
            passed = [n for n, other in others.items() if self._passes(s, other)]
            one = others[passed[0]] if len(passed) == 1 else None
            if one is not None and self.through_matrix(s.stream.node, one.stream.node):
                del others[passed[0]]  # a sum of its branch's own, as among scores
            elif passed:
                skips.append(s)
                continue
            found = {**others, node: s}  # what it is made of are no sums of their own
        return list(found.values()), skips

    def _passes(self, s: ResidualSum, other: ResidualSum) -> bool:
        """Whether another residual sum lies within a branch."""
        return other.node is not s.stream.node and any(
            self.graph.depends(b.node, other.node) and self.graph.depends(other.node, s.stream.node)
            for b in s.branches
        )

    def whole(self, node: Node) -> tuple[Node, float]:
        """A sum with the numbers that multiply it as a whole."""
        last, factor, now = node, 1.0, 1.0
        while node not in self.norms and (user := self.graph.only_user(node)) is not None:
            scaled = multiple(user)
            if user in self.norms or scaled is None or scaled[2] is not None:
                break
            node, now = user, now * scaled[1]
            if now != factor:
                last, factor = node, now
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

    def terms(
        self, node: Node, factor: float, inner: set[Node], root: bool = False,
        learnt: str | None = None,
    ) -> list[Term]:  # fmt: skip
        """``factor`` times ``node`` as terms; a sum that others use too is a term of its own."""
        alone = root or self.graph.only_user(node) is not None
        shared = (node in self.wholes or node.op in SUMS) and not alone
        if node in self.norms or not node.live or shared:
            return [Term(node, factor, learnt)]
        if node.op in SUMS:
            parts = linear(node)
            if parts is None:
                return [Term(node, factor, learnt)]
            inner.add(node)
            if not root and self._is_weighed(node):
                return [Term(node, factor, learnt)]  # experts are one branch
            return [
                term
                for part, c, name in parts
                for term in self.terms(part, factor * c, inner, learnt=name or learnt)
            ]
        scaled = multiple(node)
        if scaled is None:
            return [Term(node, factor, learnt)]
        source, c, name = scaled
        if not alone:  # what is multiplied is not this sum's own
            base, times = stripped(source, self.norms, self.wholes)
            if source in self.wholes:
                return [Term(base, factor * c * times, name or learnt)]
            if node.op not in LAYOUT and base not in self.norms:
                return [Term(node, factor, learnt)]  # a stream starts here, as scaled embeddings
        return self.terms(source, factor * c, inner, learnt=name or learnt)

    def _is_weighed(self, node: Node) -> bool:
        """Whether a term is experts', each multiplied by the gate that a router gives it."""
        if node.op in SUMS:
            parts = linear(node) or ()
            return bool(parts) and all(self._is_weighed(part) for part, _, _ in parts)
        gated = node.op == "mul" and len(node.live_inputs) == 2
        return gated and bool(self.graph.ancestors[node.index] & self.choices)


def multiple(node: Node) -> tuple[Node, float, str | None] | None:
    """The node that this one is a multiple or another layout of."""
    live = node.live_inputs
    if node.op == "mul" and len(live) == 2:  # a mask that lets all tokens pass
        passed = (x for mask, x in (live, live[::-1]) if _lets_pass(mask, x))
        return next(((x, 1.0, None) for x in passed), None)
    if len(live) != 1:
        return None
    (source,) = live
    if node.op in LAYOUT:
        same = source.value.numel() == node.value.numel() or node.op == "expand"
        return (source, 1.0, None) if same else None
    if node.op == "neg":
        return source, -1.0, None
    if node.op in ("mul", "div") and len(node.args) == 2:
        left, right = node.args
        if node.op == "div" and right is source:
            return None
        other = right if left is source else left
        c = _number(other, source)
        if c is not None and (node.op == "mul" or c):
            return source, c if node.op == "mul" else 1 / c, _name(other)
    return None


def _lets_pass(mask: Node, x: Node) -> bool:
    """Whether one number a token, of no parameter, is 1 for all."""
    of_tokens = mask.value.dim() == x.value.dim() and mask.value.shape[-1] == 1
    return of_tokens and bool((mask.value == 1).all()) and not mask.parameters


def stripped(node: Node, *stops: Container[Node]) -> tuple[Node, float]:
    """A node without layout and numbers, down to one of the stops; and the numbers' product."""
    factor = 1.0
    while not any(node in stop for stop in stops) and (of := multiple(node)) is not None:
        node, factor = of[0], factor * of[1]
    return node, factor


def linear(node: Node) -> list[tuple[Node, float, str | None]] | None:
    """A sum's own terms with their coefficients and the parameters that these are."""
    args, alpha = node.args, float(node.keywords.get("alpha", 1))
    pairs: list[tuple[Node, float, str | None]]
    match node.op:
        case "add" | "sub":
            right = alpha if node.op == "add" else -alpha
            pairs = [(args[0], 1.0, None), (args[1], right, None)]
        case "rsub":
            pairs = [(args[0], -alpha, None), (args[1], 1.0, None)]
        case "lerp":  # a + w (b − a)
            w = _number(args[2], args[0])
            if w is None:
                return None
            pairs = [(args[0], 1 - w, None), (args[1], w, _name(args[2]))]
        case _:  # addcmul: a + value · b c
            left, right = args[1:3]
            if left.live and right.live:
                return None
            vector, x = (right, left) if left.live else (left, right)
            c = _number(vector, x)
            if c is None:
                return None
            value = float(node.keywords.get("value", 1))
            pairs = [(args[0], 1.0, None), (x, value * c, _name(vector))]
    return [p for p in pairs if isinstance(p[0], Node)]


def _number(factor: object, of: Node) -> float | None:
    """A factor as a number; a vector over the width, one factor a channel, as its rms."""
    if isinstance(factor, int | float):
        return float(factor)
    if not isinstance(factor, Node) or factor.live:
        return None
    value, width = factor.value.detach().float(), of.value.shape[-1]
    if value.numel() == 1:
        return float(value)
    if value.numel() == width and value.shape[-1] == width:
        return math.copysign(factor.rms, float(value.sum()))
    return None


def _name(factor: object) -> str | None:
    """The parameter that a factor is, is an entry of, or is computed from."""
    if not isinstance(factor, Node) or not factor.parameters:
        return None
    name = factor.parameters[0].name
    if factor.op == "select" and factor.args[0] is factor.parameters[0]:
        return f"{name}[{factor.args[2]}]"
    return f"{name}[{factor.which}]" if factor.op == "unbind" else name


def _collected(terms: list[Term]) -> list[Term]:
    """Terms of one node as one, as in x + w(G − x)."""
    found: dict[Node, Term] = {}
    for t in terms:
        known = found.get(t.node)
        total = t.coefficient + (known.coefficient if known else 0.0)
        found[t.node] = Term(t.node, total, t.learnt or (known.learnt if known else None))
    return list(found.values())
