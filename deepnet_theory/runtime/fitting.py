"""Somebody's model beside constants: what each of its parameters is to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.runtime.linear import Description
from deepnet_theory.spec.constants import Constants, PartConstants, SublayerConstants
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.guards import without_law
from deepnet_theory.spec.placement import placement
from deepnet_theory.spec.results.reading import UNKNOWN, Matrix, Reading, Sublayer
from deepnet_theory.spec.sublayer import Role, sublayer

EXACT = 1e-3  # of an α that code computes


@dataclass(frozen=True)
class Fitted:
    """One sublayer of the model, with the part's constants that it has to follow."""

    read: Sublayer
    part: PartConstants
    index: int  # within the layer

    @property
    def wanted(self) -> SublayerConstants:
        return self.part.sublayers[self.index]

    @property
    def where(self) -> str:
        return f"{self.part.name} layer {self.read.layer}, {self.read.kind}"

    def gain(self, c: Constants, matrix: Matrix) -> float:
        """The wanted gain of a matrix on Xavier's law of its own fans."""
        return c.parameter(self.part.name, self.index, matrix.role, _role(self, matrix)).gain

    def has_alpha(self) -> bool:
        """Whether the forward pass has the wanted α now."""
        return math.isclose(self.read.alpha, self.wanted.alpha, rel_tol=EXACT)


def fit(found: Reading, c: Constants) -> list[Fitted]:
    """Every sublayer with its constants; :class:`Refusal` where the two do not fit.

    A lone encoder or decoder takes its own part of an encoder–decoder's constants.
    """
    _require_understood(found)
    if why := without_law(found):
        raise Refusal(why)
    stacks = list(found.stacks.values())
    parts = c.parts
    if len(stacks) < len(parts):
        parts = tuple(p for p in parts if _kinds(stacks[0]) == [s.kind for s in p.sublayers])[:1]
    if len(stacks) != len(parts):
        raise Refusal(f"the model has {len(stacks)} stack(s), the constants {len(c.parts)}")
    rows = []
    equation = _bare(placement(c.placement).equation)
    for own, part in zip(stacks, parts, strict=True):
        layers = own[-1].layer + 1
        if layers != part.layers:
            raise Refusal(f"the {part.name} has {layers} layers, the constants {part.layers}")
        wanted = [s.kind for s in part.sublayers]
        if _kinds(own) != wanted:
            raise _of_another(
                found,
                f"a layer of the {part.name} is {', '.join(_kinds(own))}, the constants are for "
                f"{', '.join(wanted)}",
            )
        for index, s in enumerate(own):
            _require_equation(s, c, equation, found)
            rows.append(Fitted(s, part, index % len(wanted)))
    if c.architecture.residual_gain is not None:
        raise Refusal("the constants ask for residual gains, which this model has none of")
    return rows


def _require_understood(found: Reading) -> None:
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


def _of_another(found: Reading, why: str) -> Refusal:
    """Constants of other layers than the model's, for which it says what to derive."""
    if found.placement is None:
        return Refusal(why)
    words = ", ".join(f'{name}="{word}"' for name, word in found.select.items())
    return Refusal(f"{why}; constants for this model are derived with {words}")


def _require_equation(s: Sublayer, c: Constants, equation: str, found: Reading) -> None:
    where = f"the sublayer of {s.matrices[-1].name if s.matrices else s.kind}"
    if s.equation != equation:
        raise _of_another(found, f"{where} is {s.equation}, the constants are for {equation}")
    centred = c.norm == "layer"
    if any(n.centred is not centred for n in s.ruled_norms):
        kind = "RMS norm" if centred else "LayerNorm"
        raise _of_another(found, f"{where} has {kind}, the constants are for the norm {c.norm!r}")


def _bare(equation: str) -> str:
    """A placement's equation without its α, as a reading writes it."""
    return equation.replace("alpha*", "").replace("/alpha", "")


def _kinds(own: Sequence[Sublayer]) -> list[str]:
    return [s.kind for s in own if s.layer == 0]


# -------------------------------------------------------------------------- what each one is


