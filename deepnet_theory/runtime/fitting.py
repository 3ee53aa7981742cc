"""Somebody's model beside constants: what each of its parameters is to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.runtime.linear import Description
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.results.reading import UNKNOWN, Matrix, Reading, Sublayer
from deepnet_theory.spec.subject import (
    INSIDE,
    Wanted,
    WantedSublayer,
    norms_of,
    placed_forms,
    require_equation,
    rows_of,
    without_law,
)
from deepnet_theory.spec.sublayer import Role, sublayer

EXACT = 1e-3  # of an α that code computes
TIED = "tied_embedding"  # a table of tokens that is the head too


def fit(found: Reading, c: Constants) -> Wanted:
    """The constants as rows of a model that can take them; :class:`Refusal` where it cannot."""
    if found.skips:
        raise Refusal(found.skips[0])
    for s in found.sublayers:
        for m in s.matrices:
            if m.role == UNKNOWN and s.why:
                raise Refusal(f"a branch of the {s.stack} was not understood: {s.why}")
            if m.role == UNKNOWN:
                raise Refusal(
                    f"the role of {m.where} was not understood; say it, as roles={{'value': "
                    f"{m.name!r}}}"
                )
            if m.computed or m.factor:
                how = "a low-rank factor" if m.factor else "computed into another matrix"
                raise Refusal(f"{m.where} is {how} in the forward pass, which has no law here")
    if found.notes:
        raise Refusal(f"the model was not understood: {found.notes[0]}")
    if why := without_law(found, placed_forms(found)):
        raise Refusal(why)
    rule = rows_of(found, c)
    require_equation(found, rule)
    for name, layers in (rule.layers or {}).items():
        if layers != found.layers[name]:
            raise Refusal(f"the {name} has {found.layers[name]} layers, the constants {layers}")
    return rule


# -------------------------------------------------------------------------- what each one is


def describe(found: Reading, rule: Wanted) -> dict[str, tuple[Description, ...]]:
    """What the constants call every parameter of the model, by name; several of a packed one."""
    described: dict[str, list[Description]] = {}

    def add(name: str | None, description: Description) -> None:
        if name is not None and description not in described.setdefault(name, []):
            described[name].append(description)

    for s, row in ((found.sublayers[i], rule.sublayers[i]) for i in found.distinct):
        site = (row.part, s.layer, row.index, s.kind)
        roles = {m.name: m.role for m in sublayer(s.kind).matrices}
        for m in s.matrices:
            role = roles[m.role]
            add(m.name, Description(*site, role, m.role, fan_in=m.fan_in, fan_out=m.fan_out))
            add(m.bias, Description(*site, *_bias(s.kind, m.role)))
        for name in s.biases:
            add(name, Description(*site, *_bias(s.kind, s.matrices[-1].role)))
        for vector in _modulating(s, row):
            add(s.learnt_parameter, Description(*site, *vector))
            if s.modulation:
                rows, condition = s.modulation.rows, s.modulation.condition
                add(s.modulation.name, Description(*site, *vector, None, rows, condition))
        for norm in s.norms:
            inner = norm.where == "within" and sublayer(s.kind).inner is not None
            prefix = "inner_" if inner else ""
            add(norm.gain, Description(*site, Role.NORM_GAIN, f"{prefix}gain"))
            add(norm.bias, Description(*site, Role.NORM_BIAS, f"{prefix}bias", 0.0))
    for norm in found.norms:
        part = rule.sublayers[-1 if norm.where == "final" else 0].part
        add(norm.gain, Description(part, role=Role.NORM_GAIN, name="gain"))
        add(norm.bias, Description(part, role=Role.NORM_BIAS, name="bias", gain=0.0))
    for part, names in (("embedding", found.embeddings), ("head", found.head)):
        for name in names:
            if name not in described:
                # its own multiplier is not known: as it stands, none
                own = "token_embedding" if part == "embedding" else part
                own = TIED if name in found.head and part == "embedding" else own
                add(name, Description(part, role=Role(part), name=own))
    return {name: tuple(own) for name, own in described.items()}


def _modulating(s: Sublayer, row: WantedSublayer) -> Iterator[tuple[Role, str, float]]:
    """What the learnt multiplier's parameter holds, and the size of each."""
    if s.learnt:
        yield Role.RESIDUAL_GAIN, s.multiplier, 1 / row.alpha
    if s.modulation and s.modulation.of_norm:
        yield Role.NORM_GAIN, "gain", 0.0  # 1 is added to it
        yield Role.NORM_BIAS, "bias", 0.0


