"""What one operation of a recorded forward pass does with what it is given.

It moves entries, multiplies by a number, adds up, or multiplies with a matrix of parameters: four
questions that every reader of a graph asks of a node.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepnet_theory.models.recording import Graph, Node

# ---- the operations of aten by what they do ----

LAYOUT = {  # leave every entry what it is
    "view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "expand",
    "squeeze", "unsqueeze", "clone", "contiguous", "_to_copy", "to", "alias", "detach",
    "lift_fresh", "native_dropout",
}  # fmt: skip
CUTS = {"slice", "select", "split", "split_with_sizes"}  # take a part
ROWS = {"slice", "select", "index_select", "narrow"}  # of a table, by places and not by tokens
LOOKUPS = {"embedding", "index"}  # of a table, by tokens
TOKENS = CUTS | {  # choose tokens, or put them together
    "cat", "index", "index_select", "gather", "constant_pad_nd", "roll", "flip",
}  # fmt: skip
SUMS = {"add", "sub", "rsub", "lerp", "addcmul"}
GROUPED = {"_grouped_mm", "grouped_mm_fallback"}  # a matrix for each group of rows
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "convolution", "dot"} | GROUPED
FUSED = "scaled_dot_product"  # attention as one operation
CHOICES = {"topk", "argmax"}  # of experts, by a router
REDUCTIONS = {"mean", "sum", "var", "std", "var_mean", "std_mean", "linalg_vector_norm", "norm"}
ELEMENTWISE = {  # a norm written by hand is made of
    "add", "sub", "rsub", "mul", "div", "pow", "sqrt", "rsqrt", "reciprocal", "neg", "square",
    "clamp_min", "clamp", "maximum", "expand", "unsqueeze", "squeeze", "view", "_to_copy", "alias",
    "clone", "detach", "sign", "abs", "real_div", "divide", "getitem", "_unsafe_view", "where",
    *REDUCTIONS,
}  # fmt: skip
BENDING = {"tanh", "sigmoid", "atan", "erf", "sin", "asinh", "clamp", "hardtanh"}  # each entry
NUMBERED = {"add", "sub", "mul", "div"}  # what a bound may do with numbers behind its function
BEHIND = 8  # such operations at most
LINEAR = LAYOUT | CUTS | {"add", "sub", "mul", "div", "neg", "chunk"}


def is_linear(node: Node) -> bool:
    """Whether a node is a sum, a part or a multiple of what depends on the input."""
    live = [isinstance(a, Node) and a.live for a in node.args]  # x * x has it twice
    return node.op in LINEAR and (
        node.op not in ("mul", "div") or (sum(live) == 1 and (node.op == "mul" or live[0]))
    )


def bare(node: Node, stops: Container[Node] = ()) -> Node:
    """A node without layout, down to one of the stops."""
    while node.op in LAYOUT and node.inputs and node not in stops:
        node = node.inputs[0]
    return node


# ---- multiples ----


class Term(NamedTuple):
    """``coefficient`` times ``node``; ``learnt`` names the parameter that multiplies it."""

    node: Node
    coefficient: float = 1.0
    learnt: str | None = None


def multiple(node: Node) -> Term | None:
    """The node that this one is a multiple or another layout of."""
    live = node.live_inputs
    if node.op == "mul" and len(live) == 2:  # a mask that lets all tokens pass
        passed = (x for mask, x in (live, live[::-1]) if _lets_pass(mask, x))
        return next(map(Term, passed), None)
    if len(live) != 1:
        return None
    (source,) = live
    if node.op in LAYOUT:
        same = source.value.numel() == node.value.numel() or node.op == "expand"
        return Term(source) if same else None
    if node.op == "neg":
        return Term(source, -1.0)
    if node.op in ("mul", "div") and len(node.args) == 2:
        left, right = node.args
        if node.op == "div" and right is source:
            return None
        other = right if left is source else left
        c = _number(other, source)
        if c is not None and (node.op == "mul" or c):
            return Term(source, c if node.op == "mul" else 1 / c, _name(other))
    return bounded(node)


def bounded(node: Node) -> Term | None:
    r"""The node that this one is an odd bounded function of, entry by entry, times its slope at 0.

    So :math:`c\tanh(z/c)` is z to first order, :math:`2\sigma(z) - 1` is z/2, and ReLU nothing.
    """
    chain = [node]
    while (last := chain[-1]).op not in BENDING:
        numbers = all(isinstance(a, int | float) for a in last.args[1:])
        if last.op not in NUMBERED or not (numbers and last.live_inputs) or len(chain) > BEHIND:
            return None
        chain.append(last.live_inputs[0])

    def at(x: Tensor) -> Tensor:
        for one in reversed(chain):
            args = [x if isinstance(a, Node) and a.live else a for a in one.args]
            x = one.function(*(a.value if isinstance(a, Node) else a for a in args))
        return x

    z = torch.logspace(-4, 2, 7, dtype=torch.float64)
    if len(last.live_inputs) != 1 or any(a.value.numel() > 1 for a in last.inputs if not a.live):
        return None
    y = at(z)
    (slope, near), odd = (y / z)[:2], torch.allclose(at(-z), -y, rtol=1e-6, atol=1e-9)
    if not odd or not slope or not torch.isclose(slope, near, rtol=1e-3):
        return None
    return Term(last.live_inputs[0], float(slope))


def _lets_pass(mask: Node, x: Node) -> bool:
    """Whether one number a token, of no parameter, is 1 for all."""
    of_tokens = mask.value.dim() == x.value.dim() and mask.value.shape[-1] == 1
    return of_tokens and bool((mask.value == 1).all()) and not mask.parameters


def multiples(node: Node) -> Iterator[Term]:
    """The node itself, and what it is a multiple of, each with all factors before it."""
    now: Term | None = Term(node)
    factor = 1.0
    while now is not None:
        factor *= now.coefficient
        yield now._replace(coefficient=factor)
        now = multiple(now.node)


def stripped(node: Node, *stops: Container[Node]) -> tuple[Node, float]:
    """A node without layout and numbers, down to one of the stops; and the numbers' product."""
    now = Term(node)
    for now in multiples(node):
        if any(now.node in stop for stop in stops):
            break
    return now.node, now.coefficient


