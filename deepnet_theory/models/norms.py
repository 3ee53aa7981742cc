"""The norms of a forward pass, from a library or written by hand.

A norm is known by what it does: its output has the shape of its input and does not change where
the input is multiplied; nor, for a LayerNorm, where a constant is added. A candidate is computed
again on other inputs to see that.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import torch

from deepnet_theory.models.recording import Graph, Node
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.results import reading

REDUCTIONS = {"mean", "sum", "var", "std", "var_mean", "std_mean", "linalg_vector_norm", "norm"}
ELEMENTWISE = {
    "add", "sub", "rsub", "mul", "div", "pow", "sqrt", "rsqrt", "reciprocal", "neg", "square",
    "clamp_min", "clamp", "maximum", "expand", "unsqueeze", "squeeze", "view", "_to_copy", "alias",
    "clone", "detach", "sign", "abs", "real_div", "divide", "getitem", "_unsafe_view", "where",
    *REDUCTIONS,
}  # fmt: skip
LONGEST = 16  # operations of a norm written by hand
SHORT = 0.05  # of a size: the unbiased deviation of few entries is not quite one
TOLERANCE = 1e-3  # of entries near 1; the ε of a norm moves them by 1e-5
ROUNDINGS = 4  # that the tolerance allows for at least, in a coarser type


@dataclass(frozen=True)
class Norm:
    """One norm: ``start`` → ``end``, gain and bias included, by the names of the parameters."""

    start: Node
    end: Node
    centred: bool
    gain: str | None = None
    bias: str | None = None
    size: float = 1.0  # root mean square of the gain's entries

    def placed(self, where: str, enters: tuple[str, ...] = ()) -> reading.Norm:
        """What a reading says of it."""
        return reading.Norm(where, self.centred, self.gain, self.bias, self.size, enters)


def norms(graph: Graph) -> dict[Node, Norm]:
    """Every norm of a graph, by its last node."""
    found: dict[Node, Norm] = {}
    inner: set[Node] = set()
    for node in graph.nodes:
        if not node.live or node in inner:
            continue
        norm = _of_a_library(node) or _by_hand(graph, node, found)
        if norm is None:
            continue
        used = set[Node]()
        if norm.gain is None:
            norm, used = _with_gain(graph, norm)
        found[norm.end] = norm
        inner |= used
    return found


def _of_a_library(node: Node) -> Norm | None:
    if node.op not in ("native_layer_norm", "_fused_rms_norm") or node.which != 0:
        return None
    centred = node.op == "native_layer_norm"
    gain, bias = node.args[2], node.args[3] if centred else None
    names = [vector.name if vector else None for vector in (gain, bias)]
    return Norm(node.args[0], node, centred, names[0], names[1], gain.rms if gain else 1.0)


def _by_hand(graph: Graph, end: Node, found: Container[Node]) -> Norm | None:
    start = _entry(end, found) if end.op in ("mul", "div") else None
    return None if start is None else _normalising(graph, start, end)


def _entry(end: Node, found: Container[Node]) -> Node | None:
    """The one node that all of a candidate's paths come from, where it has a reduction.

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
        if node.op not in ELEMENTWISE or node in found:
            return None
        reduced |= node.op in REDUCTIONS
        frontier |= {n.index: n for n in node.live_inputs}
    return None


@torch.no_grad()
def _normalising(graph: Graph, start: Node, end: Node) -> Norm | None:
    """What leads from start to end, where that is a norm of the last axis."""
    generator = torch.Generator().manual_seed(0)
    x = torch.empty(start.value.shape).normal_(1.0, 1.0, generator=generator).to(start.value)
    try:
        y, scaled, shifted = (
            graph.replay(end, {start: given}).float() for given in (x, 4 * x, x + 1)
        )
    except (InputError, RuntimeError):
        return None
    if y.shape != x.shape or not y.isfinite().all() or not _alike(y, scaled, x.dtype):
        return None
    rows = x.clone()
    rows[..., : x.shape[-1] // 2] *= 2  # a norm over another axis, or of signs alone, is none
    if _alike(y, graph.replay(end, {start: rows}).float(), x.dtype):
        return None
    size = float(y.square().mean().sqrt())
    return Norm(start, end, _alike(y, shifted, x.dtype), size=size)


def _alike(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> bool:
    tolerance = max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps)
    return bool((a - b).abs().max() <= tolerance * a.abs().max())


def _with_gain(graph: Graph, norm: Norm) -> tuple[Norm, set[Node]]:
    """A norm with its gain and bias, where they are written by hand behind it or within it."""
    gain, bias, size, end, used = None, None, norm.size, norm.end, {norm.end}
    for node in graph.between(norm.start, norm.end)[1:]:
        vector = next((n for n in node.inputs if not n.live), None)
        if node.op == "mul" and (name := _parameter(vector)) is not None:
            gain = name
    while (user := graph.only_user(end)) is not None:
        vector = next((n for n in user.inputs if not n.live), None)
        fits = vector is not None and vector.value.numel() in (1, norm.end.value.shape[-1])
        name = _parameter(vector) if fits else None
        if user.op == "mul" and name is not None and gain is None and bias is None:
            gain, size = name, size * (vector.rms if vector else 1.0)
        elif user.op == "add" and name is not None and bias is None:
            bias = name
        elif user.op in ("mul", "div") and (c := _to_one(user, size)) is not None:
            size *= c
        elif user.op not in ("_to_copy", "clone"):
            break
        end = user
        used.add(user)
    return Norm(norm.start, end, norm.centred, gain, bias, size), used


def _to_one(node: Node, size: float) -> float | None:
    """The number that brings a vector of length one to entries of size one, as √d does."""
    numbers = [a for a in node.args if isinstance(a, int | float)]
    if not numbers or not numbers[0]:
        return None
    c = float(numbers[0]) if node.op == "mul" else 1 / float(numbers[0])
    return c if abs(size - 1) > SHORT and abs(size * c - 1) <= SHORT else None


def _parameter(vector: Node | None) -> str | None:
    """The parameter that a vector is made of, as ``1 + gain`` is."""
    found = [] if vector is None else vector.parameters
    return found[0].name if len(found) == 1 else None
