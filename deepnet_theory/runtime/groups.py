"""Parameter groups at the derived multipliers, for any torch optimizer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn

from deepnet_theory.runtime.building import checked
from deepnet_theory.runtime.description import Description, described
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.parameter import ParameterConstants
from deepnet_theory.spec.sublayer import Role


def parameter_groups(
    model: nn.Module,
    lr: float,
    *,
    eps: float | None = None,
    weight_decay: float = 0.0,
    constants: Constants | str | Path | None = None,
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
    where they are told apart, ``"encoder/scaled/ffn/fc2"``. Works on a model wrapped by
    ``torch.compile``, DDP or FSDP2. Norm gains stay near 1, where single precision resolves
    6e-8 to 1.2e-7: a smaller step of theirs, as 1/N with a small ``lr`` may make, is rounded
    away. Raises
    :class:`InputError` for a model that :func:`build` did not make.
    """
    own = constants_of(model)
    used = own if constants is None else checked(constants)
    if _layers(used) != _layers(own):
        raise InputError(
            f"the constants are for {_layers(used)} and the model was built with {_layers(own)}"
        )
    return grouped(described(model), used, lr, eps, weight_decay)


def grouped(
    parameters: Iterable[tuple[nn.Parameter, Description]],
    c: Constants,
    lr: float,
    eps: float | None,
    weight_decay: float,
) -> list[dict[str, Any]]:
    """The groups of described parameters, as :func:`parameter_groups` says."""
    outside = {"embedding": c.parts[0].name, "head": c.parts[-1].name}
    optimizer = optimizers().get(c.optimizer)
    epsilon = eps if eps is not None or optimizer is None else optimizer.epsilon
    found: dict[tuple[str, Role], dict[tuple[float, ...], list[tuple[nn.Parameter, Description]]]]
    found = {}
    for parameter, d in parameters:
        part = d.part or ""
        own = c.parameter(outside.get(part, part), d.sublayer, d.name, d.role)
        alike = found.setdefault((part, d.role), {})
        alike.setdefault(_multipliers(own), []).append((parameter, d))
    groups = []
    for (part, role), of in found.items():
        named = _names([[d for _, d in members] for members in of.values()])
        for (multipliers, members), name in zip(of.items(), named, strict=True):
            rate, times_epsilon, decay = multipliers
            group: dict[str, Any] = {
                "params": [parameter for parameter, _ in members],
                "lr": lr * c.eta * rate,
                "weight_decay": weight_decay * decay,
                "name": "/".join((part, role.value, *name)),
            }
            if epsilon is not None:
                group["eps"] = epsilon * times_epsilon
            groups.append(group)
    return groups


def _layers(c: Constants) -> str:
    return " and ".join(
        f"{p.layers} {p.name} layers of {', '.join(s.kind for s in p.sublayers)}" for p in c.parts
    )


def _multipliers(own: ParameterConstants) -> tuple[float, float, float]:
    return own.rate, own.epsilon, own.weight_decay


def _names(groups: list[list[Description]]) -> list[tuple[str, ...]]:
    """What tells the groups of one role apart: nothing, the kind of sublayer, the parameters."""
    kinds = ["+".join(dict.fromkeys(d.kind or "final" for d in members)) for members in groups]
    names = ["+".join(dict.fromkeys(d.name for d in members)) for members in groups]
    if len(groups) == 1:
        return [()]
    if len(set(kinds)) == len(kinds):
        return [(kind,) for kind in kinds]
    return list(zip(kinds, names, strict=True))


def constants_of(model: nn.Module) -> Constants:
    """The constants that a model, wrapped or not, was built from."""
    for module in model.modules():
        constants = getattr(module, "constants", None)
        if isinstance(constants, Constants):
            return constants
    raise InputError(f"this {type(model).__name__} was not made by deepnet_theory.runtime.build")