def onward(graph: Graph, node: Node) -> Iterator[Term]:
    """The multiples that a node alone becomes, nearest first, each with all factors up to it."""
    factor, first = 1.0, node
    while (user := graph.only_user(first)) is not None:
        if (now := multiple(user)) is not None and now.node is node:
            node, factor = user, factor * now.coefficient
            yield Term(node, factor, now.learnt)
        elif user.op not in BENDING and (first is node or user.op not in NUMBERED):
            return
        first = user  # of an odd function the last operation is known as one


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
    return factor.parameters[0].name if isinstance(factor, Node) and factor.parameters else None


# ---- sums ----


def summands(node: Node) -> list[Term] | None:
    """The terms of a sum; None where a computed value multiplies one."""
    args, alpha = node.args, float(node.keywords.get("alpha", 1))
    pairs: list[tuple[Any, float, str | None]]
    match node.op:
        case "add" | "sub":
            pairs = [(args[0], 1.0, None), (args[1], alpha if node.op == "add" else -alpha, None)]
        case "rsub":
            pairs = [(args[0], -alpha, None), (args[1], 1.0, None)]
        case "lerp":  # a + w (b − a)
            if (w := _number(args[2], args[0])) is None:
                return None
            pairs = [(args[0], 1 - w, None), (args[1], w, _name(args[2]))]
        case _:  # addcmul: a + value · b c
            x, vector = args[1:3] if args[1].live else args[2:0:-1]
            if (c := _number(vector, x)) is None:
                return None
            value = float(node.keywords.get("value", 1))
            pairs = [(args[0], 1.0, None), (x, value * c, _name(vector))]
    return [Term(*pair) for pair in pairs if isinstance(pair[0], Node)]


