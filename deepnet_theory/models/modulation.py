r"""Gates that a condition opens: :math:`x + (Wc + b) \odot G(x)` with W = 0, as adaLN-zero has it.

With W = 0 the gate is its bias, one number a channel that starts a branch at its size: a learnt
multiplier. In the first step W moves it along the same gradient, times c.

Source: Peebles and Xie, arXiv 2212.09748, for the form; derived here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from deepnet_theory.models.branches import Branch, Product, is_linear, outputs_of
from deepnet_theory.models.norms import Norm
from deepnet_theory.models.recording import LAYOUT, Graph, Node
from deepnet_theory.models.sums import Term, multiple
from deepnet_theory.spec.results.reading import UNKNOWN, Modulation


def opened(
    graph: Graph, products: Mapping[Node, Product], norms: Mapping[Node, Norm],
    stops: Collection[Node], stream: Node, term: Term,
) -> tuple[Term, Branch, Modulation] | None:  # fmt: skip
    """The term of a sum without its gate, the branch that it is then, and what the gate is.

    None where the term has no such gate, and where other outputs of its matrix do something else
    than a norm's gain and bias.
    """
    node = term.node
    while node.op in LAYOUT and len(node.live_inputs) == 1:
        (node,) = node.live_inputs
    if term.learnt or node.op != "mul" or len(node.live_inputs) != 2:
        return None
    for gate, end in (node.live_inputs, node.live_inputs[::-1]):
        of = None if graph.depends(gate, stream) else _matrix_at_zero(graph, products, gate)
        if of is None or not graph.depends(end, stream) or _is_learnt(end):
            continue
        rows = [o + (of.offset or 0) for o in outputs_of(graph, of, gate)]
        if not rows or rows != list(range(rows[0], rows[-1] + 1)):
            continue
        branch = Branch(graph, products, norms, {*stops, of.node}, stream, end)
        modulates = _modulates(graph, branch, of.node, stream)
        if modulates is None or branch.kind == UNKNOWN:
            continue
        size = math.copysign(gate.rms, float(gate.value.sum()))
        learnt = f"{of.bias}[{rows[0]}:{rows[-1] + 1}]"
        condition = of.source.value.detach().float().flatten(0, -2).square().mean(0).sqrt()
        return (
            replace(term, node=end, coefficient=term.coefficient * size, learnt=learnt),
            branch,
            Modulation(
                of.parameter.name or "", len(of.matrix), tuple(condition.tolist()), modulates
            ),
        )
    return None


def _matrix_at_zero(graph: Graph, products: Mapping[Node, Product], gate: Node) -> Product | None:
    """The product with a matrix of zeros that a gate is a part of, its bias aside."""
    found, vectors, waiting = set[Node](), set[str | None](), [gate]
    while waiting:
        node = waiting.pop()
        if node in products:
            found.add(node)
        elif not node.live:
            vectors |= {parameter.name for parameter in node.parameters}
        elif is_linear(node):
            waiting += node.inputs
        else:
            return None
    if len(found) != 1:
        return None
    of = products[found.pop()]
    known = of.bias is not None and of.offset is not None and vectors <= {of.bias}
    return of if known and not of.matrix.any() else None


def _is_learnt(node: Node) -> bool:
    """Whether a learnt number multiplies what is behind the gate too."""
    while (of := multiple(node)) is not None:
        if of[2] is not None:
            return True
        node = of[0]
    return False


def _modulates(graph: Graph, branch: Branch, made: Node, stream: Node) -> bool | None:
    """Whether a matrix's outputs are the gain and bias of a norm; None where they are others'."""
    modulated, found = set(branch.norms), False
    for node in branch.nodes:
        beside = [n for n in node.live_inputs if not graph.depends(n, stream)]
        own = [n for n in node.live_inputs if n not in beside]
        if not own:
            continue
        if any(graph.depends(n, made) for n in beside):
            if node.op not in ("add", "sub", "mul", "addcmul") or own[0] not in modulated:
                return None
            modulated.add(node)
            found = True
        elif node.op in LAYOUT and own[0] in modulated:
            modulated.add(node)
    return found
