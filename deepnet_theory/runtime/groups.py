"""Parameter groups at the derived multipliers, for any torch optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deepnet_theory.runtime.applying import read_
from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.linear import Blocks, Description, described_blocks, mark_of
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.depth import BaseLike, parse_depth
from deepnet_theory.spec.errors import InputError, Refusal, shown
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.parameter import ParameterConstants
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.sublayer import MATRICES, Role, role_name

Multipliers = tuple[float, float, float]  # of learning rate, ε and weight decay


def parameter_groups(
    model: nn.Module,
    lr: float,
    *,
    eps: float | None = None,
    weight_decay: float = 0.0,
    constants: Constants | str | Path | None = None,
    base: BaseLike | None = None,
    inputs: object = None,
    roles: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    r"""One group for all parameters of a part and role that step alike.

    .. math:: \mathrm{lr}\cdot\eta\cdot\mathrm{rate}, \qquad
              \mathrm{eps}\cdot\mathrm{epsilon}, \qquad
              \mathrm{weight\_decay}\cdot\mathrm{weight\_decay}

    are its ``lr``, ``eps`` and ``weight_decay``, with η and the multipliers by kind of parameter
    of ``constants``, or of those that the model was built from. A group's values take
    the place of what the optimizer itself is given, so that all three belong here. ``eps`` is by
    default that of the library's optimizer that the constants were made for; one without an
    epsilon gets none. Gains and biases do not decay.

    The embedding follows the first part's constants and the head the last part's. Each group has
    a ``name`` such as ``"encoder/norm-gain"``, followed by the kind of sublayer and the parameters
    where they are told apart, ``"encoder/scaled/ffn/fc2"``, and its ``role``, ``"query"`` or
    ``"fc1+fc2"``. With constants that are relative to a base each role has groups of its own, and
    ``lr``, ``eps`` and ``weight_decay`` are the base's. ``base``, its width or (width, depth), asks
    for such groups where the constants have none; the head's multiplier and size are then yours to
    set. Works on a model wrapped by
    ``torch.compile``, DDP or FSDP2.

    A model of one's own is known here after :func:`apply_`; before, as when it was loaded, one
    forward pass on ``inputs`` shows what its parameters are (``roles`` as there). What is of no
    sublayer, embedding, head or norm is stepped at ``lr``, in the group ``"other"``. Query, key
    and value packed into one parameter step at the least of their rates, and a norm gain near 1
    loses a step that its type does not resolve there: a :class:`UserWarning` says so.

    Raises :class:`InputError` where no constants are known, :class:`Refusal` where they do not
    fit the model.
    """
    own = constants_of(model)
    if own is None and constants is None:
        raise InputError(
            f"this {type(model).__name__} was not made by deepnet_theory.runtime.build; give its "
            "constants, or put them into it with apply_"
        )
    used = own if constants is None else checked(constants)
    assert used is not None
    if base is not None:
        used = _based(used, base)
    if own is None:
        read_(model, used, inputs, roles)
    elif _layers(used) != _layers(own):
        raise InputError(
            f"the constants are for {_layers(used)} and the model was built with {_layers(own)}"
        )
    if base is not None and own is not None and own.outer != used.outer:
        gain = used.outer.get("head", used.outer["embedding"]).gain
        warnings.warn(
            "the model's own constants have not this base: multiply what enters its head by "
            f"{used.head_multiplier:.4g} and draw it {gain:.4g} times Xavier's size",
            stacklevel=2,
        )
    known = list(described_blocks(model))
    groups = grouped(known, used, lr, eps, weight_decay)
    seen = {id(p) for p, _ in known}
    others = [p for p in model.parameters() if id(p) not in seen]
    for decays in (True, False):
        members = [p for p in others if (p.dim() > 1) is decays]
        if members:
            decay = weight_decay if decays else 0.0
            groups.append(
                {"params": members, "lr": lr, "weight_decay": decay, "name": "other",
                 "role": "other"}
            )  # fmt: skip
    _warn_of_lost_steps(groups)
    return groups


def grouped(
    parameters: Iterable[tuple[nn.Parameter, Blocks]], c: Constants, lr: float,
    eps: float | None, weight_decay: float,
) -> list[dict[str, Any]]:  # fmt: skip
    """The groups of described parameters, as :func:`parameter_groups` says."""
    optimizer = optimizers().get(c.optimizer)
    epsilon = eps if eps is not None or optimizer is None else optimizer.epsilon
    found: dict[tuple[str, str], dict[Multipliers, list[tuple[nn.Parameter, Description]]]] = {}
    packed: list[str] = []
    for parameter, descriptions in parameters:
        own, d, one_rate = slowest(descriptions, c)
        if not one_rate:
            packed.append("+".join(d.name for d in descriptions))
        if weight_decay and not own.weight_decay and c.outer and d.role in MATRICES:
            raise Refusal(f"{role_of(d)}: {own.formulas.get('weight_decay', 'no weight decay')}")
        alike = found.setdefault((d.part or "", role_of(d) if c.outer else d.role.value), {})
        multipliers = own.rate, own.epsilon, own.weight_decay
        alike.setdefault(multipliers, []).append((parameter, d))
    if packed:
        warnings.warn(
            f"{packed[0]} are packed into one parameter and would step at different rates: they "
            "step at the least of them",
            stacklevel=3,
        )
    groups = []
    for (part, role), of in found.items():
        named = _names([[d for _, d in members] for members in of.values()])
        for (multipliers, members), name in zip(of.items(), named, strict=True):
            rate, times_epsilon, decay = multipliers
            group: dict[str, Any] = {
                "params": [parameter for parameter, _ in members],
                "lr": lr * c.eta * rate,
                "weight_decay": weight_decay * decay,
                "name": "/".join((part, role, *name)),
                "role": "+".join(dict.fromkeys(role_of(d) for _, d in members)),
            }
            if epsilon is not None:
                group["eps"] = epsilon * times_epsilon
            groups.append(group)
    return groups


def role_of(d: Description) -> str:
    """The public name of a parameter's role."""
    if d.role is Role.EMBEDDING:
        return "token-embedding"
    if d.role in (Role.NORM_GAIN, Role.NORM_BIAS):
        return d.role.value if d.sublayer is not None else f"final-{d.role.value}"
    return role_name(d.name)


