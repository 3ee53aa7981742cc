"""Products with parameters: which parameter, which part of it, and with which bias."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from deepnet_theory.models.reading.recording import Graph, Node
from deepnet_theory.models.reading.sums import LAYOUT, PRODUCTS


@dataclass(frozen=True)
class Product:
    """One product of a live tensor with a matrix of parameters.

    ``matrix`` is (out, in), as the product uses it; ``offset`` is the first of the parameter's
    outputs that it is made of, None where it is computed from the parameter.
    """

    node: Node
    source: Node
    matrix: Tensor
    parameter: Node
    axis: int
    offset: int | None
    bias: str | None


def product(graph: Graph, node: Node) -> Product | None:
    """The product that a node is; None for one of two live tensors, or of no parameter."""
    if node.op not in PRODUCTS:
        return None
    operands = [a for a in node.args if isinstance(a, Node)]
    vector: Node | None = None
    if node.op in ("addmm", "baddbmm"):
        vector, *operands = operands
    if node.op == "convolution":
        operands, vector = operands[:2], operands[2] if len(operands) > 2 else None
    if len(operands) != 2 or operands[0].live == operands[1].live:
        return None
    source, weight = operands if operands[0].live else operands[::-1]
    parameters = _parameters(weight)
    if not parameters:
        return None
    value = weight.value.detach()
    if node.op == "convolution":
        matrix = value.flatten(1)
    else:
        value = value[0] if value.dim() == 3 and value.shape[0] == 1 else value
        if value.dim() != 2:
            return None
        matrix = value if operands[1] is source else value.T
    parameter = parameters[0]
    axis, offset = _place(matrix, parameter.value)
    if offset is None and not _is_copy(weight):
        return Product(node, source, matrix, parameter, axis, None, None)
    bias = vector.name if vector is not None else _added(graph, node)
    return Product(node, source, matrix, parameter, axis, offset or 0, bias)


def _parameters(node: Node) -> list[Node]:
    """The parameters that a tensor is made of."""
    if node.name is not None:
        return [node]
    return list(dict.fromkeys(p for n in node.inputs for p in _parameters(n)))


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


def _is_copy(weight: Node) -> bool:
    """Whether a matrix is its whole parameter in another layout or type."""
    while weight.name is None and weight.op in LAYOUT and len(weight.inputs) == 1:
        (weight,) = weight.inputs
    return weight.name is not None


def _added(graph: Graph, node: Node) -> str | None:
    """The parameter that is added to a product, and to nothing else before it."""
    while len(graph.users[node.index]) == 1:
        (user,) = graph.users[node.index]
        if user.op == "add":
            return next((n.name for n in user.inputs if n.name is not None), None)
        if user.op not in LAYOUT:
            return None
        node = user
    return None