# ---- products ----


@dataclass(frozen=True)
class Product:
    """One product of a live tensor with a matrix of parameters.

    ``matrix`` is (out, in), as the product uses it; ``offset`` is the first of the parameter's
    outputs that it is made of, None where it is computed from the parameter. ``stacked`` matrices
    of one parameter stand side by side in it, (out, stacked·in).
    """

    node: Node
    source: Node
    matrix: Tensor
    parameter: Node
    axis: int
    offset: int | None
    bias: str | None
    stacked: int = 1

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name or ""


def factors(node: Node) -> list[Node]:
    """The two tensors that a product multiplies, left and right."""
    tensors = [a for a in node.args if isinstance(a, Node)]
    first = int(node.op in ("addmm", "baddbmm"))  # behind what is added
    return tensors[first : first + 2]


def as_product(graph: Graph, node: Node) -> Product | None:
    """The product that a node is; None for one of two live tensors, or of no parameter.

    Where neither is live, a table of positions enters a matrix, the right factor.
    """
    operands = factors(node) if node.op in PRODUCTS else []
    if len(operands) != 2 or (operands[0].live and operands[1].live):
        return None
    source, weight = operands if operands[0].live or not operands[1].live else operands[::-1]
    if not weight.parameters:
        return None
    value, on_the_left = weight.value.detach(), operands[0] is weight
    parameter = weight.parameters[0]
    is_copy = bare(weight).name is not None
    if value.dim() == 3 and not value.stride(0):  # one matrix for each of a batch
        value = value[0]
    if value.dim() == 3 and len(value) > 1 and node.op != "convolution":
        if parameter.value.dim() != 3 or not is_copy:
            return None
        each = value if on_the_left else value.mT  # (out, in), one for each group of rows
        axis, offset = _place(each[0], parameter.value[0])
        beside = each.movedim(0, 1).flatten(1)
        return Product(node, source, beside, parameter, axis + 1, offset, None, len(each))
    if node.op == "convolution":
        matrix = value.flatten(1)
    else:
        value = value[0] if value.dim() == 3 else value
        if value.dim() != 2:
            return None
        matrix = value if on_the_left else value.T
    axis, offset = _place(matrix, parameter.value)
    if offset is None and not is_copy:
        return Product(node, source, matrix, parameter, axis, None, None)
    return Product(node, source, matrix, parameter, axis, offset or 0, _bias(graph, node))


def _place(matrix: Tensor, parameter: Tensor) -> tuple[int, int | None]:
    """The axis of the outputs in the parameter and the first of them, by place in memory."""
    if parameter.dim() < 2:
        return 0, None
    last = parameter.dim() - 1
    axis = last if matrix.shape[0] != parameter.shape[0] and matrix.stride(0) == 1 else 0
    if matrix.stride(0) == 1 and matrix.stride(1) != 1:
        axis = last
    if matrix.untyped_storage().data_ptr() != parameter.untyped_storage().data_ptr():
        return axis, None
    start = matrix.storage_offset() - parameter.storage_offset()
    step = parameter.stride(axis)
    return (axis, start // step) if start % step == 0 else (axis, None)


def _bias(graph: Graph, node: Node) -> str | None:
    """The parameter that an operation adds to its product, or that is added before all else."""
    tensors = [a for a in node.args if isinstance(a, Node)]
    if node.op in ("addmm", "baddbmm"):
        return tensors[0].name
    if node.op == "convolution" and len(tensors) > 2:
        return tensors[2].name
    user = graph.only_user(node)
    while user is not None and user.op in LAYOUT:
        user = graph.only_user(user)
    if user is None or user.op != "add":
        return None
    return next((n.name for n in user.inputs if n.name is not None), None)