def _based(c: Constants, base: BaseLike) -> Constants:
    """The constants relative to a base: as they are where they say so, else by the algebra.

    Raises :class:`InputError` where they are relative to another one.
    """
    own = c.origin.get("base")
    if not c.outer or not isinstance(own, dict):
        # most constants say all that is asked of them, and need no algebra
        from deepnet_theory.sizes.exported import based

        return based(c, base)
    width, depth = base if isinstance(base, tuple | list) and len(base) == 2 else (base, None)
    known = own.get("depth") and list(own["depth"].values())
    asked = depth and list(parse_depth(depth, stack(c.stack)).values())
    if (width, asked) != (own.get("width"), known):
        raise InputError(
            f"the constants are relative to a base of width {own.get('width')} and depth {known}, "
            f"not to {shown(base)}"
        )
    return c


def slowest(
    blocks: Sequence[Description], c: Constants
) -> tuple[ParameterConstants, Description, bool]:
    """What the slowest block of a parameter steps with, that block, and whether all have its rate.

    The embedding follows the first part's constants and the head the last part's.
    """
    outside = {"embedding": c.parts[0].name, "head": c.parts[-1].name}
    asked = [
        (c.parameter(outside.get(d.part or "", d.part or ""), d.sublayer, d.name, d.role), d)
        for d in blocks
    ]
    own, d = min(asked, key=lambda one: one[0].rate)
    return own, d, all(other.rate == own.rate for other, _ in asked)


def _warn_of_lost_steps(groups: Iterable[dict[str, Any]]) -> None:
    """Say that norm gains near 1 do not resolve a step of their group's learning rate."""
    for group in groups:
        if Role.NORM_GAIN.value not in group["name"]:
            continue
        for parameter in group["params"]:
            resolved = torch.finfo(parameter.dtype).eps
            if group["lr"] < resolved:
                warnings.warn(
                    f"norm gains near 1 resolve {resolved:.1g} in {parameter.dtype}: steps of "
                    f"{group['lr']:.1g} are rounded away; keep the gains in float32, or as 1 + w "
                    "with w learnt",
                    stacklevel=3,
                )
                return


def _layers(c: Constants) -> str:
    return " and ".join(f"{p.layers} {p.name} layers of {p.described()}" for p in c.parts)


def _names(groups: list[list[Description]]) -> list[tuple[str, ...]]:
    """What tells the groups of one role apart: nothing, the kind of sublayer, the parameters."""
    kinds = ["+".join(dict.fromkeys(d.kind or "final" for d in members)) for members in groups]
    names = ["+".join(dict.fromkeys(d.name for d in members)) for members in groups]
    if len(groups) == 1:
        return [()]
    if len(set(kinds)) == len(kinds):
        return [(kind,) for kind in kinds]
    return list(zip(kinds, names, strict=True))


def constants_of(model: nn.Module) -> Constants | None:
    """The constants that a model, wrapped or not, was built from, or that were put into it."""
    for module in model.modules():
        constants = getattr(module, "constants", None)
        if isinstance(constants, Constants):
            return constants
    mark = mark_of(model)
    return None if mark is None else mark[0]