def describe(found: Reading, rows: Sequence[Fitted]) -> dict[str, tuple[Description, ...]]:
    """What the constants call every parameter of the model, by name; several of a packed one."""
    described: dict[str, list[Description]] = {}

    def add(name: str | None, description: Description) -> None:
        if name is not None and description not in described.setdefault(name, []):
            described[name].append(description)

    for row in rows:
        site = (row.part.name, row.read.layer, row.index, row.read.kind)
        for m in row.read.matrices:
            role = _role(row, m)
            add(m.name, Description(*site, role, m.role, fan_in=m.fan_in, fan_out=m.fan_out))
            add(m.bias, Description(*site, *_bias(row.read.kind, m.role)))
        for name in row.read.biases:
            add(name, Description(*site, *_bias(row.read.kind, row.read.matrices[-1].role)))
        for norm in row.read.norms:
            add(norm.gain, Description(*site, Role.NORM_GAIN, "gain"))
            add(norm.bias, Description(*site, Role.NORM_BIAS, "bias", 0.0))
    for norm in found.norms:
        part = rows[-1 if norm.where == "final" else 0].part.name
        add(norm.gain, Description(part, role=Role.NORM_GAIN, name="gain"))
        add(norm.bias, Description(part, role=Role.NORM_BIAS, name="bias", gain=0.0))
    for part, names in (("embedding", found.embeddings), ("head", found.head)):
        for name in names:
            if name not in described:
                add(name, Description(part, role=Role(part), name=part))
    return {name: tuple(own) for name, own in described.items()}


def _role(row: Fitted, matrix: Matrix) -> Role:
    own = sublayer(row.read.kind)
    return next(m.role for m in own.matrices if m.name == matrix.role)


def _bias(kind: str, matrix: str) -> tuple[Role, str, float]:
    name = f"{matrix}_bias"
    named = {v.name: v.role for v in sublayer(kind).vectors}
    return named.get(name, Role.INNER_BIAS), name, 0.0


def blocks(model: nn.Module, m: Matrix) -> Iterator[Tensor]:
    """The entries of one matrix, in place: runs of outputs of its parameter."""
    parameter = model.get_parameter(m.name).detach()
    for start, end in m.outputs:
        yield parameter.narrow(m.axis, start, end - start)


TOLERANCE = 1e-2  # of a size; a weighted mean of equal values is right to the type's rounding


@torch.no_grad()
def multiplied_values(model: nn.Module, run: Callable[[], Any], rows: Sequence[Fitted]) -> str:
    """An attention that multiplies its values by a number, and which; no word where none does.

    The values of all tokens are made those of one token while ``run`` is the forward pass: the
    weights of a softmax then make nothing of them but these values, which must enter the output
    matrix at their size. Attention whose maps are not modules that are called is not tried.
    """
    made: dict[int, float] = {}
    entered: dict[int, float] = {}
    handles = []
    for index, row in enumerate(rows):
        maps = {m.role: m for m in row.read.matrices}
        if {"value", "output"} <= maps.keys():
            value, output = (_owner(model, maps[role]) for role in ("value", "output"))
            alike = partial(_alike, made, index, maps["value"])
            handles.append(value.register_forward_hook(alike))
            handles.append(output.register_forward_pre_hook(partial(_keep, entered, index)))
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
        for m in training:
            m.training = True
    for index in made.keys() & entered.keys():
        ratio = entered[index] / made[index] if made[index] else 1.0
        if abs(ratio - 1) > TOLERANCE:
            return f"{rows[index].where} multiplies its values by {ratio:.3g}"
    return ""


def _owner(model: nn.Module, matrix: Matrix) -> nn.Module:
    return model.get_submodule(matrix.name.rpartition(".")[0])


def _alike(
    made: dict[int, float], index: int, value: Matrix, _: nn.Module, __: object, out: object
) -> Tensor | None:
    """The output of the values' map with the values of the first token everywhere."""
    if not isinstance(out, Tensor) or out.shape[-1] < value.outputs[-1][1]:
        return None
    out = out.clone()
    squares = []
    for start, end in value.outputs:
        first = out.flatten(0, -2)[0, start:end].clone()
        out[..., start:end] = first
        squares.append(first.float().square())
    made[index] = float(torch.cat(squares).mean().sqrt())
    return out


def _keep(entered: dict[int, float], index: int, _: nn.Module, inputs: tuple[Any, ...]) -> None:
    if inputs and isinstance(inputs[0], Tensor):
        entered[index] = float(inputs[0].float().square().mean().sqrt())