def _bias(kind: str, matrix: str) -> tuple[Role, str, float]:
    name = f"{matrix}_bias"
    named = {v.name: v.role for v in sublayer(kind).vectors}
    return named.get(name, Role.INNER_BIAS), name, 0.0


def blocks(model: nn.Module, m: Matrix) -> Iterator[Tensor]:
    """The entries of one matrix, in place: runs of outputs of its parameter."""
    parameter = model.get_parameter(m.name).detach()
    for start, end in m.outputs:
        yield parameter.narrow(m.axis, start, end - start)


def multiplier(model: nn.Module, name: str) -> Tensor:
    """A learnt multiplier in place: a parameter, or entries of it (``gates[2]``, ``b[4:8]``)."""
    of, _, entry = name.rstrip("]").partition("[")
    parameter = model.get_parameter(of).detach()
    if not entry:
        return parameter
    start, _, end = entry.partition(":")
    return parameter[int(start) : int(end)] if end else parameter[int(start)]


def where(s: Sublayer) -> str:
    return f"{s.stack} layer {s.layer}, {s.kind}"


TOLERANCE = 1e-2  # of a size; a weighted mean of equal values is right to the type's rounding


@torch.no_grad()
def multiplied_values(
    model: nn.Module, run: Callable[[], Any], sublayers: Sequence[Sublayer]
) -> str:
    """An attention that multiplies its values by a number, and which; no word where none does.

    All tokens' values are made one token's in the forward pass: a softmax then hands on just
    these, at the size that they have before the output matrix. A gate of what is mixed is opened,
    and scores are raised until a sink, one more logit whose weight meets no value, takes nothing.
    Only maps that are modules are tried.
    """
    sizes: dict[int, dict[str, float]] = {}
    handles = []
    for index, s in enumerate(sublayers):
        maps = {m.role: m for m in s.matrices}
        if {"value", "output"} <= maps.keys() and INSIDE not in norms_of(s):
            value, output = (
                model.get_submodule(maps[role].name.rpartition(".")[0])
                for role in ("value", "output")
            )
            sizes[index] = {}
            alike = partial(_alike, sizes[index], maps["value"].outputs)
            handles.append(value.register_forward_hook(alike))
            handles.append(output.register_forward_pre_hook(partial(_keep, sizes[index])))
            for role in RAISED.keys() & maps.keys():
                raised = model.get_submodule(maps[role].name.rpartition(".")[0])
                filled = partial(_filled, maps[role].outputs, RAISED[role])
                handles.append(raised.register_forward_hook(filled))
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
        for m in training:
            m.training = True
    for index, size in sizes.items():
        if size.keys() == {"made", "entered"} and size["made"]:
            ratio = size["entered"] / size["made"]
            if abs(ratio - 1) > TOLERANCE:
                return (
                    f"{where(sublayers[index])} multiplies its values by {ratio:.3g}, "
                    "and no rule has a law for that"
                )
    return ""


def _alike(
    size: dict[str, float],
    outputs: Sequence[tuple[int, int]],
    _: nn.Module,
    __: object,
    out: object,
) -> Tensor | None:
    """The output of the values' map with the values of the first token everywhere."""
    if not isinstance(out, Tensor) or out.shape[-1] < outputs[-1][1]:
        return None
    out = out.clone()
    squares = []
    for start, end in outputs:
        first = out.flatten(0, -2)[0, start:end].clone()
        out[..., start:end] = first
        squares.append(first.float().square())
    size["made"] = float(torch.cat(squares).mean().sqrt())
    return out


RAISED = {"gate": 1e4, "query": 30.0, "key": 30.0}  # a sigmoid of the first is 1


def _filled(
    outputs: Sequence[tuple[int, int]], value: float, _: nn.Module, __: object, out: object
) -> Tensor | None:
    """The output of a map with one number for these rows."""
    if not isinstance(out, Tensor) or out.shape[-1] < outputs[-1][1]:
        return None
    out = out.clone()
    for start, end in outputs:
        out[..., start:end] = value
    return out


def _keep(size: dict[str, float], _: nn.Module, inputs: tuple[Any, ...]) -> None:
    if inputs and isinstance(inputs[0], Tensor):
        size["entered"] = float(inputs[0].float().square().mean().sqrt())
