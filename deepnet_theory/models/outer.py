"""The outer parts of a model, from its recorded forward pass: what a stream starts from, the head.

A stream that starts as a sum of rows, :math:`\\sum_i c_i E_i`, has its tables read with their
numbers. A head is the last matrix with an output for every row of a table of tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

import torch
from torch import Tensor

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.reading import FoundTable, Logits
from deepnet_theory.models.branches import Parts, matrix_of
from deepnet_theory.models.operations import LAYOUT, LOOKUPS, ROWS, SUMS, multiple, summands
from deepnet_theory.models.recording import Node


def tables_of(start: Node, stack: str) -> tuple[FoundTable, ...]:
    """The tables whose rows a stream is the sum of; none where it is anything else."""
    tables = []
    for node, times in _terms(start, 1.0):
        if not node.live and not node.parameters:
            tables.append(FoundTable(stack, "", 0, times, node.rms, False))
        elif (rows := _rows(node)) is None:
            return ()
        else:
            p, factor = rows
            count = p.value.shape[0]
            tables.append(FoundTable(stack, p.name or "", count, times * factor, p.rms, node.live))
    return tuple(tables)


def _terms(node: Node, times: float) -> Iterator[tuple[Node, float]]:
    if node.live and node.op in SUMS and (parts := summands(node)) is not None:
        for part, c, _ in parts:
            yield from _terms(part, times * c)
    elif node.live and (one := multiple(node)) is not None and one.learnt is None:
        yield from _terms(one.node, times * one.coefficient)
    else:
        yield node, times


def _rows(node: Node) -> tuple[Node, float] | None:
    """The parameter whose rows a tensor has, and the number that multiplies them."""
    times = 1.0
    while node.name is None:
        if node.number and len(node.inputs) == 1:
            times *= node.number if node.op == "mul" else 1 / node.number
        elif node.op not in LAYOUT | ROWS | LOOKUPS:
            return None
        if not node.args or not isinstance(node.args[0], Node):
            return None
        node = node.args[0]
    return (node, times) if node.value.dim() > 1 else None


@torch.no_grad()
def logits_of(
    parts: Parts, last: Node, tables: Collection[FoundTable], starts: Collection[Node]
) -> Logits | None:
    """What the head of a language model makes of the last sum; None where there is none."""
    graph, vocabularies = parts.graph, {t.rows for t in tables if t.of_inputs}
    heads = [
        (product, output)
        for product in parts.products.values() if product.matrix.shape[0] in vocabularies
        and product.offset == 0 and graph.depends(product.source, last)
        for output in graph.outputs
        if output.value.shape[-1:] == product.matrix.shape[:1]
        and graph.depends(output, product.node)
    ]  # fmt: skip
    if not heads:
        return None
    product, output = max(heads, key=lambda head: head[0].node)
    times = _times(product.node, output)
    head = matrix_of("head", product, range(product.matrix.shape[0]), times=times)
    matrix = times * product.matrix.detach().float()

    def loss(state: Tensor) -> float:
        """The mean cross-entropy of the logits at targets drawn evenly."""
        logits = state.float().flatten(0, -2) @ matrix.T  # (tokens, vocabulary)
        return float((torch.logsumexp(logits, -1) - logits.mean(-1)).mean())

    as_it_is = at_one = loss(product.source.value)
    if given := {n: n.value / size for n in starts if (size := n.rms)}:
        with suppress(InputError, RuntimeError):  # of code that cannot be run again in parts
            at_one = loss(graph.replay(product.source, given))
    bias = next((n.rms for n in graph.nodes if n.name and n.name == head.bias), 0.0)
    return Logits(head, product.source.rms, bias, as_it_is, at_one)


def _times(node: Node, output: Node) -> float:
    """The numbers that multiply what a product gives, on the one way to the output."""
    times = 1.0
    while output is not node and len(output.live_inputs) == 1:
        one = multiple(output)
        times *= 1.0 if one is None else one.coefficient
        (output,) = output.live_inputs
    return abs(times)
