"""Parameter groups with the derived learning-rate multipliers, for any torch optimizer."""

from __future__ import annotations

from typing import Any

from torch import nn

from deepnet_theory.runtime.description import described
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.sublayer import Role


def parameter_groups(model: nn.Module, lr: float) -> list[dict[str, Any]]:
    r"""One group a part and role, with its learning rate.

    .. math:: \mathrm{lr}_{\text{part, role}} =
              \mathrm{lr}\cdot\eta\cdot\mathrm{multiplier}_{\text{part, role}}

    η and the multipliers are those of the model's constants; a role without one takes 1. The
    embedding follows the first part's multipliers and the head the last part's. Each group has
    a ``name`` such as ``"encoder/norm-gain"``; scaled matrices whose kinds of sublayers take
    different rates have a group each, ``"encoder/scaled/ffn"``. Works on a model wrapped by
    ``torch.compile``, DDP or FSDP2. Norm gains stay near 1, where single precision resolves
    6e-8 to 1.2e-7: a smaller step of theirs, as 1/N with a small ``lr`` may make, is rounded
    away. Raises
    :class:`InputError` for a model that :func:`build` did not make.
    """
    c = constants_of(model)
    outside = {"embedding": c.parts[0].name, "head": c.parts[-1].name}
    found: dict[tuple[str, Role], dict[float, list[tuple[nn.Parameter, str | None]]]] = {}
    for parameter, d in described(model):
        part = d.part or ""
        times = c.multiplier(outside.get(part, part), d.role, d.sublayer)
        found.setdefault((part, d.role), {}).setdefault(times, []).append((parameter, d.kind))
    return [
        {
            "params": [parameter for parameter, _ in members],
            "lr": lr * c.eta * times,
            "name": "/".join((part, role.value, *((members[0][1] or "",) * (len(of) > 1)))),
        }
        for (part, role), of in found.items()
        for times, members in of.items()
    ]


def constants_of(model: nn.Module) -> Constants:
    """The constants that a model, wrapped or not, was built from."""
    for module in model.modules():
        constants = getattr(module, "constants", None)
        if isinstance(constants, Constants):
            return constants
    raise InputError(f"this {type(model).__name__} was not made by deepnet_theory.runtime.build")
