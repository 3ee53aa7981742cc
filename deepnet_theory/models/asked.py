"""What constants ask of each parameter of a model: what it is to them, its size and its steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.reading import UNKNOWN, FoundMatrix, FoundSublayer, Reading
from deepnet_theory.definitions.rule import ParameterConstants
from deepnet_theory.definitions.subject import (
    Wanted,
    factor,
    require_equation,
    rows_of,
    without_law,
)
from deepnet_theory.definitions.sublayer import Role, role_name, sublayer
from deepnet_theory.runtime.linear import Description
from deepnet_theory.sizes.equivalence import stepping

EXACT = 1e-3  # of an α that code computes
TIED = "tied_embedding"  # a table of tokens that is the head too


def fit(reading: Reading, c: Constants) -> Wanted:
    """The constants as rows of a model that can take them; :class:`Refusal` where it cannot."""
    if reading.skips:
        raise Refusal(reading.skips[0])
    for s in reading.sublayers:
        for m in s.matrices:
            if m.role == UNKNOWN and s.why:
                raise Refusal(f"a branch of the {s.stack} was not understood: {s.why}")
            if m.role == UNKNOWN:
                raise Refusal(
                    f"the role of {m.where} was not understood; say it, as roles={{'value': "
                    f"{m.name!r}}}"
                )
            if m.computed:
                raise Refusal(
                    f"{m.where} is computed into another matrix in the forward pass, which has no "
                    "law here"
                )
    if reading.notes:
        raise Refusal(f"the model was not understood: {reading.notes[0]}")
    if why := without_law(reading):
        raise Refusal(why)
    rule = rows_of(reading, c)
    require_equation(reading, rule)
    for name, layers in (rule.layers or {}).items():
        if layers != reading.layers[name]:
            raise Refusal(f"the {name} has {reading.layers[name]} layers, the constants {layers}")
    return rule


# -------------------------------------------------------------------------- what each one is


def describe(reading: Reading, rule: Wanted) -> dict[str, tuple[Description, ...]]:
    """What the constants call every parameter of the model, by name; several of a packed one."""
    described: dict[str, list[Description]] = {}

    def add(name: str | None, description: Description) -> None:
        if name is not None and description not in described.setdefault(name, []):
            described[name].append(description)

    for s, row in zip(reading.sublayers, rule.sublayers, strict=True):
        site = (row.part or s.stack, s.layer, row.index, s.kind)
        roles = {m.name: m.role for m in sublayer(s.kind).matrices}
        for m in s.matrices:
            role = roles[m.role]
            fans, times = (m.fan_in, m.fan_out), factor(s, m)
            add(m.name, Description(*site, role, m.role, 1.0, *fans, times))
            behind = times / m.before if m.before else 1.0
            add(m.bias, Description(*site, *_bias(s.kind, m.role), times=behind))
        for name in s.biases:
            add(name, Description(*site, *_bias(s.kind, s.matrices[-1].role)))
        for norm in s.norms:
            inner = norm.where == "within" and sublayer(s.kind).inner is not None
            prefix = "inner_" if inner else ""
            add(norm.gain, Description(*site, Role.NORM_GAIN, f"{prefix}gain"))
            add(norm.bias, Description(*site, Role.NORM_BIAS, f"{prefix}bias", 0.0))
    for norm in reading.norms:
        part = rule.sublayers[-1 if norm.where == "final" else 0].part
        add(norm.gain, Description(part, role=Role.NORM_GAIN, name="gain"))
        add(norm.bias, Description(part, role=Role.NORM_BIAS, name="bias", gain=0.0))
    for part, names in (("embedding", reading.embeddings), ("head", reading.head)):
        for name in names:
            if name not in described:
                # its own multiplier is not known: as it stands, none
                called = "token_embedding" if part == "embedding" else part
                called = TIED if name in reading.head and part == "embedding" else called
                add(name, Description(part, role=Role(part), name=called))
    return {name: tuple(packed) for name, packed in described.items()}


def _bias(kind: str, matrix: str) -> tuple[Role, str, float]:
    name = f"{matrix}_bias"
    named = {v.name: v.role for v in sublayer(kind).vectors}
    return named.get(name, Role.INNER_BIAS), name, 0.0


def asked(d: Description, c: Constants) -> ParameterConstants:
    """What a block steps with: W = cW' where the code multiplies W' by c.

    The embedding follows the first part's constants, the head the last part's.
    """
    outside = {"embedding": c.parts[0].name, "head": c.parts[-1].name}
    part = outside.get(d.part or "", d.part or "")
    row = c.parameter(part, d.sublayer, "token_embedding" if d.name == TIED else d.name, d.role)
    if d.times in (0, 1) or c.optimizer not in OPTIMIZERS:
        return row
    powers = stepping(OPTIMIZERS[c.optimizer]).items()
    return replace(row, **{k: getattr(row, k) * math.pow(d.times, by) for k, by in powers})


def slowest(
    blocks: Sequence[Description], c: Constants
) -> tuple[ParameterConstants, Description, bool]:
    """What a parameter's slowest block steps with, that block, and whether all have its rate."""
    rows = [(asked(d, c), d) for d in blocks]
    row, d = min(rows, key=lambda one: one[0].rate)
    return row, d, all(math.isclose(other.rate, row.rate) for other, _ in rows)


def role_of(d: Description) -> str:
    if d.role is Role.EMBEDDING:
        return "token-embedding"
    if d.role in (Role.NORM_GAIN, Role.NORM_BIAS):
        return d.role.value if d.sublayer is not None else f"final-{d.role.value}"
    return role_name(d.name)


def blocks(model: nn.Module, m: FoundMatrix) -> Iterator[Tensor]:
    """The entries of one matrix, in place: runs of outputs of its parameter."""
    parameter = model.get_parameter(m.name).detach()
    for start, end in m.outputs:
        yield parameter.narrow(m.axis, start, end - start)


def where(s: FoundSublayer) -> str:
    return f"{s.stack} layer {s.layer}, {s.kind}"
