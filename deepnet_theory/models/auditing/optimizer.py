"""A torch optimizer of one's own: what it is called here, and what its groups say."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from deepnet_theory.models.auditing.steps import STEPPED
from deepnet_theory.models.factory import Made
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.optimizer import optimizers


def name_and_groups(
    optimizer: Optimizer, model: nn.Module | Made
) -> tuple[str, dict[str, dict[str, float]]]:
    """The name of its first update; ``lr``, ``eps`` and ``weight_decay`` of every parameter.

    The second is by parameter name, and then by those three, without what the optimizer lacks.
    """
    if not isinstance(optimizer, Optimizer):
        raise InputError(
            f"{type(optimizer).__name__} is no torch optimizer; give one, or the name of one"
        )
    name = type(optimizer).__name__.lower()
    if name == "sgd" and any(group.get("nesterov") for group in optimizer.param_groups):
        name = "nesterov"
    if name not in optimizers():
        raise InputError(
            f"the optimizer {type(optimizer).__name__} is none of {', '.join(optimizers())}; give "
            "the name of the one whose first update is its own"
        )
    module = model.module if isinstance(model, Made) else model
    names = {id(p): n for n, p in module.named_parameters()}
    return name, {
        names[id(p)]: {knob: float(group[knob]) for knob in STEPPED if knob in group}
        for group in optimizer.param_groups
        for p in group["params"]
        if id(p) in names
    }
